"""Statistics of a set of dialogues, from one pass over its rows: MEDAL's Table 2 and its figures.

Each dialogue becomes one row of numbers in a DataFrame; texts are not kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from math import nan
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from medal_judges.data_prep.corpus_stats.tokens import (
    MTLD_UNDEFINED,
    Lemmatiser,
    Unit,
    lemmatiser,
    length,
    mtld,
    unit_of,
)
from medal_judges.errors import MedalError
from medal_judges.records.dimension import load_rubric
from medal_judges.records.labelled import LabelledDialogue, Scale, mean
from medal_judges.records.signature import content_hash
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import (
    LOGIT,
    MIN_CLUSTERS,
    PLAIN,
    spanned,
    spread_of,
    variance,
    wilson,
)

Floats = npt.NDArray[np.float64]
Side = Literal["all", "user", "assistant"]
SIDES: tuple[Side, ...] = ("all", "user", "assistant")
NOT_STATED = "not stated"
OVERALL = "overall"
PRESENT_FROM = 0.5  # an issue is present if the mean of its answers is at least this
MAX_NAMES = 60  # with more names than this, chatbots or users are people, not systems
_MAX_LEVELS = 11
_COLUMNS = ("lang", "chatbot", "user", "group")


class Subset(NamedTuple):
    """Dialogues of one language, chatbot and user model; None includes all of them."""

    lang: str | None = None
    chatbot: str | None = None
    user: str | None = None

    @property
    def label(self) -> str:
        return " · ".join(name for name in self if name is not None) or "all"


ALL = Subset()


class ScaledDimension(NamedTuple):
    """A dimension on a scale: the same name on another scale is another dimension."""

    name: str
    scale: Scale | None


class Distribution(NamedTuple):
    """Rows at each whole level of a scale, and their shares (0 to 1); or the ``reason`` why the
    scale has no such levels."""

    levels: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    reason: str = ""


class CorpusStatistics:
    """Figures by language, chatbot and user model.

    ``rows`` has one row for each dialogue. ``labels`` maps a dimension to the mean answer of each
    row (NaN without one). ``issues`` are MEDAL's issues in the order of its rubric;
    ``other_shares`` are other dimensions whose answers are all 0 or 1; ``graded`` are the rest,
    first ``overall`` on each of its scales. ``counts`` counts rows that are labelled, failed,
    malformed and so on.

    Raises MedalError for an id that occurs twice, and MissingExtraError without the packages for
    lemmas.
    """

    def __init__(
        self,
        dialogues: Iterable[LabelledDialogue],
        name: str,
        *,
        lemmas: bool = True,
    ) -> None:
        self.name = name
        self.lemmas = lemmas
        self.lemmatisers: dict[str, Lemmatiser] = {}
        self.counts: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.labelled_by: Counter[str] = Counter()
        self.levels: Counter[str] = Counter()
        self._answers: dict[ScaledDimension, dict[int, float]] = defaultdict(dict)
        # with an answer that is neither 0 nor 1
        self._between: set[ScaledDimension] = set()
        self._selected: tuple[Subset, Any] | None = None
        self._figures: dict[tuple[Subset, ScaledDimension], Estimate] = {}
        measures = []
        contents = []
        id_hashes: set[int] = set()  # 8 bytes a row instead of the id
        for number, row in enumerate(dialogues):
            if hash(row.id) in id_hashes:
                raise MedalError(
                    f"the id {row.id!r} occurs twice; its dialogue would be counted twice",
                    hint="give every dialogue in one file only",
                )
            id_hashes.add(hash(row.id))
            self._count(row)
            self._add_answers(row, number)
            measures.append(self._measured(row))
            contents.append(content_hash(row.to_record()))
        # as in the signatures of a benchmark
        self.data = content_hash(sorted(contents))
        self.rows = pd.DataFrame(measures or {column: [] for column in _COLUMNS})
        self._arrange_labels()

    # -- one pass over the rows --------------------------------------------------------------------

    def _count(self, row: LabelledDialogue) -> None:
        """Counts what the page says of the rows: level, source, labeller, answers, failures."""
        self.levels[row.level] += 1
        self.sources[row.dialogue.source or NOT_STATED] += 1
        labeller = row.extra.get("labels_by")
        if isinstance(labeller, str):
            self.labelled_by[labeller] += 1
        answers = [len(rating.without_nulls) for rating in row.ratings()]
        self.counts["answered"] += any(answers)
        self.counts["several answers"] += max(answers, default=0) > 1
        self.counts["failed"] += "label_failure" in row.extra
        self.counts["malformed"] += "malformed" in row.extra

    def _add_answers(self, row: LabelledDialogue, number: int) -> None:
        """Keeps the mean answer of each dimension that somebody rated."""
        for rating in row.ratings():
            answer = mean(rating)
            if answer is None:
                continue
            dimension = ScaledDimension(rating.dimension, rating.scale)
            self._answers[dimension][number] = answer
            if not {0, 1}.issuperset(rating.without_nulls):
                self._between.add(dimension)

    def _measured(self, row: LabelledDialogue) -> dict[str, Any]:
        """Speakers, turns, lengths and lexical diversity of the dialogue and of each side."""
        lang = row.dialogue.lang
        chatbot = row.dialogue.models.get("assistant") or NOT_STATED
        user = row.dialogue.models.get("user") or NOT_STATED
        measures: dict[str, Any] = {
            "lang": lang,
            "chatbot": chatbot,
            "user": user,
            "group": row.group,
        }
        if lang not in self.lemmatisers:
            self.lemmatisers[lang] = lemmatiser(lang, lemmas=self.lemmas)
        split = self.lemmatisers[lang].split
        for side in SIDES:
            texts = [
                turn.content
                for turn in row.dialogue.turns
                if side in ("all", turn.role)
            ]
            tokens: list[str] = []
            if split is not None:
                for text in texts:
                    tokens += split(text)
            diversity = mtld(tokens)
            measures[f"turns_{side}"] = len(texts)
            measures[f"length_{side}"] = sum(
                length(text, unit_of(lang)) for text in texts
            )
            measures[f"mtld_{side}"] = nan if diversity is None else diversity
        return measures

    def _arrange_labels(self) -> None:
        """Turns the answers into one array for each dimension, and sorts the dimensions."""
        self.labels: dict[ScaledDimension, Floats] = {}
        self.shares: list[ScaledDimension] = []
        for dimension, answers in self._answers.items():
            means = (
                pd.Series(answers, dtype=float)
                .reindex(self.rows.index)
                .to_numpy(copy=True)
            )
            if dimension.scale == (0, 1) and dimension not in self._between:
                means = np.where(np.isnan(means), nan, means >= PRESENT_FROM)
                self.shares.append(dimension)
            self.labels[dimension] = means
        rubric = [
            dimension.name for dimension in load_rubric("medal") if dimension.is_issue
        ]
        issues = [dimension for dimension in self.shares if dimension.name in rubric]
        self.issues = sorted(issues, key=lambda dimension: rubric.index(dimension.name))
        self.other_shares = [
            dimension for dimension in self.shares if dimension not in issues
        ]
        graded = [
            dimension for dimension in self.labels if dimension not in self.shares
        ]
        self.overall = [dimension for dimension in graded if dimension.name == OVERALL]
        self.graded = sorted(graded, key=lambda dimension: dimension.name != OVERALL)

    # -- names and subsets -------------------------------------------------------------------------

    @property
    def units(self) -> list[Unit]:
        return sorted({unit_of(lang) for lang in self.lemmatisers}, reverse=True)

    def names(self, column: str) -> list[str]:
        """Languages, chatbots or user models, sorted."""
        return sorted(self.rows[column].unique())

    def _systems(self, speaker: str) -> list[str]:
        """The names; none if no row states one, or there are too many to be systems."""
        names = self.names(speaker)
        if names != [NOT_STATED] and len(names) <= MAX_NAMES:
            return names
        return []

    @property
    def langs(self) -> list[Subset]:
        return [Subset(lang) for lang in self.names("lang")]

    @property
    def chatbots(self) -> list[Subset]:
        return [Subset(chatbot=name) for name in self._systems("chatbot")]

    @property
    def users(self) -> list[Subset]:
        return [Subset(user=name) for name in self._systems("user")]

    @property
    def pairs(self) -> list[Subset]:
        """Language and chatbot pairs that have dialogues."""
        if not self._systems("chatbot"):
            return []
        pairs = set(zip(self.rows["lang"], self.rows["chatbot"], strict=True))
        return [Subset(*pair) for pair in sorted(pairs)]

    def label(self, dimension: ScaledDimension) -> str:
        """The name; with its scale if it is graded or two dimensions share the name."""
        is_unique = [labelled.name for labelled in self.labels].count(
            dimension.name
        ) == 1
        if is_unique and (dimension in self.shares or dimension.scale is None):
            return dimension.name
        if dimension.scale is None:
            return f"{dimension.name} (no stated scale)"
        low, high = dimension.scale
        return f"{dimension.name} ({low:g}–{high:g})"

    # -- figures -----------------------------------------------------------------------------------

    def select(self, subset: Subset) -> Any:
        """The rows of ``subset`` as a DataFrame; the last one is cached."""
        if self._selected is None or self._selected[0] != subset:
            rows = self.rows
            for column, name in subset._asdict().items():
                if name is not None:
                    rows = rows[rows[column] == name]
            self._selected = (subset, rows)
        return self._selected[1]

    def count(self, subset: Subset) -> int:
        """Dialogues of ``subset``."""
        return len(self.select(subset))

    def turns(self, subset: Subset, side: Side = "all") -> Estimate:
        """Turns per dialogue."""
        rows = self.select(subset)
        return _mean(rows, f"turns_{side}", len(rows), "no dialogue")

    def length(
        self,
        subset: Subset,
        unit: Unit,
        side: Side = "all",
    ) -> Estimate:
        """Units per turn, over the languages measured in ``unit``; empty turns have length 0."""
        rows = self.select(subset)
        reason = f"no turn of this side in a language measured in {unit}"
        if not len(rows):
            return Estimate(None, reason=reason)
        rows = rows[rows["lang"].map(unit_of) == unit]
        return _mean(rows, f"length_{side}", int(rows[f"turns_{side}"].sum()), reason)

    def mtld(self, subset: Subset, side: Side = "all") -> Estimate:
        """Mean over the dialogues with a defined MTLD."""
        rows = self.select(subset)
        tools = [self.lemmatisers[lang] for lang in set(rows["lang"])]
        reason = f"no dialogue has a value: {MTLD_UNDEFINED}"
        if tools and all(tool.split is None for tool in tools):
            reason = "; ".join(sorted({tool.name for tool in tools}))
        return _mean(rows, f"mtld_{side}", rows[f"mtld_{side}"].count(), reason)

    def answers(self, subset: Subset, dimension: ScaledDimension) -> Floats:
        """The answer of each row of ``subset``, NaN without a label."""
        rows: npt.NDArray[np.intp] = self.select(subset).index.to_numpy()
        return self.labels[dimension][rows]

    def figure(self, subset: Subset, dimension: ScaledDimension) -> Estimate:
        """Share at 1 (0 to 1) or mean of ``dimension`` in ``subset``.

        A share has Wilson's interval if every row is its own group. Otherwise the interval is a
        jackknife over groups. At a share of 0 or 1 the jackknife has no width, so Wilson's interval
        with one trial a group is used, which may be too wide.
        """
        key = (subset, dimension)
        if key not in self._figures:
            answers = self.answers(subset, dimension)
            is_given = ~np.isnan(answers)
            groups = self.select(subset)["group"].to_numpy()[is_given]
            if not len(answers):
                self._figures[key] = Estimate(None, reason="no dialogue")
            else:
                self._figures[key] = _clustered(
                    answers[is_given], groups, is_share=dimension in self.shares
                )
        return self._figures[key]

    def distribution(self, subset: Subset, dimension: ScaledDimension) -> Distribution:
        """Rows by level, or why there are no levels. A mean of several answers counts at the
        nearest level, halves up."""
        if dimension.scale is None:
            return Distribution(reason="the source states no scale")
        low, high = dimension.scale
        if low % 1 or high % 1 or high - low >= _MAX_LEVELS:
            return Distribution(reason="the scale does not have a few whole levels")
        answers = self.answers(subset, dimension)
        nearest = np.floor(answers[~np.isnan(answers)] + 0.5).astype(np.int64)
        levels = range(int(low), int(high) + 1)
        counts = np.bincount(nearest - levels[0], minlength=len(levels))
        shares = counts / (counts.sum() or 1.0)
        return Distribution(
            tuple(levels), tuple(counts.tolist()), tuple(shares.tolist())
        )


def _mean(
    rows: Any,
    column: str,
    count: int,
    reason: str,
) -> Estimate:
    """The sum of a column over ``count``; undefined for ``reason`` if that is 0."""
    if not count:
        return Estimate(None, reason=reason)
    return Estimate(float(rows[column].sum()) / count)


def _clustered(
    answers: Floats, groups: npt.NDArray[np.object_], *, is_share: bool
) -> Estimate:
    """The mean of ``answers`` with its interval; see ``CorpusStatistics.figure``."""
    if not len(answers):
        return Estimate(None, reason="no label")
    _, member = np.unique(groups, return_inverse=True)
    sizes = np.bincount(member)
    totals = np.bincount(member, answers)
    count = len(sizes)
    value = float(totals.sum() / len(answers))
    if is_share and (count == len(answers) or value in (0, 1)):
        return Estimate(value, *wilson(value * count, count))
    if count < MIN_CLUSTERS:
        return Estimate(value)
    left_out = (totals.sum() - totals) / (len(answers) - sizes)
    spread = spread_of(left_out, float(variance(left_out, np.array(value))))
    scale = LOGIT if is_share else PLAIN
    return spanned(Estimate(value), spread, scale)
