"""System level: whether a judge orders chatbots as people do, set by set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

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
    """One judge on one set and dimension, over ``systems`` chatbots with 5 scored rows or more.
    ``figures``: ``pairwise_accuracy`` and ``soft_pairwise_accuracy``; ``split_half``: the same of
    one half of people's rows against the other half."""

    judge: str
    set_name: str
    level: str
    dimension: str
    systems: int
    rows: int
    figures: Mapping[str, Estimate]
    split_half: Mapping[str, float]


def system_agreements(judged: Sequence[JudgedRows]) -> list[SystemAgreement]:
    """Returns a record for each judge, set and dimension with enough named chatbots and rows."""
    halves: dict[tuple[str, str, str, int], Mapping[str, float]] = {}
    found = []
    for one in judged:
        row, bots = one.row, one.aligned.chatbots
        counts = Counter(bot for bot in bots if bot is not None)
        names = sorted(bot for bot, count in counts.items() if count >= MIN_ROWS)
        if len(names) < MIN_SYSTEMS or row.under_floor:
            continue
        chosen = one.aligned.part([i for i, bot in enumerate(bots) if bot in names])
        systems = np.array([names.index(bot or "") for bot in chosen.chatbots])
        people, judge = (
            system_means(values, systems, chosen.groups, chosen.weights)
            for values in (chosen.human, chosen.score)
        )
        key = (row.set_name, row.level, row.dimension, len(chosen.rows))
        if key not in halves:  # depends on the rows, not on the judge
            halves[key] = split_half(chosen.human, systems, chosen.groups)
        about = (row.judge, row.set_name, row.level, row.dimension, len(names), len(chosen.rows))
        found.append(SystemAgreement(*about, system_agreement(people, judge), halves[key]))
    return found
