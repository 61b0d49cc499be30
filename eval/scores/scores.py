"""The judgements of one judge as arrays, with the scales and the columns of the chats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from medal_judges.errors import DataError
from medal_judges.eval.scores.bad import (
    BadScoreLimit,
    parse_bad_score_limits,
    require_dimension,
)
from medal_judges.eval.scores.columns import Unit, parse_periods, read_columns
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature
from medal_judges.report.table import Cell, Share
from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import is_issue_present
from medal_judges.stats.intervals import Estimate
from medal_judges.storage.judgements import frame_dimensions

if TYPE_CHECKING:
    from pandas import DataFrame, Series

HEADLINE = "overall"
LANGUAGE = "lang"
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_DIFFERENT_JUDGES = (
    "Judges differ by language: a difference between languages can be the judge's"
)


@dataclass(slots=True)
class Scores:
    """The judgements of one judge as arrays, with one row for each dialogue or judged turn.

    Attributes:
        frame: The table of judgements. All arrays have the same rows.
        dimensions: Dimension name -> dimension. A limit for bad scores adds a binary dimension,
            such as ``overall below 1.5``.
        scores: Dimension name -> scores [rows], NaN if unscored.
        clusters: [rows] index of each row's cluster. Rows of one cluster are not independent.
        cluster_name: What a cluster is, such as ``dialogue`` or ``user``.
        columns: A table [rows] of the chats' data to compare or group by, as text. It has columns
            such as ``version`` and ``user``.
        period_of: The period of each row, such as ``2026-03``. None without periods.
        periods: The names of all periods in order.
        notes: Warnings about missing rows and labels.
        skipped: The number of unreadable lines of the input.
        people: Dimension name -> mean human labels [rows] on the judge's scale, NaN without a
            label. Empty if no labels were added.
        bad: Name, such as ``overall below 1.5`` -> the limit beyond which scores are bad. Empty if
            no limits were added.
    """

    frame: DataFrame
    dimensions: dict[str, Dimension]
    scores: dict[str, Floats]
    clusters: Codes
    cluster_name: str
    columns: DataFrame
    period_of: Series | None = None
    periods: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)
    skipped: int = 0  # unreadable lines of the input
    people: dict[str, Floats] = field(default_factory=dict)
    bad: Mapping[str, BadScoreLimit] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.frame)

    @property
    def is_scored(self) -> Mask:
        """Returns a mask [rows] that is True for rows with a score in every dimension."""
        if not self.dimensions:
            return np.zeros(self.rows, dtype=bool)
        return np.asarray(np.isfinite(list(self.scores.values())).all(axis=0))

    @property
    def coverage(self) -> float | None:
        """Returns the share of rows with a score in every dimension. None without rows."""
        return float(self.is_scored.mean()) if self.rows else None

    @property
    def rows_by_signature(self) -> dict[str, int]:
        """Returns the number of rows for each signature (the judge's name, version and settings as
        text). There are several signatures if the judge's version changed."""
        counts: dict[str, int] = self.frame["judge"].value_counts(sort=False).to_dict()
        return counts

    def failures_text(self) -> str:
        """Returns the three most frequent reasons why rows are unscored, with their numbers of
        rows, such as ``12 × timeout; 3 × no answer``."""
        failures = self.frame["failure"][~self.is_scored].fillna("no reason given")
        counts = failures.value_counts()[:3]
        return "; ".join(f"{n:,} × {reason}" for reason, n in counts.items())

    @property
    def judged_names(self) -> list[str]:
        """Returns the names of the dimensions that the judge scored, such as ``overall``. Names
        that limits for bad scores add, such as ``overall below 1.5``, are left out."""
        return [name for name in self.dimensions if name not in self.bad]

    @property
    def issue_names(self) -> list[str]:
        """Returns the names of the binary dimensions that the judge scored."""
        return [name for name in self.judged_names if self.is_share(name)]

    @property
    def graded_names(self) -> list[str]:
        """Returns the names of the graded dimensions (those that are not
        binary), ``overall`` first."""
        names = [name for name in self.dimensions if not self.is_share(name)]
        return sorted(names, key=lambda name: name != HEADLINE)

    @property
    def headline(self) -> str | None:
        """Returns the name of the main dimension: ``overall``, or without it the first graded (not
        binary) dimension. None if no dimension is graded."""
        return next(iter(self.graded_names), None)

    @property
    def unit(self) -> str:
        """Returns what a row is: ``judged turn`` or ``dialogue``."""
        return "judged turn" if self.frame["turn"].notna().any() else "dialogue"

    def is_share(self, name: str) -> bool:
        """Returns whether the dimension ``name`` is binary. Its estimate is
        then a share of rows."""
        return self.dimensions[name].kind == "binary"

    def cell(self, name: str, estimate: Estimate, signed: bool = False) -> Cell:
        """Returns ``estimate`` as a table cell. It is in percent if the dimension is binary.

        Args:
            name: The name of the dimension.
            estimate: The mean or share, or a difference of two.
            signed: Whether it is a difference, which is shown with its sign.
        """
        return Share(estimate, signed) if self.is_share(name) else estimate

    def comparable_rows(self, column: str) -> Mask:
        """Returns a mask [rows] that is True for rows with a value of ``column``.

        For the column ``lang``, it is False for rows in a language that the judge does not support.
        """
        is_read = self.columns[column].notna().to_numpy()
        if column == LANGUAGE and "unknown_language" in self.frame:
            is_read = is_read & self.frame["unknown_language"].isna().to_numpy()
        return np.asarray(is_read)

    def add_bad_score_dimensions(self, thresholds: Sequence[str]) -> None:
        """Adds a binary dimension of bad scores for each limit, to the scores and to human labels.

        Args:
            thresholds: Limits as the user types them: with ``overall=1.5``, the new dimension is 1
                where the score is below 1.5.

        Raises:
            ConfigError: A dimension is unknown, or no score on its scale would be bad.
        """
        self.bad = parse_bad_score_limits(thresholds, self.dimensions)
        for name, bad in self.bad.items():
            self.dimensions[name] = bad.dimension
            self.scores[name] = bad.flags(self.scores[bad.scale.name])
            if bad.scale.name in self.people:
                self.people[name] = bad.flags(self.people[bad.scale.name])

    def values(self, name: str) -> Floats:
        """Returns the scores of the dimension ``name`` [rows], NaN if unscored. On a binary
        dimension, probabilities are rounded to 1 (issue present) or 0."""
        scores = self.scores[name]
        if self.is_share(name):
            return np.where(np.isfinite(scores), is_issue_present(scores) * 1.0, np.nan)
        return scores


