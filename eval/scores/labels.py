"""Human labels of scored rows, on the judge's scales."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from medal_judges.errors import DataError, did_you_mean
from medal_judges.eval.scores.columns import row_keys
from medal_judges.eval.scores.scores import Scores
from medal_judges.records.dimension import Dimension
from medal_judges.records.joining import JoinedLabels, join_labels
from medal_judges.records.labelled import LabelledDialogue, Rating, mean, rescale
from medal_judges.stats.correlation import Floats
from medal_judges.stats.weights import curation_weights

# A row's index and its label.
LabelledRow = tuple[int, LabelledDialogue]
_NUMBER = re.compile(r"#\d+$")  # of an id that reading has numbered


def add_labels(scores: Scores, path: str, labels: Iterable[LabelledDialogue]) -> None:
    """Adds to ``scores`` the mean label of each labelled row, on the judge's scale, and notes.
    Labels and scores match by id and chat, and by turn if turns are judged.

    Raises DataError if no row or no dimension is both judged and labelled, or a label is not on the
    judge's scale; and MedalError if labels are of other chats, see JoinedLabels.
    """
    name, labels = Path(path).name, list(labels)
    joined, label_by_row = _join(scores, labels)
    notes = joined.notes(name)
    if not label_by_row:
        hint = "labels match scored rows by id, and by turn if turns are judged"
        raise DataError(name, None, "none of its rows is among the scores", hint=hint)
    labelled_names: dict[str, None] = {}
    for label in label_by_row.values():
        labelled_names |= dict.fromkeys(label.labels)
    _require_common_dimension(name, labelled_names, scores.dimensions)

    def value_of(rating: Rating) -> float | None:
        return _on_scale(rating, scores.dimensions.get(rating.dimension), name)

    labelled_rows = list(label_by_row.items())
    scores.people = label_columns(labelled_rows, scores.rows, value_of)
    scores.people_weights = weight_column(labelled_rows, scores.rows, name)
    count = f"{len(label_by_row):,} of {scores.rows:,} {scores.unit}s"
    scores.notes += [*notes, f"{count} have human labels ({name})"]
    if joined.absent:
        absent = (
            f"{len(joined.absent):,} labelled rows are not among the scores: skipped"
        )
        scores.notes.append(absent)
    if unjudged := [name for name in labelled_names if name not in scores.dimensions]:
        scores.notes.append(f"Labelled but not judged: {', '.join(unjudged)}")
    if unlabelled := [name for name in scores.dimensions if name not in scores.people]:
        scores.notes.append(f"No labels of {', '.join(unlabelled)}: not corrected")


def label_columns(
    labelled_rows: Iterable[LabelledRow],
    size: int,
    value_of: Callable[[Rating], float | None],
) -> dict[str, Floats]:
    """Returns the labels of ``size`` rows by dimension, shape (rows,), NaN without a label.
    ``value_of`` gives the value of a rating."""
    columns: dict[str, Floats] = {}
    for row, label in labelled_rows:
        for rating in label.ratings():
            value = value_of(rating)
            if value is not None:
                blank = np.full(size, math.nan)
                columns.setdefault(rating.dimension, blank)[row] = value
    return columns


def weight_column(
    labelled_rows: Sequence[LabelledRow], size: int, file: str
) -> Floats | None:
    """Returns the curation weights of ``size`` rows, 0 without a label; None if no label has one.
    Raises ConfigError if only some have one, RecordError if one is not a number above 0."""
    weights = curation_weights([label for _, label in labelled_rows], file)
    if weights is None:
        return None
    column = np.zeros(size)
    column[[row for row, _ in labelled_rows]] = weights
    return column


def _join(
    scores: Scores, labels: list[LabelledDialogue]
) -> tuple[JoinedLabels, dict[int, LabelledDialogue]]:
    """Finds the rows of each label. Only rows whose id, without its number, some label has are
    searched: labels are few, and scores may be millions."""
    label_ids = {_NUMBER.sub("", label.id) for label in labels}
    score_ids = scores.frame["id"].str.replace(_NUMBER, "", regex=True)
    candidates = np.flatnonzero(score_ids.isin(label_ids)).tolist()
    keys = row_keys(scores.frame.iloc[candidates])
    joined = join_labels(labels, keys, lambda label, score: label.turn == score.turn)
    label_by_row = {}
    for label, indices in zip(labels, joined.score_rows, strict=True):
        for index in indices:
            label_by_row[candidates[index]] = label
    return joined, label_by_row


def _require_common_dimension(
    file: str, labelled: Iterable[str], dimensions: Mapping[str, Dimension]
) -> None:
    names = list(labelled)
    if not dimensions.keys().isdisjoint(names):
        return
    near = did_you_mean((*names, "")[0], dimensions)
    raise DataError(
        file,
        None,
        f"its labels are of {', '.join(names) or 'nothing'}, which was not judged",
        hint=f"{near}the scores have: {', '.join(dimensions)}",
    )


def _on_scale(rating: Rating, dimension: Dimension | None, file: str) -> float | None:
    """Returns the mean of a rating on the judge's scale; None if it has none, or the judge does not
    score the dimension."""
    value = mean(rating)
    if value is None or dimension is None:
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
        hint='state the scale of the labels: "scales": {"NAME": [lowest, highest]}',
    )
