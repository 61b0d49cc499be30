"""What is asked of an answer, and what was read in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medal_judges.config import Config

Scale = tuple[float, float]
AnswerFormat = Literal["json", "number", "word", "none"]
# schema: strict JSON that the backend enforced. json: strict JSON. tolerant: anything else.
# again: the number alone, in answer to a second question.
Step = Literal["schema", "json", "tolerant", "again"]


class AnswerShape(Config):
    """``format`` json: an object; ``score`` and ``comment`` are its fields (no comment when None).
    Asked together, each dimension has an object of its own, or a bare number without comment."""

    format: AnswerFormat = "json"
    score: str = "score"
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerField:
    """What an answer is asked for: a number on ``scale`` for the dimension ``name``.

    ``key``: its name in a JSON answer; ``label``: in words. ``binary``: 0 or 1 only.
    """

    name: str
    key: str
    label: str
    scale: Scale
    binary: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All that the dimension may be called in an answer."""
        return tuple(dict.fromkeys((self.key, self.label, self.name)))


@dataclass(frozen=True, slots=True)
class RatingDistribution:
    """``chances`` [ratings] add up to 1; ``mass`` is what they added up to before. ``samples``: how
    many answers they were counted from, 0 where they were not counted."""

    chances: tuple[float, ...]
    mass: float
    samples: int = 0


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What one answer says of one dimension: a ``value`` on the scale asked for and the ``step``
    that read it, or None and a ``reason``.

    ``start`` and ``end`` say where the number stands in the completion's text, where that is known.
    ``distribution`` is over all ratings that could have stood there, where the model tells one.
    """

    value: float | None
    reason: str | None = None
    step: Step | None = None
    comment: str | None = None
    start: int | None = None
    end: int | None = None
    distribution: RatingDistribution | None = None
