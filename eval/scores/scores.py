"""Scores: the judgements of one judge as columns, with their scales and columns of the chats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError, DataError, did_you_mean
from medal_judges.eval.scores.bad import (
    BY_DEFAULT,
    BadScores,
    bad_scores,
    require_dimension,
)
from medal_judges.eval.scores.columns import RowColumns, read_columns, value_as_text
from medal_judges.eval.scores.options import ScoreSelection
from medal_judges.eval.scores.reference import Reference
from medal_judges.eval.scores.times import period_starts, seconds
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension, known_dimensions
from medal_judges.records.signature import Signature
from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import present
from medal_judges.storage.judgements import stated_dimensions

if TYPE_CHECKING:
    from pandas import Categorical, DataFrame, Series

ALWAYS = ("lang", "chatbot")  # columns that are used if rows have them
HEADLINE = "overall"
_ENOUGH = 50  # rows for a tenth percentile
Codes = npt.NDArray[np.int64]


@dataclass(slots=True)
class Scores:
    """The judgements of one judge, one row for each dialogue or judged turn. ``frame`` is the
    result of ``read_frame``; all arrays have the same rows.

    ``scores``: by dimension, NaN if unscored. ``clusters``: the number of each row's sampling unit,
    ``cluster_name`` its kind. ``uncertainty``: see Judgement.uncertainty, NaN if unknown.
    ``columns``: texts, with code -1 for no value. ``times``: seconds since 1970. ``people``: mean
    human label on the judge's scale, or NaN.
    ``people_weights``: how many rows a labelled row represents, None for a random sample.
    ``bad``: by the name of their dimension, the bad scores of others (see ``add_bad``).
    ``reference``: other chats, by which a score is ordinary, low or high.
    """

    frame: DataFrame
    dimensions: dict[str, Dimension]
    scores: dict[str, Floats]
    clusters: Codes
    cluster_name: str
    uncertainty: Floats
    is_scored: npt.NDArray[np.bool_]
    columns: Mapping[str, Categorical] = field(default_factory=dict)
    times: Floats | None = None
    notes: list[str] = field(default_factory=list)
    skipped: int = 0  # unreadable lines of the input
    people: dict[str, Floats] = field(default_factory=dict)
    people_weights: Floats | None = None
    bad: Mapping[str, BadScores] = field(default_factory=dict)
    reference: Reference | None = None
    _values: dict[str, Floats] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.frame)

    @property
    def scored(self) -> int:
        """Rows with a number in every dimension."""
        return int(self.is_scored.sum())

    @property
    def coverage(self) -> float | None:
        """Share of scored rows; None for an empty file."""
        return self.scored / self.rows if self.rows else None

    @property
    def signatures(self) -> dict[str, int]:
        """Rows of each signature."""
        counts: dict[str, int] = self.frame["judge"].value_counts(sort=False).to_dict()
        return counts

    def failures(self) -> str:
        """The three most frequent reasons of unscored rows."""
        reasons = (
            self.frame["failure"][~self.is_scored]
            .fillna("no reason given")
            .value_counts()
        )
        return "; ".join(f"{n:,} × {reason}" for reason, n in reasons[:3].items())

    @property
    def judged(self) -> list[str]:
        """The dimensions that the judge scored: all but those of bad scores."""
        return [name for name in self.dimensions if name not in self.bad]

    def base(self, name: str) -> str:
        """Returns the dimension whose bad scores ``name`` has, or else ``name``."""
        if name in self.bad:
            return self.bad[name].scale.name
        return name

    @property
    def issues(self) -> list[str]:
        return [name for name in self.judged if self.is_issue(name)]

    @property
    def graded(self) -> list[str]:
        """Graded dimensions, the headline first."""
        names = [name for name in self.dimensions if not self.is_issue(name)]
        return sorted(names, key=lambda name: name != HEADLINE)

    @property
    def headline(self) -> str | None:
        """``overall``, or else the first graded dimension."""
        return next(iter(self.graded), None)

    @property
    def unit(self) -> str:
        """The name of a row: judged turn or conversation."""
        return "judged turn" if self.frame["turn"].notna().any() else "conversation"

    def is_issue(self, name: str) -> bool:
        """Whether a dimension is an issue, present or not; its figure is a share of rows."""
        return self.dimensions[name].kind == "binary"

    def add_bad(self, thresholds: Sequence[str], options: ScoreSelection) -> None:
        """Adds a dimension for the bad scores of each graded dimension, see ``bad_scores``. Without
        ``thresholds``, the worst tenth of the first period is bad (of the first ones, if it has few
        rows), or without periods of all rows.
        """
        if not self.dimensions:
            return  # nothing is scored
        rows, basis = np.ones(self.rows, dtype=bool), f"all {self.unit}s"
        if options.period is not None and self.times is not None:
            periods, names = period_starts(self.times, options.period[1])
            if names:
                last = np.sort(periods[periods >= 0])[:_ENOUGH][-1]
                rows = (periods >= 0) & (periods <= last)
                basis = f"{names[0]} to {names[last]}"
        self.bad = bad_scores(thresholds, self.dimensions, self.scores, rows)
        if not thresholds and self.bad:
            self.notes.append(BY_DEFAULT.format(basis))
        for name, bad in self.bad.items():
            self.dimensions[name] = bad.dimension
            self.scores[name] = bad.of(self.scores[bad.scale.name])
            if bad.scale.name in self.people:
                self.people[name] = bad.of(self.people[bad.scale.name])

    def values(self, name: str) -> Floats:
        """Scores of a graded dimension, 1 or 0 of an issue (present or not), NaN if unscored."""
        if name not in self._values:
            scores = self.scores[name]
            if self.is_issue(name):
                scores = np.where(np.isfinite(scores), present(scores) * 1.0, np.nan)
            self._values[name] = scores
        return self._values[name]

    def percentile(self, score: float | None) -> float | None:
        """Returns the percentage of the reference that scores lower on the headline dimension; None
        without a reference."""
        if self.reference is None or self.headline is None or score is None:
            return None
        return self.reference.percentile(self.headline, score)

    def ordinary(self) -> list[str]:
        """Says whether the mean of the headline dimension is ordinary; empty without a
        reference."""
        if self.reference is None or self.headline is None:
            return []
        mean = float(np.nanmean(self.scores[self.headline]))
        return [self.reference.sentence(self.headline, mean)]


def load_scores(
    frame: DataFrame,
    options: ScoreSelection,
    dialogues: Iterable[Dialogue] | None = None,
    progress: Callable[[int], object] = lambda count: None,
) -> Scores:
    """Loads the scores of a table of judgements. Columns that it lacks come from ``dialogues``,
    matched by id.

    Raises ConfigError for an unknown column or dimension, for one whose scale neither the scores
    nor a rubric state, and for a time column without a readable time; and DataError for scores of
    several judges.
    """
    _refuse_several_judges(frame)
    scores_of_all = _judged_columns(frame, options.dimensions)
    scores = {}
    is_scored = np.full(len(frame), bool(scores_of_all))
    for name, column in scores_of_all.items():
        is_scored &= np.isfinite(column)
        if np.isfinite(column).any():
            scores[name] = column
    by_file = [(", ".join(options.scores), stated_dimensions(frame))]
    dimensions = checked_dimensions(scores, by_file, options.rubric)
    groups = [*ALWAYS, *options.group_columns]
    time_columns = []
    if options.period is not None:
        time_columns.append(options.period[0])
    names = dict.fromkeys((*groups, *time_columns))
    columns = read_columns(frame, names, dialogues, progress)
    categories = _categories(columns, groups)
    # An unreadable time is the clearer error, so it comes before that of a missing column.
    times = None
    for name in time_columns:
        times = _read_times(columns.values[name], name)
    if len(frame):
        _require_values(columns, [*options.group_columns, *time_columns])
    clusters, cluster_name = _clusters(frame, categories, options.cluster)
    binary = [scores[name] for name, d in dimensions.items() if d.kind == "binary"]
    return Scores(
        frame=frame,
        dimensions=dimensions,
        scores=scores,
        clusters=clusters,
        cluster_name=cluster_name,
        uncertainty=_uncertainty(frame, list(scores_of_all), binary),
        is_scored=is_scored,
        columns=categories,
        times=times,
        notes=_gaps(columns, categories, options.group_columns, times),
    )


def _refuse_several_judges(frame: DataFrame) -> None:
    signatures = list(frame["judge"].unique())
    judges_with_settings = {text.partition("|version:")[0] for text in signatures}
    if len(judges_with_settings) > 1:
        names = ", ".join(sorted({Signature.parse(text).judge for text in signatures}))
        hint = "score all chats with one judge and one setting, or make one report for each file"
        raise DataError(
            "the scores", None, f"several judges made them ({names})", hint=hint
        )


def _judged_columns(frame: DataFrame, chosen: Iterable[str]) -> dict[str, Floats]:
    """Returns the scores of the ``chosen`` dimensions (default: all), NaN if unscored."""
    column_of = frame.attrs["dimensions"]
    names = list(chosen) or list(column_of)
    columns = {}
    for name in names:
        if name in column_of:
            columns[name] = frame[column_of[name]].to_numpy(np.float64)
        elif len(frame):
            require_dimension(name, column_of)
    return columns


def _categories(columns: RowColumns, names: Iterable[str]) -> dict[str, Categorical]:
    """Returns the columns of which some row has a value, as texts."""
    import pandas

    categories = {}
    for name in names:
        texts = columns.values[name].map(value_as_text, na_action="ignore")
        codes, distinct = texts.factorize()
        if len(distinct):
            categories[name] = pandas.Categorical.from_codes(codes, categories=distinct)
    return categories


def _read_times(values: Series, name: str) -> Floats:
    """Returns seconds since 1970. Raises ConfigError if rows have a value and none is a time."""
    times = seconds(values)
    texts = values.dropna()
    if len(texts) and np.isnan(times).all():
        raise ConfigError(
            f"--over {name}: no row has a readable time; the first is {texts.iloc[0]!r}",
            hint="a time is ISO 8601 (2026-03-14T09:05:00Z), 14.03.2026, or epoch seconds",
        )
    return times


def _require_values(columns: RowColumns, required: Iterable[str]) -> None:
    """Raises ConfigError for a required column of which no row has a value."""
    values = columns.values
    filled = [name for name in values if values[name].notna().any()]
    for name in required:
        if name in filled:
            continue
        names = dict.fromkeys((*filled, *columns.names))
        names.pop(name, None)
        available = "there are none"
        if names:
            available = f"there are: {', '.join(names)}"
        raise ConfigError(
            f"no column {name!r} with a value in the scores or the chats",
            hint=f"{did_you_mean(name, names)}{available}; columns come from "
            "`medal score --keep COLUMN`, or from the chats themselves with --chats FILE",
        )


def _gaps(
    columns: RowColumns,
    categories: Mapping[str, Categorical],
    group_columns: Iterable[str],
    times: Floats | None,
) -> list[str]:
    """Says how many rows have no chat, no value of a column, or no time."""
    masks: dict[str, npt.NDArray[np.bool_]] = {}
    if columns.has_chat is not None:
        masks["have no chat, by id and text"] = ~columns.has_chat
    for name in categories.keys() & group_columns:
        masks[f"have no {name}"] = categories[name].codes < 0
    if times is not None:
        masks["have no readable time: not in the timeline"] = np.isnan(times)
    notes = []
    for problem, mask in masks.items():
        if mask.any():
            notes.append(f"{int(mask.sum()):,} of {len(mask):,} rows {problem}")
    return notes


def _clusters(
    frame: DataFrame, categories: Mapping[str, Categorical], name: str | None
) -> tuple[Codes, str]:
    """Returns the number of each row's sampling unit, shape (rows,), and the unit's name."""
    conversations = frame["id"].factorize()[0].astype(np.int64)
    if name is None or name not in categories:
        return conversations, "conversation"
    column = categories[name]
    # A row without a value is its own cluster.
    numbered_on = len(column.categories) + conversations
    return np.where(column.codes >= 0, column.codes, numbered_on), name


def _uncertainty(
    frame: DataFrame, names: Iterable[str], binary: list[Floats]
) -> Floats:
    """Returns the mean spread of each row's scores, shape (rows,). If judgements state none, it is
    that of the probabilities of issues (``binary``), or NaN."""
    import pandas

    spread_columns = [f"{name}.uncertainty" for name in names]
    spreads = frame[[name for name in spread_columns if name in frame]]
    uncertainty: Floats = spreads.mean(axis=1).to_numpy(np.float64, na_value=np.nan)
    if not binary or not np.isnan(uncertainty).any():
        return uncertainty
    # A probability is the distribution of a yes.
    chances = pandas.DataFrame(np.clip(np.array(binary), 0, 1))
    spread = np.sqrt(chances * (1 - chances)).mean(axis=0).to_numpy()
    return np.where(np.isnan(uncertainty), spread, uncertainty)


def checked_dimensions(
    scores: Mapping[str, Floats],
    stated: Iterable[tuple[str, Iterable[Dimension]]],
    rubric: str | None,
) -> dict[str, Dimension]:
    """Returns ``known_dimensions`` of the scores. Raises ConfigError also for a rubric whose scale
    does not include them."""
    dimensions = known_dimensions(scores, stated, rubric)
    if rubric is None:
        return dimensions
    for name, dimension in dimensions.items():
        low = dimension.low - dimension.tolerance
        high = dimension.high + dimension.tolerance
        for score in (np.nanmin(scores[name]), np.nanmax(scores[name])):
            if not low <= score <= high:
                raise ConfigError(
                    f"--rubric {rubric}: the scale of {name} is from {dimension.low:g} to "
                    f"{dimension.high:g}, but a score is {score:g}",
                    hint="correct `low` and `high`",
                )
    return dimensions
