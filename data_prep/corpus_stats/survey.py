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
from medal_judges.errors import MedalError
from medal_judges.records.dialogue import Role, Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Scale, mean
from medal_judges.records.signature import content_hash
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.weights import USED, Weights, curation_weight, unused

Floats = npt.NDArray[np.float64]
Side = Literal["all", "user", "assistant"]
SIDES: tuple[Side, ...] = ("all", "user", "assistant")
NOT_STATED = "not stated"
PRESENT_FROM = 0.5  # a mean of answers from here on counts as 1
_SPEAKERS: tuple[Role, ...] = ("user", "assistant")
_TRIES = [f"{which}_{name}" for which in ("first", "later")
          for name in ("turns", "tries", "at_once", "most")]  # fmt: skip
# What is kept of a row, by type code: whole numbers take 4 bytes. ``ended`` is an index, -1 where
# a row does not say; ``first`` and ``later`` are the user turns of a generated dialogue.
_COLUMNS = {
    **dict.fromkeys(("subset", "group", "ended", *_TRIES), "i"),
    **{f"{name}_{role}": "i" for name in ("turns", "length") for role in _SPEAKERS},
    **dict.fromkeys(("weight", *(f"mtld_{side}" for side in SIDES)), "d"),
}


@dataclass(frozen=True, slots=True)
class Subset:
    """Dialogues of one language, chatbot and user model; None stands for all of them."""

    lang: str | None = None
    chatbot: str | None = None
    user: str | None = None

    def holds(self, other: Subset) -> bool:
        """True where ``other``, which names all three, belongs to this subset."""
        return (
            self.lang in (None, other.lang)
            and self.chatbot in (None, other.chatbot)
            and self.user in (None, other.user)
        )

    @property
    def label(self) -> str:
        """What stands at the head of a row: the names of the subset, or ``all``."""
        names = (self.lang, self.chatbot, self.user)
        return " · ".join(name for name in names if name is not None) or "all"


