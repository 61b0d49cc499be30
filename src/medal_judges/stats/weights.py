"""Row weights: figures of a selection by ``medal curate`` become figures of the pool it is from.

The ``curation.weight`` of a selected row is the number of dialogues in its language's pool that it
represents. A ``Statistic`` multiplies its own row weights by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from medal_judges.errors import ConfigError, RecordError
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.validation import mapping, number
from medal_judges.stats.correlation import Floats, Statistic
from medal_judges.stats.estimate import Estimate

Weights = Literal["none", "curation"]


def curation_weight(row: LabelledDialogue) -> float | None:
    """Returns the number of dialogues of its pool that the row represents, None if it does not say.
    Raises RecordError for a weight that is not a number above 0."""
    stated = mapping(row.extra, "curation").get("weight")
    if stated is None:
        return None
    expected = "a number above 0: how many dialogues of the pool the row represents"
    weight = number("curation.weight", stated, expected)
    if not weight > 0:
        raise RecordError("curation.weight", expected, stated)
    return weight


def choose_weights(rows: Sequence[LabelledDialogue], asked: Weights, where: str) -> Weights:
    """Returns ``asked``, or ``none`` if no row has a weight. Raises ConfigError if only some rows
    have one."""
    missing = [] if asked == "none" else [row.id for row in rows if curation_weight(row) is None]
    if asked == "none" or len(missing) == len(rows):
        return "none"
    if missing:
        raise ConfigError(
            f"{where}: {len(missing)} of {len(rows)} rows have no curation.weight, {missing[0]} "
            "first",
            hint="weights are written by medal curate, in all rows; leave out --weights curation "
            "to count all rows alike",
        )
    return "curation"


def weighting_note(
    rows: Sequence[LabelledDialogue], asked: Weights, where: str
) -> tuple[Weights, str | None]:
    """Returns the weights that are used, and a note about them or None. Raises ConfigError as
    ``choose_weights`` does."""
    used = choose_weights(rows, asked, where)
    weights = row_weights(rows, used)
    if weights is not None:
        return used, (
            f"{where}: every row counts as the dialogues of the pool that it represents "
            f"(curation.weight); effective size {effective_size(list(weights)):.0f} of "
            f"{len(rows)} rows"
        )
    if asked == "curation":
        return used, f"{where}: no row has a curation.weight, all rows count alike"
    curated = sum(curation_weight(row) is not None for row in rows)
    note = (
        f"{where}: {curated} of {len(rows)} rows were selected by medal curate and count alike, so "
        "the figures are of the selection, not of its pool; for the pool: --weights curation"
    )
    return used, note if curated else None


def required_weights(
    rows: Sequence[LabelledDialogue], asked: Weights, where: str
) -> tuple[Weights, str | None]:
    """Returns ``weighting_note`` of a single set. Raises ConfigError if no row has a weight."""
    used, note = weighting_note(rows, asked, where)
    if used != asked:
        raise ConfigError(
            f"--weights {asked}: {note}",
            hint="medal curate writes weights into curation.weight of its rows",
        )
    return used, note


def row_weights(rows: Sequence[LabelledDialogue], weights: Weights) -> Floats | None:
    """Returns weights of shape (rows,) with mean 1; None if all rows count alike."""
    if weights == "none" or not rows:
        return None
    values: Floats = np.array([curation_weight(row) or np.nan for row in rows], dtype=np.float64)
    values /= values.mean()
    return values


def effective_size(weights: Sequence[float]) -> float:
    """Returns the number of equally weighted rows with as much information (Kish 1965)."""
    total = sum(weights)
    return total**2 / sum(weight**2 for weight in weights) if total else 0.0


def weighted(statistic: Statistic, weights: Floats | None) -> Statistic:
    """Returns ``statistic`` with rows that count ``weights`` times, shape (rows,)."""
    if weights is None:
        return statistic
    own = weights / weights.mean()
    return lambda drawn: statistic(drawn * own)


def revalued(
    estimates: Mapping[str, Estimate], statistic: Statistic, weights: Floats | None
) -> dict[str, Estimate]:
    """Returns ``estimates`` with the values of the weighted ``statistic`` on all rows; unchanged if
    ``weights`` is None."""
    if weights is None:
        return dict(estimates)
    values = statistic(np.ones((1, len(weights))))
    return {
        name: estimate
        if estimate.value is None or not np.isfinite(values[name][0])
        else replace(estimate, value=float(values[name][0]))
        for name, estimate in estimates.items()
    }
