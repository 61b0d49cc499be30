"""Checks that human labels suffice to align a judge, before the judge is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.eval.align.proof import FOLDS, MIN_LABELS
from medal_judges.eval.metaeval.alignment import rating_matrix
from medal_judges.records.dimension import Dimension, Kind
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.stats.correlation import Floats


def choose_label_names(
    rows: Sequence[LabelledDialogue], names: Sequence[str]
) -> list[str]:
    """Returns the names of the labels to align a judge with.

    Args:
        rows: Labelled dialogues or turns.
        names: Names chosen by the user, which are returned unchanged. If empty, the names of all
            labels in ``rows`` are returned.

    Raises:
        ConfigError: No row has a label, or some rows label dialogues and others label turns.
    """
    all_names = _all_label_names(rows)
    hint = "Give labels of one kind. Name their column: --label COLUMN=DIMENSION:1..5"
    if not names and not all_names:
        raise ConfigError("no chat has a label", hint=hint)
    if len({row.level for row in rows}) > 1:
        raise ConfigError("some labels are of dialogues, others of turns", hint=hint)
    return list(names) or all_names


def _all_label_names(rows: Sequence[LabelledDialogue]) -> list[str]:
    return sorted(set().union(*(row.labels for row in rows)))


def learnable_dimension(
    labelled: Sequence[LabelledDialogue], name: str, judge_dimension: Dimension | None
) -> Dimension:
    """Returns the dimension ``name`` with the kind and scale of its human labels.

    Args:
        labelled: Labelled dialogues or turns.
        name: The name of a label, such as ``overall``.
        judge_dimension: The judge's dimension of that name, None if the judge has none. Its scale
            is used if the labels state none.

    Raises:
        ConfigError: The labels do not suffice to fit a judge to them. They are fewer than 20, from
            fewer than 5 conversations, all equal, on different scales, or on an unknown scale.
    """
    rows = [row for row in labelled if row.has_label(name)]
    if len(rows) < MIN_LABELS:
        names = ", ".join(_all_label_names(labelled)) or "none"
        raise ConfigError(
            f"{len(rows)} chats have a label of {name!r}, at least {MIN_LABELS} are needed",
            hint=f"Label more chats. The file has labels of: {names}",
        )
    ratings = rating_matrix(rows, name)
    low, high = _find_scale(rows, ratings, name, judge_dimension)
    count = len({row.group for row in rows})
    if count < FOLDS:
        raise ConfigError(
            f"the labels are of {count} conversations, at least {FOLDS} are needed: a judge is "
            "measured on conversations that it was not fitted on",
            hint="Label chats of more conversations",
        )
    kind: Kind = "continuous"
    if not rows[0].aggregated and not (ratings % 1 > 0).any():
        if (low, high) == (0.0, 1.0):
            kind = "binary"
        elif low % 1 == 0 and high % 1 == 0:
            kind = "ordinal"
    dimension = judge_dimension or Dimension(name, kind, low, high)
    return replace(dimension, kind=kind, low=low, high=high)


def _find_scale(
    rows: Sequence[LabelledDialogue],
    ratings: Floats,
    name: str,
    judge_dimension: Dimension | None,
) -> Scale:
    """Returns (lowest, highest) rating of the label ``name``: as ``rows`` state it, otherwise as
    the judge's dimension does.

    Args:
        ratings: [rows, annotators] ratings, NaN if not given.
        judge_dimension: The judge's dimension of that name, None if the judge has none.

    Raises:
        ConfigError: The scale is unknown, rows state different scales, a rating is outside the
            scale, or all ratings are equal.
    """
    low, high = float(np.nanmin(ratings)), float(np.nanmax(ratings))
    if low == high:
        raise ConfigError(
            f"all {len(rows)} labels of {name!r} are {low:g}: there is nothing to learn",
            hint=f"Label chats that differ, or type --label for other labels than {name!r}",
        )
    scale = _stated_scale(rows, name)
    problem = "the judge has none"
    if scale is None and judge_dimension is not None:
        scale = judge_dimension.low, judge_dimension.high
        distances = np.nanmax(np.abs(ratings - np.mean(scale)), axis=1)
        farthest_chat = rows[int(distances.argmax())].id
        problem = f"chat {farthest_chat!r} is outside of the judge's"
    if scale is None or low < scale[0] or high > scale[1]:
        raise ConfigError(
            f"the scale of {name!r} is not stated, and {problem}",
            hint=f"Type --label {quote(f'COLUMN={name}:{low:g}..{high:g}')}",
        )
    return scale


def _stated_scale(rows: Sequence[LabelledDialogue], name: str) -> Scale | None:
    chat_by_scale = {row.scales.get(name): row.id for row in reversed(rows)}
    if len(chat_by_scale) == 1:
        return next(iter(chat_by_scale))
    scales = []
    for scale, chat in chat_by_scale.items():
        ends = "none"
        if scale is not None:
            ends = "{:g} to {:g}".format(*scale)
        scales.append(f"{ends} in chat {chat!r}")
    raise ConfigError(
        f"labels of {name!r} are on several scales: {' and '.join(scales)}",
        hint="Convert them to one scale",
    )