ALL = Subset()


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
    ``answered`` rows any. ``lemmatisers`` holds what split each language, ``subsets`` the finest
    ones that rows belong to, ``endings`` how dialogues ended, each with its index. ``curated``
    rows carry a weight of a selection, which counts where ``weights`` says so."""

    def __init__(self, *, lemmas: bool = True, weights: Weights = "none") -> None:
        self.lemmas = lemmas
        self.weights = weights
        self.levels: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.labelled_by: Counter[str] = Counter()
        self.failed = self.malformed = self.unreadable = self.curated = 0
        self.answered = self.repeated = 0
        self.lemmatisers: dict[str, Lemmatiser] = {}
        self.subsets: dict[Subset, int] = {}
        self.endings: dict[str, int] = {}
        self._columns: dict[str, Any] = {name: array(code) for name, code in _COLUMNS.items()}
        self._labels: dict[ScaledDimension, array[float]] = {}
        self._between: set[ScaledDimension] = set()  # with an answer that is neither 0 nor 1
        self._groups: dict[str, int] = {}
        self._together: dict[Subset, RunTogether] = {}
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
        subset = Subset(row.dialogue.lang, chatbot, user)
        self._add_labels(row)
        kept = {
            "subset": self.subsets.setdefault(subset, len(self.subsets)),
            "group": self._groups.setdefault(row.group, len(self._groups)),
            "weight": weight,
            **self._course(row.extra),
            **self._texts(row.dialogue.turns, subset),
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

    def _course(self, extra: Mapping[str, object]) -> dict[str, int]:
        """How a generated dialogue ended, and the tries of its user turns."""
        ended, given = extra.get("ended"), extra.get("tries")
        listed = given if isinstance(given, list) else []
        whole = isinstance(given, list) and all(type(n) is int and n > 0 for n in listed)
        odd = not (ended is None or isinstance(ended, str)) or not (given is None or whole)
        self.unreadable += odd
        tries: list[int] = listed if whole else []
        values = [
            value
            for turns in (tries[:1], tries[1:])
            for value in (len(turns), sum(turns), turns.count(1), max(turns, default=0))
        ]
        code = self.endings.setdefault(ended, len(self.endings)) if isinstance(ended, str) else -1
        return {"ended": code, **dict(zip(_TRIES, values, strict=True))}

    def _texts(self, turns: Sequence[Turn], subset: Subset) -> dict[str, float]:
        """Turns, lengths and lexical diversity of a dialogue and its sides, each as one text."""
        lang = str(subset.lang)
        if lang not in self.lemmatisers:
            self.lemmatisers[lang] = lemmatiser(lang, lemmas=self.lemmas)
        split, unit = self.lemmatisers[lang].split, unit_of(lang)
        kept: dict[str, float] = {}
        for role in _SPEAKERS:
            utterances = [turn.content for turn in turns if turn.role == role]
            kept[f"turns_{role}"] = len(utterances)
            kept[f"length_{role}"] = sum(length(text, unit) for text in utterances)
        tokens: dict[Side, list[str]] = {side: [] for side in SIDES}
        if split is not None:
            for turn in turns:
                words = split(turn.content)
                tokens["all"] += words
                tokens[turn.role] += words
            for joined in (Subset(subset.lang), Subset(subset.lang, subset.chatbot)):
                self._together.setdefault(joined, RunTogether()).add(tokens["all"])
        for side, text in tokens.items():
            value = mtld(text)
            kept[f"mtld_{side}"] = nan if value is None else value
        return kept

    @property
    def rows(self) -> int:
        return len(self._columns["subset"])

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
    def dimensions(self) -> list[ScaledDimension]:
        """In order of appearance."""
        return list(self._labels)

    @property
    def units(self) -> list[Unit]:
        """The units of the languages seen, words first."""
        return sorted({unit_of(str(subset.lang)) for subset in self.subsets}, reverse=True)

    def is_share(self, dimension: ScaledDimension) -> bool:
        """True where every answer is 0 or 1: the figure is the share of rows at 1."""
        return dimension.scale == (0, 1) and dimension not in self._between

    def select(self, subset: Subset) -> dict[str, Floats]:
        """The columns of the rows of ``subset``, by name, each of shape (rows,). ``diverse_`` is 1
        where MTLD is defined (0 elsewhere, as is MTLD), ``words`` and ``characters`` where a
        language is measured so."""
        inside = self._inside(subset)
        rows: dict[str, Floats] = {
            name: np.asarray(column)[inside].astype(np.float64)
            for name, column in self._columns.items()
        }
        for name in ("turns", "length"):
            rows[f"{name}_all"] = rows[f"{name}_user"] + rows[f"{name}_assistant"]
        for side in SIDES:
            rows[f"diverse_{side}"] = np.isfinite(rows[f"mtld_{side}"]).astype(np.float64)
            rows[f"mtld_{side}"] = np.nan_to_num(rows[f"mtld_{side}"])
        units = np.array([unit_of(str(subset.lang)) for subset in self.subsets], dtype=object)
        for unit in ("words", "characters"):
            rows[unit] = (units[rows["subset"].astype(int)] == unit).astype(np.float64)
        return rows

    def labels(self, subset: Subset, dimension: ScaledDimension) -> Floats:
        """The mean of the answers of each row of ``subset``, NaN where it has none; of a share 1
        from 0.5 on, else 0."""
        values = np.full(self.rows, nan)
        given = np.asarray(self._labels[dimension])
        values[: len(given)] = given
        if self.is_share(dimension):
            values = np.where(np.isnan(values), nan, values >= PRESENT_FROM)
        return values[self._inside(subset)]

    def _inside(self, subset: Subset) -> npt.NDArray[np.bool_]:
        held = np.array([subset.holds(each) for each in self.subsets], dtype=bool)
        return held[np.asarray(self._columns["subset"])] if self.rows else np.empty(0, bool)

    def together(self, subset: Subset) -> Estimate:
        """MTLD of the dialogues of ``subset`` run together, by language and by its chatbots."""
        if self.weights != "none":
            return Estimate(None, reason="texts run together have no weights")
        langs = {each.lang for each in self.subsets if subset.holds(each)}
        if subset.lang is None and len(langs) != 1:
            return Estimate(None, reason="texts of several languages are not run together")
        joined = self._together.get(Subset(subset.lang or langs.pop(), subset.chatbot, subset.user))
        if joined is None:
            reason = self.unsplit(subset) or "run together by language and chatbot only"
            return Estimate(None, reason=reason)
        return Estimate(joined.value, reason=None if joined.value is not None else UNDEFINED)

    def unsplit(self, subset: Subset) -> str:
        """Why languages of ``subset`` have no tokens; empty where all have."""
        langs = {str(each.lang) for each in self.subsets if subset.holds(each)}
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