def scores_from_frame(
    frame: DataFrame,
    dialogues: Iterable[Dialogue] | None = None,
    *,
    by: Sequence[str] = (),
    over: tuple[str, Unit] | None = None,
    cluster: str | None = None,
    dimensions: Sequence[str] = (),
) -> Scores:
    """Converts a table of judgements to ``Scores``.

    Args:
        frame: Judgements of one judge, one for each row.
        dialogues: The scored chats, for values of columns that ``frame`` lacks.
        by: Names of columns to compare by, such as ``version``.
        over: A column of times and the length of a period, such as ``("time", "day")``. None for no
            periods.
        cluster: A column such as ``user``. Rows with the same value are not independent. By
            default, the rows of one dialogue are a cluster.
        dimensions: Names of the dimensions to use (default: all).

    Raises:
        DataError: Several judges made the scores, or a score is outside its scale.
        ConfigError: A dimension is unknown, or a column has no value in any row.
    """
    _refuse_several_judges(frame)
    names = dict.fromkeys(by)
    if cluster is not None:
        names[cluster] = None
    if over is not None:
        names[over[0]] = None
    columns = read_columns(frame, list(names), dialogues)
    scales, scores = dimensions_and_scores(frame, dimensions)
    clusters = frame["id"].factorize()[0]
    if cluster is not None:
        # A row without a value is its own cluster.
        alone = "id " + frame["id"]
        clusters = ("value " + columns[cluster]).fillna(alone).factorize()[0]
    loaded = Scores(
        frame=frame,
        dimensions=scales,
        scores=scores,
        clusters=clusters.astype(np.int64),
        cluster_name=cluster or "dialogue",
        columns=columns,
    )
    missing = {name: columns[name].isna() for name in dict.fromkeys([*by, *names])}
    if over is not None and len(frame):
        loaded.period_of, loaded.periods = parse_periods(columns[over[0]], over[1])
        missing[over[0]] = loaded.period_of.isna()
    if "has_chat" in columns:
        missing["chat with that id and text"] = ~columns["has_chat"]
    for name, is_missing in missing.items():
        if count := int(is_missing.sum()):
            loaded.notes.append(f"{count:,} of {len(frame):,} rows have no {name}")
    if LANGUAGE in by:
        loaded.notes.append(_DIFFERENT_JUDGES)
    return loaded


