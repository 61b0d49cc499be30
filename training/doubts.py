"""Finds rows (labelled dialogues) that teach or measure nothing. Warnings about them are in the
log, in judge.json and on the model card.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from medal_judges.records.dimension import Dimension
from medal_judges.training.rows import RunRows, TrainingExample

_NAMED = 3


def warnings_about_rows(
    rows: RunRows,
    dimensions: Sequence[Dimension],
) -> list[str]:
    """Returns warnings about labelled dialogues (rows) from which a dimension cannot be learnt or
    measured, such as ``2 test rows have no label: a, b``.

    Args:
        rows: The training, validation and test rows of a run.
        dimensions: The dimensions to learn.
    """
    warnings: list[str] = []
    for fact in rows.facts:
        if not fact["rows"]:
            warnings.append(f"{fact['part']}: {fact['source']} has no rows")
    validated = {example.dialogue.text_hash for example in rows.validation}
    repeated = [row for row in rows.test if row.dialogue.text_hash in validated]
    if repeated:
        count = len(repeated)
        warnings.append(
            f"{count} test rows are validation rows: {_first_ids(repeated)}"
        )
    parts = {"training": rows.train, "validation": rows.validation, "test": rows.test}
    names = {dimension.name for dimension in dimensions}
    for part, examples in parts.items():
        silent = [row for row in examples if names.isdisjoint(row.human)]
        if silent:
            count = len(silent)
            warnings.append(f"{count} {part} rows have no label: {_first_ids(silent)}")
        for dimension in dimensions:
            warnings += _label_warnings(part, examples, dimension.name)
    return warnings


def _label_warnings(
    part: str,
    examples: Sequence[TrainingExample],
    name: str,
) -> Iterator[str]:
    """Yields warnings about the labels of one dimension, such as ``all 9 test labels of overall are
    1``.

    Args:
        part: What ``examples`` are for: ``training``, ``validation`` or ``test``.
        name: The dimension.
    """
    labelled = [row for row in examples if name in row.human]
    values = {row.human[name] for row in labelled}
    if len(labelled) == 1:
        yield f"one {part} row has a label of {name}: {_first_ids(labelled)}"
    elif len(values) == 1:
        value = values.pop()
        count = len(labelled)
        yield f"all {count} {part} labels of {name} are {value:g}: {_first_ids(labelled)}"
    if not labelled:
        return
    spans: dict[tuple[str, str], list[float]] = {}
    ranges: dict[str, list[float]] = {}
    for row in labelled:
        key = (row.source, row.dialogue.text_hash)
        spans.setdefault(key, []).append(row.human[name])
        ranges.setdefault(row.source, []).append(row.human[name])
    opposite = []
    for row in labelled:
        ratings = spans[row.source, row.dialogue.text_hash]
        of_source = ranges[row.source]
        width = max(of_source) - min(of_source)
        if width and max(ratings) - min(ratings) > width / 2:
            opposite.append(row)
    if opposite:
        count = len(opposite)
        yield (
            f"{count} {part} rows of equal dialogues have opposite labels of {name}: "
            f"{_first_ids(opposite)}"
        )


def _first_ids(rows: Iterable[TrainingExample]) -> str:
    """Returns the ids of the first three of ``rows``, such as ``a, b, c, ...``."""
    ids = [row.dialogue.id for row in rows]
    if len(ids) > _NAMED:
        ids[_NAMED:] = ["..."]
    return ", ".join(ids)
