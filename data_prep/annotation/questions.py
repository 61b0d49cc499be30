"""What annotators answer: one question per dimension with its criteria, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.records.dimension import Dimension, load_rubric

TEMPLATES = "medal_judges.data_prep.annotation"  # the package with the templates
YES = "yes"
NO = "no"
# free texts beside the dimensions
OTHER_TEXT = "other_text"
COMMENT = "comment"
EMPTY = "[empty message]"


class Criteria(Config):
    """Instructions for one dimension: its ``title``, the question to ``ask``, and how to decide.
    For an issue, ``mark`` says when to mark it and ``leave`` when not. For a rating, ``grades``
    says what each level means."""

    title: str = ""
    ask: str = ""
    mark: str = ""
    leave: str = ""
    grades: tuple[str, ...] = ()


class Guidelines(Config):
    """The instructions for annotators, from a file of configs/annotation/.

    ``settings`` maps each setting in which dialogues were held to the first paragraph of the
    introduction. ``intro`` has the following paragraphs. ``asks`` has the question for dimensions
    without their own one, by kind (``binary``, ``ordinal``), and the questions for the free texts
    ``comment`` and ``other_text``. ``dimensions`` has the criteria of each dimension. ``title`` is
    the heading.
    """

    title: str
    settings: dict[str, str]
    intro: tuple[str, ...]
    asks: dict[Literal["binary", "ordinal", "comment", "other_text"], str]
    dimensions: Mapping[str, Criteria] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnnotationQuestion:
    """The question about one dimension that annotators see. ``grades`` describes each level of a
    rating. It is empty for an issue or a rating without descriptions."""

    dimension: Dimension
    title: str
    ask: str
    mark: str
    leave: str
    grades: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.dimension.name

    @property
    def answers(self) -> tuple[str, ...]:
        """The possible answers, in the order of ``dimension.levels``."""
        if self.dimension.kind == "binary":
            return (NO, YES)
        return tuple(f"{level:g}" for level in self.dimension.levels)

    @property
    def criteria(self) -> list[tuple[str, str]]:
        """Pairs that say which answer to give when: each level with its description, or ``yes if``
        and ``no if`` with theirs."""
        if self.grades:
            return list(zip(self.answers, self.grades, strict=True))
        pairs = ((f"{YES} if", self.mark), (f"{NO} if", self.leave))
        return [(name, text) for name, text in pairs if text]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one annotator about the dialogue ``key``.

    ``where`` names the file and its row or task. ``values`` maps a dimension to the text that was
    entered. After ``check_answers`` it maps a dimension to a level or None. ``texts`` has the free
    texts (``other_text``, ``comment``).
    """

    where: str
    key: str
    annotator: str
    values: Mapping[str, Any]
    texts: Mapping[str, str] = field(default_factory=dict)


def load_guidelines(
    name_or_path: str = "annotation/guidelines",
    setting: str = "open-domain",
) -> Guidelines:
    """Returns the guidelines in the YAML file ``name_or_path``, or in the file of that name in
    configs/. The paragraph for ``setting`` is put before their ``intro``.

    Raises ConfigError if the file is malformed or has no such setting.
    """
    data = read_yaml(name_or_path)
    guidelines = build_config(Guidelines, data, where=str(name_or_path))
    if setting not in guidelines.settings:
        raise ConfigError(
            f"{name_or_path}: no setting {setting!r}",
            hint=f"Use one of: {', '.join(guidelines.settings)}",
        )
    intro = (guidelines.settings[setting], *guidelines.intro)
    return guidelines.model_copy(update={"intro": intro})


def dimensions_to_ask(
    rubric: str = "medal", *, human_likeness: bool = False
) -> list[Dimension]:
    """Returns the dimensions of ``rubric``. With ``human_likeness``, adds ``user_human_likeness``
    (MEDAL, section 3.5).

    Raises ConfigError if a dimension is continuous, because it has no choices.
    """
    dimensions = [*load_rubric(rubric)]
    if human_likeness:
        dimensions += load_rubric("human_likeness")
    for dimension in dimensions:
        if dimension.kind == "continuous":
            raise ConfigError(
                f"rubric {rubric}: {dimension.name!r} is continuous, so there is nothing to choose",
                hint="Make it ordinal, with whole numbers from low to high",
            )
    return dimensions


def make_questions(
    dimensions: Sequence[Dimension], guidelines: Guidelines
) -> list[AnnotationQuestion]:
    """Returns one question for each of ``dimensions``, in the words of ``guidelines``. Raises
    ConfigError if the guidelines do not describe exactly the levels of a dimension's scale."""
    questions = []
    for dimension in dimensions:
        entry = guidelines.dimensions.get(dimension.name, Criteria())
        if entry.grades and len(entry.grades) != len(dimension.levels):
            raise ConfigError(
                f"guidelines: {dimension.name} has {len(entry.grades)} grades, but its scale "
                f"{dimension.low:g} to {dimension.high:g} has {len(dimension.levels)} levels"
            )
        kind: Literal["binary", "ordinal"] = "ordinal"
        if dimension.kind == "binary":
            kind = "binary"
        title = entry.title or dimension.name.replace("_", " ").capitalize()
        ask = entry.ask or guidelines.asks[kind]
        mark = entry.mark.strip()
        leave = entry.leave.strip()
        questions.append(
            AnnotationQuestion(dimension, title, ask, mark, leave, entry.grades)
        )
    return questions
