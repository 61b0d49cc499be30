"""Weights of rows that ``medal curate`` selected: dialogues of the pool that each represents."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.errors import ConfigError, RecordError
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.validation import mapping, number


def curation_weights(
    rows: Sequence[LabelledDialogue], where: str
) -> list[float] | None:
    """Returns the ``curation.weight`` of each row; None if no row has one. Raises ConfigError if
    only some rows have one, RecordError if one is not a number above 0."""
    expected = "a number above 0: how many dialogues of the pool the row represents"
    weights = []
    missing = []
    for row in rows:
        weight = mapping(row.extra, "curation").get("weight")
        if weight is None:
            missing.append(row.id)
            continue
        weights.append(number("curation.weight", weight, expected))
        if not weight > 0:
            raise RecordError("curation.weight", expected, weight)
    if len(missing) == len(rows):
        return None
    if missing:
        raise ConfigError(
            f"{where}: {len(missing)} of {len(rows)} rows have no curation.weight, {missing[0]} "
            "first",
            hint="medal curate writes it into all rows; take it out to count all rows alike",
        )
    return weights
