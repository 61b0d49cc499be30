"""Human labels of scored rows, on the judge's scales."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError, DataError, did_you_mean
from medal_judges.eval.scores.columns import row_keys
from medal_judges.eval.scores.scores import Scores
from medal_judges.records.dimension import Dimension
from medal_judges.records.joining import ScoreKey, join_labels
from medal_judges.records.labelled import LabelledDialogue, Rating, mean, rescale
from medal_judges.stats.correlation import Floats

if TYPE_CHECKING:
    from pandas import DataFrame

# Says whether a label can be of a score.
MayMeet = Callable[[LabelledDialogue, ScoreKey], bool]
_NUMBER = re.compile(r"#\d+$")  # of an id that reading has numbered


@dataclass(frozen=True, slots=True)
class MatchedLabels:
    """Human labels, matched with rows of a table of scores.

    Attributes:
        rows: (labelled dialogue, indices of its rows in the table of scores) pairs.
        notes: Sentences on how many labels belong to no score.
    """

    rows: list[tuple[LabelledDialogue, list[int]]]
    notes: list[str]


def match_labels(
    frame: DataFrame,
    searched: npt.NDArray[np.intp],
    labels: Sequence[LabelledDialogue],
    file: str,
    may_meet: MayMeet = lambda label, score: True,
) -> MatchedLabels:
    """Finds the scores that each human label belongs to, by id and text.

    Args:
        frame: A table of judgements.
        searched: Indices of the rows of ``frame`` to search.
        labels: The labelled dialogues or turns.
        file: The name of the labels' file, for notes and errors.
        may_meet: Called with a label and a score's id, turn and text hash. If it returns False, the
            two are not matched.

    Raises:
        MedalError: Many labels have the id of a score but another text.
        ConfigError: The labelled dialogues were selected by ``medal curate``, so they are not a
            random sample.
    """
    if any("curation" in label.extra for label in labels):
        raise ConfigError(
            f"{file}: medal curate selected its rows, which are no random sample",
            hint="Type --human with labels of a random sample of the scored chats",
        )
    # Only rows with the id of a label are searched: labels are few, and scores may be millions.
    label_ids = {_NUMBER.sub("", label.id) for label in labels}
    score_ids = frame["id"].iloc[searched].str.replace(_NUMBER, "", regex=True)
    candidates = searched[score_ids.isin(label_ids)].tolist()
    keys = row_keys(frame.iloc[candidates])
    joined = join_labels(labels, keys, may_meet)
    rows = []
    for label, indices in zip(labels, joined.score_rows, strict=True):
        if indices:
            rows.append((label, [candidates[index] for index in indices]))
    notes = joined.check_and_describe(file)
    if joined.absent:
        notes.append(
            f"{len(joined.absent):,} labels of {file} are of chats that are not scored"
        )
    return MatchedLabels(rows, notes)


def mean_labels_by_dimension(
    matched: MatchedLabels, size: int, dimensions: Mapping[str, Dimension], file: str
) -> dict[str, Floats]:
    """Returns the mean human label of each row of a table of scores, on the judge's scale.

    Args:
        matched: The labels with the indices of their rows.
        size: The number of rows of the table.
        dimensions: Dimension name -> the judge's dimension.
        file: The name of the labels' file, for errors.

    Returns:
        Dimension name -> mean labels [size], NaN without a label. A dimension without any label is
        absent.

    Raises:
        DataError: No label is of one of the dimensions, or a label is outside the judge's scale.
    """
    columns: dict[str, Floats] = {}
    other_names: dict[str, None] = {}
    for label, rows in matched.rows:
        for rating in label.ratings():
            if rating.dimension not in dimensions:
                other_names[rating.dimension] = None
                continue
            value = _mean_on_scale(rating, dimensions[rating.dimension], file)
            if value is not None:
                blank = np.full(size, math.nan)
                columns.setdefault(rating.dimension, blank)[rows] = value
    if not columns:
        near = did_you_mean(next(iter(other_names), ""), dimensions)
        raise DataError(
            file,
            None,
            f"its labels are of {', '.join(other_names) or 'nothing'}, which was not judged",
            hint=f"{near}Give labels of one of: {', '.join(dimensions)}",
        )
    return columns


def add_labels(scores: Scores, labels: Iterable[LabelledDialogue], file: str) -> None:
    """Adds the mean human label of each row to ``scores.people``, and warnings on missing labels to
    ``scores.notes``.

    Args:
        scores: The judgements of the chats.
        labels: Labelled dialogues or turns. They are matched with rows by id, text and turn.
        file: The name of the labels' file, for notes and errors.

    Raises:
        DataError: No row or dimension is both judged and labelled, or a label is outside its scale.
        MedalError: Many labels have the id of a row but another text.
        ConfigError: The labelled dialogues were selected by ``medal curate``, so they are not a
            random sample.
    """
    matched = match_labels(
        scores.frame,
        np.arange(scores.rows),
        list(labels),
        file,
        lambda label, score: label.turn == score.turn,
    )
    if not matched.rows:
        raise DataError(
            file,
            None,
            "none of its rows is among the scores",
            hint="Give labels with the id, and for a judge of turns the turn, of scored rows",
        )
    scores.people = mean_labels_by_dimension(
        matched, scores.rows, scores.dimensions, file
    )
    count = sum(len(rows) for _, rows in matched.rows)
    scores.notes += matched.notes
    scores.notes.append(
        f"{count:,} of {scores.rows:,} {scores.unit}s have human labels ({file})"
    )
    unlabelled = [name for name in scores.dimensions if name not in scores.people]
    if unlabelled:
        scores.notes.append(f"no labels of {', '.join(unlabelled)}: not corrected")


def _mean_on_scale(rating: Rating, dimension: Dimension, file: str) -> float | None:
    """Returns the mean of ``rating`` over annotators, on the judge's scale. None without a value.

    Args:
        dimension: The judge's dimension.
        file: The name of the labels' file, for the error.

    Raises:
        DataError: The rating states no scale, and its mean is outside the judge's scale.
    """
    value = mean(rating)
    if value is None:
        return None
    if rating.scale is not None:
        return rescale(value, rating.scale, (dimension.low, dimension.high))
    if dimension.low <= value <= dimension.high:
        return value
    raise DataError(
        file,
        None,
        f"{rating.dialogue_id}: {dimension.name} {value:g} is outside the judge's scale from "
        f"{dimension.low:g} to {dimension.high:g}",
        hint='Write the scale of the labels into each row: "scales": {"NAME": [lowest, highest]}',
    )
