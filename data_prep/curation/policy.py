"""Policies: which dialogues of one language are selected, and the weight of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.curation.balanced import Selection, select_balanced
from medal_judges.data_prep.curation.candidate import Candidate, LabelReading, draw, shuffled
from medal_judges.data_prep.curation.information import (
    EXPECTED_CORRELATION,
    JudgeTable,
    JudgeView,
    Rescale,
    disagreement,
    influence,
    judge_table,
    uncertainty,
)
from medal_judges.data_prep.curation.probability import inclusion_chances, systematic
from medal_judges.data_prep.curation.weights import cell_weights
from medal_judges.errors import ConfigError

Policy = Literal["balanced", "random", "uncertainty", "disagreement", "expected-information"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
NEED_JUDGES = ("uncertainty", "disagreement", "expected-information")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judges:
    """Trained judges that a policy may ask, and how their scores are brought together."""

    views: Sequence[JudgeView] = ()
    rescale: Rescale = "ranks"
    correlation: float = EXPECTED_CORRELATION

    def table(self, pool: Sequence[Candidate], reading: LabelReading) -> JudgeTable:
        """The judges on ``pool``. Raises ConfigError without judges, or where none of them judged
        a dialogue of it."""
        if not self.views:
            raise ConfigError(
                "this policy asks judges, and none were given",
                hint="medal score FILE --judge ... --out J.jsonl, then --judgements J.jsonl",
            )
        table = judge_table(self.views, [c.id for c in pool], reading.overall, self.rescale)
        if pool and table.unjudged == len(pool):
            raise ConfigError(
                f"no judgement of any of the {len(pool)} dialogues in {pool[0].lang!r}",
                hint="score the same file: medal score FILE --judge ... --out JUDGEMENTS",
            )
        return table


@dataclass(frozen=True, slots=True)
class Chosen:
    """A dialogue of the selection. ``weight`` is how many of its language's pool it stands for;
    ``chance`` its inclusion probability, None where the policy has none (``balanced``)."""

    candidate: Candidate
    weight: float
    chance: float | None = None
    stage: str | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class LanguageSelection:
    """The selection of one language; ``balanced`` has the wishes passed over, where it applies."""

    chosen: tuple[Chosen, ...]
    balanced: Selection | None = None
    notes: Mapping[str, int] = field(default_factory=dict)


def parse_policy(text: str) -> Policy:
    """The policy of that name. Raises ConfigError."""
    found = next((policy for policy in POLICIES if policy == text), None)
    if found is None:
        raise ConfigError(f"policy must be one of {', '.join(POLICIES)}, not {text!r}")
    return found


def select(
    policy: Policy,
    pool: Sequence[Candidate],
    n: int,
    reading: LabelReading,
    *,
    seed: int = 0,
    judges: Judges | None = None,
    per_context: int | None = None,
) -> LanguageSelection:
    """``n`` dialogues of ``pool`` (one language) by ``policy``, each with its weight.

    The same in every order of the pool. Raises ConfigError for a policy that lacks its judges.
    """
    if policy == "balanced":
        return _balanced(pool, n, reading, seed, per_context)
    ordered = shuffled(pool, seed)
    notes: dict[str, int] = {}
    sizes = np.ones(len(ordered))
    if policy in NEED_JUDGES:
        table = (judges or Judges()).table(ordered, reading)
        sizes = sizes_of(policy, table, (judges or Judges()).correlation)
        notes["without a judgement"] = table.unjudged
    chances = inclusion_chances(sizes, n)
    lang = ordered[0].lang if ordered else ""
    rows = systematic(chances, draw(seed, f"start\n{lang}"))
    chosen = (Chosen(ordered[i], 1 / float(chances[i]), float(chances[i])) for i in rows)
    return LanguageSelection(tuple(chosen), notes=notes)


def sizes_of(policy: Policy, table: JudgeTable, correlation: float) -> Floats:
    """The sizes that a sampling policy gives the rows of ``table``; even for ``random``."""
    if policy == "uncertainty":
        return uncertainty(table)
    if policy == "disagreement":
        return disagreement(table)
    if policy == "expected-information":
        return influence(table, correlation)
    return np.ones(table.units.shape[1])


def _balanced(
    pool: Sequence[Candidate], n: int, reading: LabelReading, seed: int, per_context: int | None
) -> LanguageSelection:
    selection = select_balanced(
        pool,
        n,
        categories=reading.categories,
        best=int(reading.overall.high),
        seed=seed,
        per_context=per_context,
    )
    weights = cell_weights(pool, [pick.candidate for pick in selection.picks])
    chosen = (
        Chosen(pick.candidate, weight, None, pick.stage, pick.category)
        for pick, weight in zip(selection.picks, weights, strict=True)
    )
    return LanguageSelection(tuple(chosen), selection)
