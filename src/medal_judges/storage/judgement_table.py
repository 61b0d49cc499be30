"""Judgements as a table: which columns there are, and from a row back to the judgement.

One row a judgement, one column a dimension. A column knows where in a judgement's record its value
stands, so that writing, reading and data frames go by one list of columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from medal_judges.errors import RecordError
from medal_judges.records.judgement import Judgement

# ``json``: anything, as the text of its JSON
ColumnKind = Literal["text", "int", "float", "bool", "floats", "json"]
# Beside the scores; those that hold nothing in all rows are left out, but for ``failure``.
_BESIDE: Mapping[str, ColumnKind] = {
    "failure": "text",
    "explanation": "text",
    "transient": "bool",
    "unknown_language": "text",
    "detected_language": "text",
    "truncated_turns": "int",
    "left_out_turns": "int",
    "shortened_turns": "int",
}
NOT_IN_CSV = "not_in_csv"  # the column that names what a row had besides
_NESTED = ("contributions", "details")
UNCERTAINTY, DISTRIBUTION = "uncertainty", "distributions"
INTERVAL: Mapping[str, int] = {"low": 0, "high": 1}  # an end of a score's interval: its index
DERIVED = (UNCERTAINTY, *INTERVAL)  # columns that follow from others, and are not read
_TYPES: Mapping[type, ColumnKind] = {bool: "bool", int: "int", float: "float", str: "text"}
_LARGEST = 1 << 63


@dataclass(frozen=True, slots=True)
class JudgementColumn:
    """``place``: keys that lead to the value in ``Judgement.to_record()``; one of
    DERIVED and a dimension for what is worked out."""

    name: str
    place: tuple[str, ...]
    kind: ColumnKind

    def value(self, judgement: Judgement, record: Mapping[str, Any]) -> Any:
        """The cell's value; None where there is none."""
        if self.place[0] == UNCERTAINTY:
            return judgement.uncertainty(self.place[1])
        if self.place[0] in INTERVAL:
            ends = judgement.details.get(self.place[1], {}).get("interval", ())
            return ends[INTERVAL[self.place[0]]] if len(ends) == 2 else None
        value: Any = record
        for key in self.place:
            value = value.get(key) if isinstance(value, Mapping) else None
        return float(value) if self.kind == "float" and value is not None else value


@dataclass(slots=True)
class TableColumns:
    """Looks through judgements (``add``) and says which columns their table has.

    Raises RecordError, when added, for judgements of other dimensions, or with other fields kept,
    than the first: an empty cell could not say which of the two it means.
    """

    _dimensions: tuple[str, ...] | None = None
    _kept: dict[str, set[ColumnKind]] = field(default_factory=dict)
    _uncertain: dict[str, None] = field(default_factory=dict)
    _bounded: dict[str, None] = field(default_factory=dict)
    _distributed: dict[str, None] = field(default_factory=dict)
    _usage: dict[str, None] = field(default_factory=dict)
    _filled: set[str] = field(default_factory=set)
    rows: int = 0

    def add(self, judgement: Judgement) -> Judgement:
        """Take one more judgement into account; returns it."""
        if self._dimensions is None:
            self._dimensions = tuple(judgement.scores)
            self._kept = {name: set() for name in judgement.meta}
        if set(judgement.scores) != set(self._dimensions):
            expected = f"the dimensions of the other rows ({', '.join(self._dimensions)})"
            raise RecordError("scores", expected, [*judgement.scores])
        if set(judgement.meta) != set(self._kept):
            expected = f"the fields of the other rows ({', '.join(self._kept) or 'none'})"
            raise RecordError("meta", expected, [*judgement.meta])
        for name, value in judgement.meta.items():
            if value is not None:
                self._kept[name].add(_kind_of(value))
        for name in judgement.distributions:
            self._distributed[name] = None
            if judgement.uncertainty(name) is not None:
                self._uncertain[name] = None
        self._bounded.update(
            {n: None for n, each in judgement.details.items() if each.get("interval")}
        )
        self._usage.update(dict.fromkeys(judgement.usage))
        self._filled.update(n for n in (*_BESIDE, *_NESTED) if getattr(judgement, n))
        self.rows += 1
        return judgement

    def flat(self) -> list[JudgementColumn]:
        """What people read: scores, uncertainties, failures, amounts and the fields kept."""
        return self._columns(whole=False)

    def whole(self) -> list[JudgementColumn]:
        """The same with everything else that the judgements hold: nothing is lost."""
        return self._columns(whole=True)

    @property
    def lost_when_flat(self) -> list[str]:
        """What the flat columns do not hold."""
        distributed = ["distributions"] if self._distributed else []
        return distributed + [name for name in _NESTED if name in self._filled]

    def _columns(self, *, whole: bool) -> list[JudgementColumn]:
        names = set(("id", "turn", "judge", NOT_IN_CSV, *_BESIDE, *_NESTED))
        columns = [
            JudgementColumn("id", ("id",), "text"),
            JudgementColumn("turn", ("turn",), "int"),
            JudgementColumn("judge", ("judge",), "text"),
        ]

        def add(name: str, place: tuple[str, ...], kind: ColumnKind) -> None:
            while name in names:  # a dimension called ``failure``, a field called as a dimension is
                name = f"{place[0]}.{name}"
            names.add(name)
            columns.append(JudgementColumn(name, place, kind))

        for name in self._dimensions or ():
            ending = name.rpartition(".")[2]  # a dimension ``risk.low`` is no end of an interval
            add(f"scores.{name}" if ending in DERIVED else name, ("scores", name), "float")
        for name in self._uncertain:
            add(f"{name}.uncertainty", (UNCERTAINTY, name), "float")
        for name in self._bounded:
            for end in INTERVAL:
                add(f"{name}.{end}", (end, name), "float")
        for name in self._distributed if whole else ():
            add(f"{name}.distribution", (DISTRIBUTION, name), "floats")
        for name, kind in _BESIDE.items():
            if name == "failure" or name in self._filled:
                columns.append(JudgementColumn(name, (name,), kind))
        for name in self._usage:
            add(f"usage.{name}", ("usage", name), "float")
        for name in _NESTED if whole else ():
            if name in self._filled:
                columns.append(JudgementColumn(name, (name,), "json"))
        for name, kinds in self._kept.items():
            add(
                name,
                ("meta", name),
                next(iter(kinds)) if len(kinds) == 1 else "json" if kinds else "text",
            )
        return columns


def cells_of(
    judgements: Iterable[Judgement], columns: Sequence[JudgementColumn]
) -> Iterator[list[Any]]:
    """One list of values a judgement."""
    for judgement in judgements:
        record = judgement.to_record()
        yield [column.value(judgement, record) for column in columns]


def record_of(columns: Sequence[JudgementColumn], cells: Iterable[object]) -> dict[str, Any]:
    """The judgement's record of one row. Raises RecordError for JSON that is none."""
    record: dict[str, Any] = {"scores": {}}
    for column, cell in zip(columns, cells, strict=True):
        first = column.place[0]
        if first in DERIVED or (cell is None and first not in ("scores", "meta")):
            continue
        if column.kind == "json" and cell is not None:
            try:
                cell = json.loads(str(cell))
            except (ValueError, RecursionError) as error:
                raise RecordError(column.name, "the text of a JSON value", cell) from error
        place = record
        for key in column.place[:-1]:
            place = place.setdefault(key, {})
        place[column.place[-1]] = cell
    return record


def _kind_of(value: object) -> ColumnKind:
    kind = _TYPES.get(type(value), "json")
    return "json" if isinstance(value, int) and not -_LARGEST <= value < _LARGEST else kind