def dimensions_and_scores(
    frame: DataFrame, chosen: Sequence[str] = ()
) -> tuple[dict[str, Dimension], dict[str, Floats]]:
    """Returns the dimensions and the scores of a table of judgements.

    Args:
        frame: A table of judgements.
        chosen: Names of dimensions (default: all).

    Returns:
        A pair: dimension name -> dimension, and dimension name -> scores [rows] (NaN if unscored).
            A dimension without any score is left out.

    Raises:
        ConfigError: A dimension is unknown.
        DataError: The scale of a dimension is not stated, or a score is outside it.
    """
    column_of = frame.attrs["dimensions"]
    if not len(frame):
        return {}, {}
    known_scales = {dimension.name: dimension for dimension in frame_dimensions(frame)}
    scales: dict[str, Dimension] = {}
    scores: dict[str, Floats] = {}
    for name in chosen or column_of:
        require_dimension(name, column_of)
        numbers = frame[column_of[name]].to_numpy(np.float64)
        if not np.isfinite(numbers).any():
            continue
        if name not in known_scales:
            raise DataError(
                "the scores",
                None,
                f"neither the scale nor the good end of {name} is stated",
                hint='Add to the first line: "dimensions": [{"name": "'
                f'{name}", "kind": "continuous", "low": 1, "high": 5, "good": "high"}}]',
            )
        scales[name], scores[name] = known_scales[name], numbers
        _require_on_scale(frame, scales[name], numbers)
    return scales, scores


def _require_on_scale(frame: DataFrame, scale: Dimension, numbers: Floats) -> None:
    """Raises DataError if a score is outside its scale.

    Args:
        frame: The table of judgements, for the id in the error message.
        scale: The dimension.
        numbers: [rows] scores.
    """
    outside = np.maximum(scale.low - numbers, numbers - scale.high) > scale.tolerance
    if outside.any():
        row = int(outside.argmax())
        raise DataError(
            "the scores",
            None,
            f"{frame['id'].iloc[row]}: {scale.name} {numbers[row]:g} is outside its scale from "
            f"{scale.low:g} to {scale.high:g}",
            hint="Correct the score, or low and high of the dimension in the first line",
        )


def _refuse_several_judges(frame: DataFrame) -> None:
    signatures = list(frame["judge"].unique())
    judges_with_settings = {text.partition("|version:")[0] for text in signatures}
    if len(judges_with_settings) > 1:
        names = ", ".join(sorted({Signature.parse(text).judge for text in signatures}))
        raise DataError(
            "the scores",
            None,
            f"several judges made them ({names})",
            hint="Score all chats with one judge and the same settings, or give one file at a time",
        )
