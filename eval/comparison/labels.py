"""People's labels of some of the dialogues that are compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from medal_judges.errors import MedalError
from medal_judges.eval.comparison.rows import ScoredDialogue
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Scale, mean
from medal_judges.stats.weights import Weights, choose_weights, curation_weight

Key = tuple[str, str]  # system and id


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """People's mean of each labelled dialogue by (system, id) and dimension, on the raw ``scales``
    (None where labels state no common one); ``weights`` by (system, id), 1 unless curated."""

    values: Mapping[Key, Mapping[str, float]] = field(default_factory=dict)
    scales: Mapping[str, Scale | None] = field(default_factory=dict)
    weights: Mapping[Key, float] | None = None
    notes: Sequence[str] = ()


def match_labels(
    labelled: Iterable[tuple[str | None, LabelledDialogue]],
    rows: Sequence[ScoredDialogue],
    weights: Weights = "none",
) -> HumanLabels:
    """The labels of the rows, by id; ``labelled`` comes with its system where it is known.

    Where several systems have an id, the label's row has to name one (``models.assistant`` or a
    field ``system``). Labels of single turns and of dialogues that no system has are left out and
    counted. Raises MedalError for an id whose system cannot be told, and where no label fits.
    """
    systems: Mapping[str, list[str]] = defaultdict(list)
    for scored in rows:
        systems[scored.id].append(scored.system)
    values: dict[Key, dict[str, float]] = {}
    scales: dict[str, set[Scale | None]] = defaultdict(set)
    own: dict[Key, LabelledDialogue] = {}
    left_out: Counter[str] = Counter()
    for named, row in labelled:
        given = {r.dimension: m for r in row.ratings() if (m := mean(r)) is not None}
        system = _system(named, row, systems.get(row.id, ()))
        if row.level == "turn":
            left_out["of single turns"] += 1
        elif system is None:
            left_out["of dialogues that no system has"] += 1
        elif given:
            values[system, row.id] = given
            own[system, row.id] = row
            for name in given:
                scales[name].add(row.scales.get(name))
    if not values:
        told = ", ".join(f"{count} {why}" for why, count in left_out.items()) or "no labels at all"
        raise MedalError(
            f"no label belongs to a dialogue that is compared ({told})",
            hint="labels are matched by id; name the system where ids are the same: A=FILE",
        )
    used = choose_weights(list(own.values()), weights, "the labels")
    return HumanLabels(
        values,
        {name: found.pop() if len(found) == 1 else None for name, found in scales.items()},
        None if used == "none" else {key: curation_weight(row) or 1.0 for key, row in own.items()},
        [f"{count} labels {why} were left out." for why, count in left_out.items()],
    )


def _system(named: str | None, row: LabelledDialogue, having: Sequence[str]) -> str | None:
    """The system whose dialogue a label is of; None where none has it."""
    stated = [named, row.extra.get("system"), row.dialogue.meta.get("system"), row.dialogue.chatbot]
    for name in stated:
        if isinstance(name, str) and name in having:
            return name
    if named is not None or not having:
        return None
    if len(having) > 1:
        raise MedalError(
            f"the label of {row.id!r} fits dialogues of {having[0]} and {having[1]}",
            hint=f"say whose labels they are: --human {having[0]}=FILE, or name the system in each "
            "row (system, or models.assistant)",
        )
    return having[0]
