"""From a prompt and a dialogue to messages: what is asked, of which dimensions, in which words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medal_judges.dialogue import Turn
from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError
from medal_judges.languages import UNKNOWN_LANGUAGE
from medal_judges.models.llm.protocol import Message
from medal_judges.models.prompted.examples import Example
from medal_judges.models.prompted.languages import language_name
from medal_judges.models.prompted.parsing.parser import Wanted
from medal_judges.models.prompted.prompt import Aspect, ResolvedPrompt, Scale, fill
from medal_judges.rating import rescale

MOST_LISTED = 11  # a schema lists so many whole numbers, and bounds longer scales


@dataclass(frozen=True, slots=True)
class Shown:
    """What a prompt shows of a dialogue: its turns (None marks a gap), the judged one apart."""

    turns: tuple[Turn | None, ...]
    response: Turn | None


@dataclass(frozen=True, slots=True)
class Question:
    """One request about one or several dimensions."""

    dimensions: tuple[Dimension, ...]
    wanted: tuple[Wanted, ...]


class Asker:
    """Words a prompt for a fixed list of dimensions.

    ``role`` is a name in the prompt's roles, ``none`` for no role, None for the prompt's own choice
    by dimension.
    """

    def __init__(
        self, chosen: ResolvedPrompt, dimensions: Sequence[Dimension], role: str | None
    ) -> None:
        self.chosen, self.dimensions, self.role = chosen, tuple(dimensions), role
        if role not in (None, "none") and role not in chosen.roles:
            known = ", ".join([*chosen.roles, "none"])
            raise ConfigError(f"the prompt has no role {role!r}", hint=f"it has: {known}")
        self.questions = self._questions()

    def _questions(self) -> tuple[Question, ...]:
        wanted = [self._wanted(d) for d in self.dimensions]
        if self.chosen.layout.ask == "together":
            return (Question(self.dimensions, tuple(wanted)),)
        return tuple(Question((d,), (w,)) for d, w in zip(self.dimensions, wanted, strict=True))

    def aspect(self, dimension: Dimension) -> Aspect:
        """What the prompt says of ``dimension``."""
        return self.chosen.aspects.get(dimension.name, Aspect())

    def scale(self, dimension: Dimension) -> Scale:
        """The scale that is asked for."""
        return self.aspect(dimension).scale or (dimension.low, dimension.high)

    def whole(self, dimension: Dimension) -> bool:
        """Whether whole numbers are asked for."""
        own = dimension.kind != "continuous" or self.aspect(dimension).scale is not None
        return own and self.aspect(dimension).whole

    def own(self, value: float, dimension: Dimension) -> float:
        """``value`` of the scale asked for, on the dimension's own (ORALIS, Equation 1)."""
        target = (dimension.low, dimension.high)
        asked = self.scale(dimension)
        return value if asked == target else rescale(value, asked, target)

    def _wanted(self, d: Dimension) -> Wanted:
        aspect = self.aspect(d)
        label = aspect.label or d.name.replace("_", " ")
        return Wanted(d.name, aspect.key or d.name, label, self.scale(d), d.kind == "binary")

    # -- words ---------------------------------------------------------------------------------

    def conversation(self, turns: Sequence[Turn | None]) -> str:
        """One line a turn; line breaks inside a turn become blanks, so none can pose as a turn."""
        names = {"user": self.chosen.user, "assistant": self.chosen.assistant}
        lines = [
            self.chosen.gap if t is None else f"{names[t.role]}: {' '.join(t.content.split())}"
            for t in turns
        ]
        return "\n".join(lines)

    def messages(
        self,
        question: Question,
        shown: Shown,
        examples: Sequence[Example],
        excerpt: int,
        lang: str = UNKNOWN_LANGUAGE,
    ) -> tuple[Message, ...]:
        """The request's messages; ``lang`` is the dialogue's, for ``{language}``. Raises
        ConfigError for a level without words."""
        layout = self.chosen.layout
        parts = layout.dialogue if shown.response is None else layout.turn
        if not parts:
            level = "dialogue" if shown.response is None else "turn"
            raise ConfigError(f"this prompt's layout does not judge at level {level!r}")
        values = self._values(question)
        values["dialogue"] = self.conversation(shown.turns)
        values["response"] = " ".join(shown.response.content.split()) if shown.response else ""
        values["examples"] = self._examples(question, examples, excerpt)
        values["language"] = language_name(lang)
        system = fill(self.chosen.template(layout.system), values)
        user = fill(self.chosen.template(parts), values)
        return (*([Message("system", system)] if system else []), Message("user", user))

    def _values(self, question: Question) -> dict[str, str]:
        each = [self._of_dimension(d) for d in question.dimensions]
        lines = [fill(self.chosen.parts.get("aspect", ""), values) for values in each]
        values = dict(each[0]) if len(each) == 1 else {}
        values.setdefault("role", self._role(question.dimensions[0], each[0]))
        return values | {"aspects": "\n".join(lines), "form": self._form(question)}

    def _of_dimension(self, d: Dimension) -> dict[str, str]:
        aspect, (low, high) = self.aspect(d), self.scale(d)
        values = {
            "key": aspect.key or d.name,
            "label": aspect.label or d.name.replace("_", " "),
            "definition": (aspect.definition or d.definition).strip(),
            "criteria": aspect.criteria.strip(),
            "low": f"{low:g}",
            "high": f"{high:g}",
            "low_means": aspect.low_means,
            "high_means": aspect.high_means,
            "bands": "\n".join(_bands(aspect.bands, low, high, whole=self.whole(d))),
        }
        return values | {"role": self._role(d, values)}

    def _role(self, d: Dimension, values: Mapping[str, str]) -> str:
        name = self.aspect(d).role if self.role is None else self.role
        return fill(self.chosen.roles[name], values) if name and name != "none" else ""

    def _form(self, question: Question) -> str:
        """The shape of a JSON answer, one line a dimension."""
        inner = [self._inner(_number_form(w)) for w in question.wanted]
        if self.chosen.layout.ask == "each":
            return inner[0] if self._nested else f'{{"{self.chosen.answer.score}": {inner[0]}}}'
        lines = [f'  "{w.key}": {each}' for w, each in zip(question.wanted, inner, strict=True)]
        return "{\n" + ",\n".join(lines) + "\n}"

    @property
    def _nested(self) -> bool:
        return self.chosen.answer.comment is not None

    def _inner(self, number: str) -> str:
        answer = self.chosen.answer
        if not self._nested:
            return number
        return f'{{"{answer.score}": {number}, "{answer.comment}": "..."}}'

    def _examples(self, question: Question, examples: Sequence[Example], excerpt: int) -> str:
        if not examples:
            return ""
        d = question.dimensions[0]
        low, high = self.scale(d)
        told = []
        for example in examples:
            text = example.summary if excerpt == 0 else None
            text = text or self.conversation(example.excerpt(excerpt or len(example.turns)))
            score = low + example.scores[d.name] * (high - low)
            values = {"dialogue": text, "score": f"{round(score) if self.whole(d) else score:g}"}
            told.append(fill(self.chosen.parts["example"], values))
        return "\n\n".join(told)

    # -- the schema ----------------------------------------------------------------------------

    def schema(self, question: Question, comment_chars: int | None) -> dict[str, Any]:
        """The JSON schema of an answer; ``comment_chars`` bounds each comment."""
        answer = self.chosen.answer
        comment: dict[str, Any] = {"type": "string"}
        if comment_chars is not None:
            comment["maxLength"] = comment_chars

        def entry(number: dict[str, Any]) -> dict[str, Any]:
            fields = {answer.score: number}
            return _closed(fields | ({answer.comment: comment} if answer.comment else {}))

        numbers = [self._number_schema(d) for d in question.dimensions]
        if self.chosen.layout.ask == "each":
            return entry(numbers[0])
        keys = [w.key for w in question.wanted]
        inner = [entry(n) if self._nested else n for n in numbers]
        return _closed(dict(zip(keys, inner, strict=True)))

    def _number_schema(self, d: Dimension) -> dict[str, Any]:
        low, high = self.scale(d)
        if not self.whole(d):
            return {"type": "number", "minimum": low, "maximum": high}
        if high - low < MOST_LISTED:
            return {"type": "integer", "enum": list(range(int(low), int(high) + 1))}
        return {"type": "integer", "minimum": int(low), "maximum": int(high)}


def _number_form(w: Wanted) -> str:
    return "<0 or 1>" if w.binary else f"<{w.scale[0]:g} to {w.scale[1]:g}>"


def _bands(bands: Sequence[str], low: float, high: float, *, whole: bool) -> list[str]:
    """One line a band with the scores that it covers: equal shares of the scale from the lowest up
    (ORALIS, appendix C.5: 0-20, 21-40, ...)."""
    lines: list[str] = []
    start = low
    for k, band in enumerate(bands, 1):
        end = low + (high - low) * k / len(bands)
        end = math.floor(end + 1e-9) if whole else end
        span = f"{start:g}" if start == end else f"{start:g} to {end:g}"
        lines.append(f"- {span}: {band}")
        start = end + 1 if whole else end
    return lines


def _closed(fields: dict[str, Any]) -> dict[str, Any]:
    """An object with just these fields, all of them required (as OpenAI's strict mode wants it)."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
