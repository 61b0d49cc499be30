"""Row weights: figures of a selection made by ``medal curate`` turned into figures of its pool.

``curation.weight`` of a selected row says how many dialogues of its language's pool it represents.
Weights enter every figure in the same way: as the row weights of its ``Statistic``.
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
USED = "every row counts as the dialogues of the pool that it represents (curation.weight)"


def curation_weight(row: LabelledDialogue) -> float | None:
    """How many dialogues of its pool the row represents, above 0; None if it does not say.

    Raises RecordError for a weight that is not a number above 0.
    """
    stated = mapping(row.extra, "curation").get("weight")
    if stated is None:
        return None
    expected = "a number above 0: how many dialogues of the pool the row represents"
    weight = number("curation.weight", stated, expected)
    if not weight > 0:
        raise RecordError("curation.weight", expected, stated)
    return weight


def choose_weights(rows: Sequence[LabelledDialogue], asked: Weights, where: str) -> Weights:
    """``asked``, or ``none`` if no row has a weight. Raises ConfigError if only some have one."""
    if asked == "none":
        return "none"
    missing = [row.id for row in rows if curation_weight(row) is None]
    if len(missing) == len(rows):
        return "none"
    if missing:
        raise ConfigError(
            f"{where}: {len(missing)} of {len(rows)} rows have no curation.weight, {missing[0]} "
            "first",
            hint="weights are written by medal curate, in all rows; leave out --weights curation "
            "to count all rows alike",
        )
    return "curation"


def unused(curated: int, rows: int) -> str:
    """A note for rows that have weights which the options do not use."""
    return (
        f"{curated} of {rows} rows were selected by medal curate and count alike, so the figures "
        "are of the selection, not of its pool; for the pool: --weights curation"
    )


def weighting_note(
    rows: Sequence[LabelledDialogue], asked: Weights, where: str
) -> tuple[Weights, str | None]:
    """The weights that are used, and a note about them or None. Raises as ``choose_weights``."""
    used = choose_weights(rows, asked, where)
    weights = row_weights(rows, used)
    if weights is not None:
        size = effective_size(list(weights))
        return used, f"{where}: {USED}; effective size {size:.0f} of {len(rows)} rows"
    if asked == "curation":
        return used, f"{where}: no row has a curation.weight, all rows count alike"
    curated = sum(curation_weight(row) is not None for row in rows)
    return used, f"{where}: {unused(curated, len(rows))}" if curated else None


def required_weights(
    rows: Sequence[LabelledDialogue], asked: Weights, where: str
) -> tuple[Weights, str | None]:
    """As ``weighting_note``, for a single set. Raises ConfigError if no row has a weight."""
    used, note = weighting_note(rows, asked, where)
    if used != asked:
        raise ConfigError(
            f"--weights {asked}: {note}",
            hint="medal curate writes weights into curation.weight of its rows",
        )
    return used, note


def row_weights(rows: Sequence[LabelledDialogue], weights: Weights) -> Floats | None:
    """Weights of shape (rows,) with mean 1; None if rows count alike."""
    if weights == "none" or not rows:
        return None
    values: Floats = np.array([curation_weight(row) or np.nan for row in rows], dtype=np.float64)
    values /= values.mean()
    return values


def effective_size(weights: Sequence[float]) -> float:
    """How many equally weighted rows give as much information (Kish 1965); 0 for none."""
    total = sum(weights)
    return total**2 / sum(weight**2 for weight in weights) if total else 0.0


def weighted(statistic: Statistic, weights: Floats | None) -> Statistic:
    """``statistic`` with rows that count ``weights`` times, shape (rows,); itself for None."""
    if weights is None:
        return statistic
    own = weights / weights.mean()
    return lambda drawn: statistic(drawn * own)


def revalued(
    estimates: Mapping[str, Estimate], statistic: Statistic, weights: Floats | None
) -> dict[str, Estimate]:
    """``estimates`` with the values of the weighted ``statistic`` on all rows; unchanged if
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
