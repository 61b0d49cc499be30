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
    MTLD,
    MTLD_UNDEFINED,
    Lemmatiser,
    Unit,
    lemmatiser,
    length,
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
NOT_STATED = "not stated"
OVERALL = "overall"
PRESENT_FROM = 0.5  # an issue is present if the mean of its answers is at least this
MAX_NAMES = 60  # with more names than this, chatbots or users are people, not systems
_MAX_LEVELS = 11


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
    """Rows at each whole level of a scale, and their shares (0 to 1)."""

    levels: tuple[int, ...]
    counts: tuple[int, ...]
    shares: tuple[float, ...]


class CorpusStatistics:
    """Figures by language, chatbot and user model.

    ``rows`` has one row a dialogue. ``labels`` maps a dimension to the mean answer of each row (NaN
    without one). ``counts`` counts rows that are labelled, failed, malformed and so on. Raises
    MedalError for an id that occurs twice, MissingExtraError without the packages for lemmas.
    """

    def __init__(
        self, dialogues: Iterable[LabelledDialogue], name: str, *, lemmas: bool = True
    ) -> None:
        self.name, self.lemmas = name, lemmas
        self.lemmatisers: dict[str, Lemmatiser] = {}
        self.counts: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.labelled_by: Counter[str] = Counter()
        self.levels: Counter[str] = Counter()
        self._together: dict[Subset, MTLD] = defaultdict(MTLD)
        columns: dict[str, list[Any]] = {}
        labels: dict[ScaledDimension, dict[int, float]] = {}
        between: set[ScaledDimension] = set()  # with an answer that is neither 0 nor 1
        seen: set[int] = set()  # hashes: 8 bytes a row instead of the id
        contents = []
        for number, row in enumerate(dialogues):
            if hash(row.id) in seen:
                raise MedalError(
                    f"the id {row.id!r} occurs twice; its dialogue would be counted twice",
                    hint="give every dialogue in one file only",
                )
            seen.add(hash(row.id))
            answers = [(r, value) for r in row.ratings() if (value := mean(r)) is not None]
            for rating, value in answers:
                dimension = ScaledDimension(rating.dimension, rating.scale)
                labels.setdefault(dimension, {})[number] = value
                if not {0, 1}.issuperset(rating.without_nulls):
                    between.add(dimension)
            models = row.dialogue.models
            chatbot, user = (models.get(role) or NOT_STATED for role in ("assistant", "user"))
            values: dict[str, Any] = {"lang": row.dialogue.lang, "chatbot": chatbot, "user": user}
            values |= {"group": row.group} | self._texts(row, chatbot)
            for column, cell in values.items():
                columns.setdefault(column, []).append(cell)
            contents.append(content_hash(row.to_record()))
            self.levels[row.level] += 1
            self.sources[row.dialogue.source or NOT_STATED] += 1
            if isinstance(by := row.extra.get("labels_by"), str):
                self.labelled_by[by] += 1
            self.counts["answered"] += bool(answers)
            self.counts["several answers"] += any(len(r.without_nulls) > 1 for r, _ in answers)
            self.counts["failed"] += "label_failure" in row.extra
            self.counts["malformed"] += "malformed" in row.extra
        self.data = content_hash(sorted(contents))  # as in the signatures of a benchmark
        names = ["lang", "chatbot", "user"]
        self.rows = pd.DataFrame(columns or {name: [] for name in names})
        self.subsets = [Subset(*key) for key in self.rows.groupby(names).groups]
        self.labels: dict[ScaledDimension, Floats] = {}
        for dimension, given in labels.items():
            means = np.full(len(self.rows), nan)
            means[list(given)] = list(given.values())
            self.labels[dimension] = means
        # Dimensions whose answers are all 0 or 1: their figure is the share of rows at 1.
        self.shares = [d for d in self.labels if d.scale == (0, 1) and d not in between]
        for dimension in self.shares:
            means = self.labels[dimension]
            self.labels[dimension] = np.where(np.isnan(means), nan, means >= PRESENT_FROM)
        order = [d.name for d in load_rubric("medal") if d.is_issue]
        issues = [d for d in self.shares if d.name in order]
        # MEDAL's issues and ``other``, in the order of the rubric; other shares; more than two
        # answers, overall first.
        self.issues = sorted(issues, key=lambda d: order.index(d.name))
        self.other_shares = [d for d in self.shares if d not in issues]
        graded = [d for d in self.labels if d not in self.shares]
        self.graded = sorted(graded, key=lambda d: d.name != OVERALL)
        self._selected: tuple[Subset, Any] | None = None
        self._figures: dict[tuple[Subset, ScaledDimension], Estimate] = {}

    def _texts(self, row: LabelledDialogue, chatbot: str) -> dict[str, float]:
        """Turns, lengths and lexical diversity of the dialogue and of each side as one text."""
        lang = row.dialogue.lang
        if lang not in self.lemmatisers:
            self.lemmatisers[lang] = lemmatiser(lang, lemmas=self.lemmas)
        split, unit = self.lemmatisers[lang].split, unit_of(lang)
        values: dict[str, float] = {}
        for side in ("all", "user", "assistant"):
            texts = [t.content for t in row.dialogue.turns if side in ("all", t.role)]
            values[f"turns_{side}"] = len(texts)
            values[f"length_{side}"] = sum(length(text, unit) for text in texts)
            tokens = [token for text in texts for token in split(text)] if split else []
            if split is not None and side == "all":
                for subset in (Subset(lang), Subset(lang, chatbot)):
                    self._together[subset].add(tokens)
            value = MTLD(tokens).value()
            values[f"mtld_{side}"] = nan if value is None else value
        return values

    @property
    def units(self) -> list[Unit]:
        return sorted({unit_of(lang) for lang in self.lemmatisers}, reverse=True)

    def names(self, which: Literal["lang", "chatbot", "user"]) -> list[str]:
        """Languages, chatbots or user models, sorted."""
        return sorted({str(getattr(subset, which)) for subset in self.subsets})

    def _systems(self, which: Literal["chatbot", "user"]) -> list[str]:
        """The names; none if no row states one, or there are too many to be systems."""
        names = self.names(which)
        return [] if names == [NOT_STATED] or len(names) > MAX_NAMES else names

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
        chatbots = set(self._systems("chatbot"))
        pairs = {(each.lang, each.chatbot) for each in self.subsets if each.chatbot in chatbots}
        return [Subset(lang, chatbot) for lang, chatbot in sorted(pairs, key=str)]

    def label(self, dimension: ScaledDimension) -> str:
        """The name; with its scale if it is graded or two dimensions share the name."""
        alike = sum(d.name == dimension.name for d in self.labels)
        if dimension in self.shares and alike == 1:
            return dimension.name
        if dimension.scale is None:
            return f"{dimension.name} (no stated scale)" if alike > 1 else dimension.name
        low, high = dimension.scale
        return f"{dimension.name} ({low:g}–{high:g})"

    # -- figures -----------------------------------------------------------------------------------

    def select(self, subset: Subset) -> Any:
        """The rows of ``subset`` as a DataFrame; the last one is cached."""
        if self._selected is None or self._selected[0] != subset:
            rows = self.rows
            for column, name in subset._asdict().items():
                rows = rows if name is None else rows[rows[column] == name]
            self._selected = (subset, rows)
        return self._selected[1]

    def count(self, subset: Subset) -> int:
        """Dialogues of ``subset``."""
        return len(self.select(subset))

    def _mean(self, rows: Any, total: str, per: str, reason: str) -> Estimate:
        """The sum of ``total`` over that of ``per`` (dialogues if empty)."""
        count = int(rows[per].sum() if per and len(rows) else len(rows))
        if not count:
            return Estimate(None, reason=reason)
        return Estimate(float(rows[total].sum()) / count)

    def turns(self, subset: Subset, side: Side = "all") -> Estimate:
        """Turns per dialogue."""
        return self._mean(self.select(subset), f"turns_{side}", "", "no dialogue")

    def length(self, subset: Subset, unit: Unit, side: Side = "all") -> Estimate:
        """Units per turn, over the languages measured in ``unit``; empty turns have length 0."""
        rows = self.select(subset)
        rows = rows[[unit_of(lang) == unit for lang in rows["lang"]]] if len(rows) else rows
        reason = f"no turn of this side in a language measured in {unit}"
        return self._mean(rows, f"length_{side}", f"turns_{side}", reason)

    def mtld(self, subset: Subset, side: Side = "all") -> Estimate:
        """Mean over the dialogues with a defined MTLD."""
        rows = self.select(subset)
        langs = set(rows["lang"])
        if langs and all(self.lemmatisers[lang].split is None for lang in langs):
            return Estimate(None, reason=self._unsplit(langs))
        rows = rows[rows[f"mtld_{side}"].notna()] if len(rows) else rows
        reason = f"no dialogue has a value: {MTLD_UNDEFINED}"
        return self._mean(rows, f"mtld_{side}", "", reason)

    def together(self, subset: Subset) -> Estimate:
        """MTLD of the dialogues of ``subset`` as one text, for a language and its chatbots."""
        langs = set(self.select(subset)["lang"])
        if subset.lang is None and len(langs) != 1:
            return Estimate(None, reason="texts of several languages are not run together")
        key = subset._replace(lang=subset.lang or langs.pop())
        if key not in self._together:
            reason = self._unsplit(langs) or "run together by language and chatbot only"
            return Estimate(None, reason=reason)
        value = self._together[key].value()
        return Estimate(value, reason=MTLD_UNDEFINED if value is None else None)

    def _unsplit(self, langs: Iterable[str]) -> str:
        """The reasons why languages have no tokens; empty if all languages have them."""
        tools = [self.lemmatisers[lang] for lang in langs]
        return "; ".join(sorted({tool.name for tool in tools if tool.split is None}))

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
        key, is_share = (subset, dimension), dimension in self.shares
        if key in self._figures:
            return self._figures[key]
        values = self.answers(subset, dimension)
        given = ~np.isnan(values)
        figure = Estimate(None, reason="no label" if len(values) else "no dialogue")
        if n := int(given.sum()):
            groups = self.select(subset)["group"].to_numpy()[given]
            _, group = np.unique(groups, return_inverse=True)
            counts, totals = np.bincount(group), np.bincount(group, values[given])
            size, value = len(counts), float(totals.sum() / n)
            figure = Estimate(value)
            if is_share and (n == size or value in (0, 1)):
                figure = Estimate(value, *wilson(value * size, size))
            elif size >= MIN_CLUSTERS:
                left = (totals.sum() - totals) / (n - counts)
                spread = spread_of(left, float(variance(left, np.array(value))))
                figure = spanned(figure, spread, LOGIT if is_share else PLAIN)
        self._figures[key] = figure
        return figure

    def distribution(self, subset: Subset, dimension: ScaledDimension) -> Distribution | str:
        """Rows by level, or why there are no levels. A mean of several answers counts at the
        nearest level, halves up."""
        if dimension.scale is None:
            return "the source states no scale"
        low, high = dimension.scale
        if low % 1 or high % 1 or high - low >= _MAX_LEVELS:
            return "the scale does not have a few whole levels"
        values = self.answers(subset, dimension)
        level = np.floor(values[~np.isnan(values)] + 0.5).astype(np.int64) - int(low)
        levels = range(int(low), int(high) + 1)
        counts = np.bincount(level, minlength=len(levels))
        shares = counts / (counts.sum() or 1.0)
        return Distribution(tuple(levels), tuple(counts.tolist()), tuple(shares.tolist()))
