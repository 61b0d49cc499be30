"""Judges about systems: does a judge order chatbots as people do, set by set?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.eval.metaeval.metaeval import JudgedRows
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.system_agreement import (
    MIN_ROWS,
    MIN_SYSTEMS,
    split_half,
    system_agreement,
    system_means,
)


@dataclass(frozen=True, slots=True)
class SystemAgreement:
    """One judge on one set and dimension, about ``systems`` chatbots with 5 scored rows or more.

    ``figures``: ``pairwise_accuracy`` and ``soft_pairwise_accuracy`` (stats/system_agreement.py);
    ``split_half``: the same of one half of people's rows about the other half.
    """

    judge: str
    set_name: str
    level: str
    dimension: str
    systems: int
    rows: int
    figures: Mapping[str, Estimate]
    split_half: Mapping[str, float]


def system_agreements(judged: Sequence[JudgedRows]) -> list[SystemAgreement]:
    """One record for each judge, set and dimension with three named chatbots or more; rows under
    the coverage floor have none."""
    halves: dict[tuple[str, str, str, int], Mapping[str, float]] = {}
    found = []
    for one in judged:
        row, chosen = one.row, _of_systems(one.aligned)
        if chosen is None or row.under_floor:
            continue
        names = sorted({bot for bot in chosen.chatbots if bot is not None})
        number = {name: k for k, name in enumerate(names)}
        systems = np.array([number[bot or ""] for bot in chosen.chatbots])
        sides = [
            system_means(values, systems, chosen.groups, chosen.weights)
            for values in (chosen.human, chosen.score)
        ]
        key = (row.set_name, row.level, row.dimension, len(chosen.rows))
        if key not in halves:  # of the rows, not of the judge
            halves[key] = split_half(chosen.human, systems, chosen.groups)
        about = (row.judge, row.set_name, row.level, row.dimension, len(names), len(chosen.rows))
        found.append(SystemAgreement(*about, system_agreement(*sides), halves[key]))
    return found


def _of_systems(aligned: Aligned) -> Aligned | None:
    """The rows of chatbots with enough of them; None where these are fewer than three."""
    counts = Counter(bot for bot in aligned.chatbots if bot is not None)
    kept = {bot for bot, count in counts.items() if count >= MIN_ROWS}
    if len(kept) < MIN_SYSTEMS:
        return None
    return aligned.part([i for i, bot in enumerate(aligned.chatbots) if bot in kept])
