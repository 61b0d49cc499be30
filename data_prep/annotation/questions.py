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
    """Instructions for annotators on one dimension, which is an issue (yes or no) or a rating
    (a number).

    Attributes:
        title: The heading. By default the name of the dimension.
        ask: The question. By default the common question for issues or for ratings.
        mark: Only for issues: when to answer yes.
        leave: Only for issues: when to answer no.
        grades: Only for ratings: what each level of the scale means, from the lowest to the
            highest.
    """

    title: str = ""
    ask: str = ""
    mark: str = ""
    leave: str = ""
    grades: tuple[str, ...] = ()


class Guidelines(Config):
    """The instructions for annotators, from a YAML file in configs/annotation/.

    Attributes:
        title: The heading.
        settings: Kind of chat, such as ``open-domain`` or ``support`` -> first paragraph of the
            introduction.
        intro: The further paragraphs of the introduction.
        asks: Kind of question -> its default wording. The kinds are ``binary`` (issues),
            ``ordinal`` (ratings), and ``other_text`` and ``comment`` (free texts).
        dimensions: Name of a dimension, such as ``repetitive`` -> its criteria.
    """

    title: str
    settings: dict[str, str]
    intro: tuple[str, ...]
    asks: dict[Literal["binary", "ordinal", "comment", "other_text"], str]
    dimensions: Mapping[str, Criteria] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnnotationQuestion:
    """The question that annotators see about one dimension, with its criteria.

    The dimension is an issue (yes or no) or a rating (a number).

    Attributes:
        dimension: The dimension that the question is about.
        title: The heading.
        ask: The question.
        mark: When to answer yes. Empty for a rating.
        leave: When to answer no. Empty for a rating.
        grades: What each level of a rating means, from the lowest to the highest. Empty for an
            issue, or if the guidelines do not say.
    """

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
        """The possible answers from the lowest to the highest, such as ``("no", "yes")`` or
        ``("1", "2", "3")``."""
        if self.dimension.kind == "binary":
            return (NO, YES)
        return tuple(f"{level:g}" for level in self.dimension.levels)

    @property
    def criteria(self) -> list[tuple[str, str]]:
        """(answer, when to give it) pairs, such as ``("3", "Acceptable.")`` or
        ``("yes if", "a message insults somebody.")``."""
        if self.grades:
            return list(zip(self.answers, self.grades, strict=True))
        pairs = ((f"{YES} if", self.mark), (f"{NO} if", self.leave))
        return [(name, text) for name, text in pairs if text]


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one annotator entered about one dialogue.

    Attributes:
        where: The file and its row or task, for error messages.
        key: The dialogue's key, such as ``d41b0c0ffee12``, which annotators see in place of its id.
        annotator: The name of the annotator.
        values: Dimension -> rating. It is the text as entered, such as ``"4"``. In a checked
            annotation it is a number, or None for an invalid rating.
        texts: ``other_text`` or ``comment`` -> the free text entered there.
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
    """Returns the instructions for annotators in the YAML file ``name_or_path``, with the
    introduction for ``setting``.

    Args:
        name_or_path: A path, or the name of a file in configs/.
        setting: The kind of chat that the introduction describes: ``open-domain``, ``support`` or
            another key of ``settings`` in the file.

    Raises:
        ConfigError: The file is malformed or does not describe ``setting``.
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
    """Returns the dimensions of ``rubric`` that annotators rate.

    Args:
        rubric: A shipped name such as ``medal``, or the path of a YAML file.
        human_likeness: Whether to add the dimension of how human the simulated user sounds (MEDAL,
            section 3.5).

    Raises:
        ConfigError: A dimension is continuous, so it has no levels from which annotators could
            choose.
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
    """Returns one question for each of ``dimensions``, worded by ``guidelines``. Raises ConfigError
    if ``guidelines`` describe only some levels of a dimension.
    """
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
