"""Survey: one pass over the rows of a set; a few numbers a row are kept, texts are not."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.corpus_stats.lemmas import Lemmatiser, Unit, lemmatiser, length, unit_of
from medal_judges.data_prep.corpus_stats.mtld import UNDEFINED, RunTogether, mtld
from medal_judges.dialogue import Turn
from medal_judges.errors import MedalError
from medal_judges.labelled import LabelledDialogue
from medal_judges.rating import Scale, mean
from medal_judges.signature import content_hash
from medal_judges.stats.results import Estimate
from medal_judges.stats.weights import USED, Weights, curation_weight, unused

Floats = npt.NDArray[np.float64]
Side = Literal["all", "user", "assistant"]
SIDES: tuple[Side, ...] = ("all", "user", "assistant")
NOT_STATED = "not stated"
PRESENT_FROM = 0.5  # a mean of answers from here on counts as 1
# What is kept of a row by type code: whole numbers take 4 bytes. ``first`` and ``later`` are the
# tries of user turns, ``ended`` an index; 0 and -1 stand for what a row does not say.
_COLUMNS = {
    **dict.fromkeys(("part", "group", "turns_user", "turns_assistant", "ended"), "i"),
    **dict.fromkeys(("length_user", "length_assistant"), "i"),
    **dict.fromkeys(("first", "later_turns", "later_tries", "later_at_once", "later_most"), "i"),
    **dict.fromkeys(("weight", "mtld_all", "mtld_user", "mtld_assistant"), "d"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """Dialogues of one language, chatbot and user model; None stands for all of them."""

    lang: str | None = None
    chatbot: str | None = None
    user: str | None = None

    def holds(self, other: Part) -> bool:
        """True where ``other``, which names all three, belongs to this part."""
        return (
            self.lang in (None, other.lang)
            and self.chatbot in (None, other.chatbot)
            and self.user in (None, other.user)
        )

    @property
    def label(self) -> str:
        """What stands at the head of a row: the names of the part, or ``all``."""
        names = (self.lang, self.chatbot, self.user)
        return " · ".join(name for name in names if name is not None) or "all"


ALL = Part()


@dataclass(frozen=True, slots=True)
class ScaledDimension:
    """A dimension as the rows have it: the same name on another scale is another dimension."""

    name: str
    scale: Scale | None


class Survey:
    """What is known of the rows seen so far. ``levels`` counts rows by level, ``sources`` by the
    source that they name, ``labelled_by`` by the signature of a judge that labelled them;
    ``failed`` rows lack a label by a judge's failure, ``malformed`` ones were set apart by their
    user's faults, ``unreadable`` ones have ends or tries in another form than ``medal generate``
    writes. Several answers to one question are their mean: ``repeated`` rows have some,
    ``answered`` rows any. ``lemmatisers`` holds what split each language. ``curated`` rows carry a
    weight of a selection, which counts where ``weights`` says so."""

    def __init__(self, *, lemmas: bool = True, weights: Weights = "none") -> None:
        self.lemmas = lemmas
        self.weights = weights
        self.levels: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.labelled_by: Counter[str] = Counter()
        self.failed = self.malformed = self.unreadable = self.curated = 0
        self.answered = self.repeated = 0
        self.lemmatisers: dict[str, Lemmatiser] = {}
        self._columns: dict[str, Any] = {name: array(code) for name, code in _COLUMNS.items()}
        self._labels: dict[ScaledDimension, array[float]] = {}
        self._between: set[ScaledDimension] = set()  # with an answer that is neither 0 nor 1
        self._parts: dict[Part, int] = {}
        self._groups: dict[str, int] = {}
        self._endings: dict[str, int] = {}
        self._together: dict[Part, RunTogether] = {}
        self._seen: set[int] = set()
        self._contents: list[str] = []

    def add(self, row: LabelledDialogue) -> None:
        """Count a row in. Raises MedalError for an id that came before, and where weights are
        asked for and the row has none."""
        mark = hash(row.id)  # 8 bytes a row instead of the id
        if mark in self._seen:
            raise MedalError(
                f"the id {row.id!r} comes twice: its dialogue would be counted twice",
                hint="give every dialogue in one file only",
            )
        self._seen.add(mark)
        models, weight = row.dialogue.models, self._weight(row)
        chatbot, user = (models.get(role) or NOT_STATED for role in ("assistant", "user"))
        part = Part(row.dialogue.lang, chatbot, user)
        self._add_labels(row)
        kept = {
            "part": self._parts.setdefault(part, len(self._parts)),
            "group": self._groups.setdefault(row.group, len(self._groups)),
            "weight": weight,
            **self._course(row.extra),
            **self._texts(row.dialogue.turns, part),
        }
        for name, value in kept.items():
            self._columns[name].append(value)
        self.levels[row.level] += 1
        self.sources[row.dialogue.source or NOT_STATED] += 1
        self._contents.append(content_hash(row.to_record()))
        if isinstance(by := row.extra.get("labels_by"), str):
            self.labelled_by[by] += 1
        self.failed += "label_failure" in row.extra
        self.malformed += "malformed" in row.extra

    def _weight(self, row: LabelledDialogue) -> float:
        stated = curation_weight(row)
        self.curated += stated is not None
        if self.weights == "none":
            return 1
        if stated is None:
            raise MedalError(
                f"--weights {self.weights}: the row {row.id!r} has no curation.weight",
                hint="medal curate writes weights into all rows; leave out --weights to count "
                "all rows alike",
            )
        return stated

    def _add_labels(self, row: LabelledDialogue) -> None:
        values = {
            ScaledDimension(rating.dimension, rating.scale): (value, rating.given)
            for rating in row.ratings()
            if (value := mean(rating)) is not None
        }
        for dimension, (value, given) in values.items():
            column = self._labels.setdefault(dimension, array("d"))
            column.extend([nan] * (self.rows - len(column)))
            column.append(value)
            if any(answer not in (0, 1) for answer in given):
                self._between.add(dimension)
        self.answered += bool(values)
        self.repeated += any(len(given) > 1 for _, given in values.values())

    def _course(self, extra: Mapping[str, Any]) -> dict[str, int]:
        """How a generated dialogue ended, and the tries of its user turns."""
        ended, tries = extra.get("ended"), extra.get("tries")
        whole = isinstance(tries, list) and all(type(n) is int and n > 0 for n in tries)
        odd = not (ended is None or isinstance(ended, str)) or not (tries is None or whole)
        self.unreadable += odd
        first, *later = tries if whole and tries else [0]
        code = self._endings.setdefault(ended, len(self._endings)) if type(ended) is str else -1
        return {
            "ended": code,
            "first": first,
            "later_turns": len(later),
            "later_tries": sum(later),
            "later_at_once": later.count(1),
            "later_most": max(later, default=0),
        }

    def _texts(self, turns: Sequence[Turn], part: Part) -> dict[str, float]:
        """Turns, lengths and lexical diversity of a dialogue and its sides, each as one text."""
        lang = str(part.lang)
        if lang not in self.lemmatisers:
            self.lemmatisers[lang] = lemmatiser(lang, lemmas=self.lemmas)
        split, unit = self.lemmatisers[lang].split, unit_of(lang)
        kept: dict[str, float] = {}
        for role in ("user", "assistant"):
            mine = [turn.content for turn in turns if turn.role == role]
            kept[f"turns_{role}"] = len(mine)
            kept[f"length_{role}"] = sum(length(text, unit) for text in mine)
        tokens: dict[Side, list[str]] = {side: [] for side in SIDES}
        if split is not None:
            for turn in turns:
                words = split(turn.content)
                tokens["all"] += words
                tokens[turn.role] += words
            for joined in (Part(part.lang), Part(part.lang, part.chatbot)):
                self._together.setdefault(joined, RunTogether()).add(tokens["all"])
        for side, text in tokens.items():
            value = mtld(text)
            kept[f"mtld_{side}"] = nan if value is None else value
        return kept

    @property
    def rows(self) -> int:
        return len(self._columns["part"])

    @property
    def data(self) -> str:
        """12 hex digits over everything in the rows, whatever their order, as in the signatures
        of a benchmark."""
        return content_hash(sorted(self._contents))

    @property
    def weighting(self) -> str | None:
        """How rows count where that is not alike, or might not be."""
        if self.weights != "none":
            return USED
        return unused(self.curated, self.rows) if self.curated else None

    @property
    def parts(self) -> list[Part]:
        """The finest parts that rows belong to, in order of appearance."""
        return list(self._parts)

    @property
    def endings(self) -> list[str]:
        """How dialogues ended, in order of appearance."""
        return list(self._endings)

    @property
    def dimensions(self) -> list[ScaledDimension]:
        """In order of appearance."""
        return list(self._labels)

    @property
    def units(self) -> list[Unit]:
        """The units of the languages seen, words first."""
        return sorted({unit_of(str(part.lang)) for part in self._parts}, reverse=True)

    def is_share(self, dimension: ScaledDimension) -> bool:
        """True where every answer is 0 or 1: the figure is the share of rows at 1."""
        return dimension.scale == (0, 1) and dimension not in self._between

    def select(self, part: Part) -> dict[str, Floats]:
        """The columns of the rows of ``part``, by name, each of shape (rows,)."""
        inside = self._inside(part)
        return {
            name: np.asarray(column)[inside].astype(np.float64)
            for name, column in self._columns.items()
        }

    def labels(self, part: Part, dimension: ScaledDimension) -> Floats:
        """Of the rows of ``part``: the mean of the answers, NaN where a row has none; of a share 1
        from 0.5 on, else 0."""
        values = np.full(self.rows, nan)
        given = np.asarray(self._labels[dimension])
        values[: len(given)] = given
        if self.is_share(dimension):
            values = np.where(np.isnan(values), nan, values >= PRESENT_FROM)
        return values[self._inside(part)]

    def _inside(self, part: Part) -> npt.NDArray[np.bool_]:
        held = np.array([part.holds(each) for each in self._parts], dtype=bool)
        return held[np.asarray(self._columns["part"])] if self.rows else np.empty(0, bool)

    def together(self, part: Part) -> Estimate:
        """MTLD of the dialogues of ``part`` run together, by language and by its chatbots."""
        if self.weights != "none":
            return Estimate(None, reason="texts run together have no weights")
        langs = {each.lang for each in self._parts if part.holds(each)}
        if part.lang is None and len(langs) != 1:
            return Estimate(None, reason="texts of several languages are not run together")
        joined = self._together.get(Part(part.lang or langs.pop(), part.chatbot, part.user))
        if joined is None:
            reason = self.unsplit(part) or "run together by language and chatbot only"
            return Estimate(None, reason=reason)
        return Estimate(joined.value, reason=None if joined.value is not None else UNDEFINED)

    def unsplit(self, part: Part) -> str:
        """Why languages of ``part`` have no tokens; empty where all have."""
        langs = {str(each.lang) for each in self._parts if part.holds(each)}
        tools = [self.lemmatisers[lang] for lang in langs]
        return "; ".join(sorted({tool.name for tool in tools if tool.split is None}))


def survey(
    rows: Iterable[LabelledDialogue], *, lemmas: bool = True, weights: Weights = "none"
) -> Survey:
    """Read the rows once. Raises MedalError for an id that comes twice or a row without the weight
    asked for, and MissingExtraError."""
    surveyed = Survey(lemmas=lemmas, weights=weights)
    for row in rows:
        surveyed.add(row)
    return surveyed
