"""Which dialogues of several systems are of one context, so that systems are compared in it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from medal_judges.errors import MedalError
from medal_judges.eval.comparison.rows import ScoredDialogue

PairBy = Literal["auto", "id", "opening", "none"]
# Names of a column that says which scene or prompt a dialogue was held in.
SCENES = ("context", "scene", "scenario", "prompt_id", "context_id")
_FEW = 3  # an opening of so many dialogues of a system at most may be a context by chance of count
_COMMON = 0.2  # share of rows whose opening two systems have, from which on it pairs them
_ALIKE = 0.5  # share of shared ids whose openings must be the same


@dataclass(frozen=True, slots=True)
class Contexts:
    """The context of each row, and in words what made it one. ``note`` says what a reader has to
    know, such as openings that are mere greetings."""

    names: Sequence[str]
    by: str
    note: str = ""


def find_contexts(
    rows: Sequence[ScoredDialogue], pair_by: PairBy = "auto", column: str | None = None
) -> Contexts:
    """The contexts of all rows: a ``column`` where one is named; else, the first that some systems
    share, a column named context or scene, the id, the first user turn; else each dialogue alone.

    Raises MedalError for a column that no row has, and for openings where no texts are known.
    """
    if column is not None:
        if not any(row.value(column) is not None for row in rows):
            raise MedalError(
                f"no row has a value of {column!r}",
                hint=f"scores keep it with: medal score --keep {column}",
            )
        return _by_column(rows, column)
    if pair_by == "none":
        return _alone(rows)
    if pair_by == "id":
        return Contexts([f"id {row.id}" for row in rows], "the id")
    if pair_by == "opening":
        if not any(row.opening for row in rows):
            raise MedalError(
                "the first user turns are not known: the files hold scores only",
                hint="give the dialogues too: --chats FILE",
            )
        return _by_opening(rows)
    for name in SCENES:
        values = [row.value(name) for row in rows]
        if len(set(values) - {None}) > 1 and _shared(rows, values):
            return _by_column(rows, name)
    note = ""
    if _shared(rows, [row.id for row in rows]):
        if _ids_fit(rows):
            return Contexts([f"id {row.id}" for row in rows], "the id")
        note = "Systems share ids, but the dialogues of one id begin differently: not paired by id."
    found = _by_opening(rows)
    met = {name for name, count in _systems_of(found.names, rows).items() if count > 1}
    if sum(name in met for name in found.names) < _COMMON * len(rows):
        found = _alone(rows)  # "how are you?" begins a few dialogues of any two systems
    return Contexts(found.names, found.by, " ".join(filter(None, (note, found.note))))


def _shared(rows: Sequence[ScoredDialogue], values: Sequence[str | None]) -> bool:
    """Whether two systems have a value in common."""
    met = {
        (value, row.system) for row, value in zip(rows, values, strict=True) if value is not None
    }
    return len({value for value, _ in met}) < len(met)


def _systems_of(names: Sequence[str], rows: Sequence[ScoredDialogue]) -> Counter[str]:
    """How many systems have each context."""
    return Counter(
        name for name, _ in {(n, row.system) for n, row in zip(names, rows, strict=True)}
    )


def _ids_fit(rows: Sequence[ScoredDialogue]) -> bool:
    """Whether dialogues of one id begin alike, as far as texts are known: numbers from 1 on in two
    files name nothing common."""
    openings: Mapping[str, set[str]] = defaultdict(set)
    systems: Counter[str] = Counter()
    for row in rows:
        if row.opening is not None:
            openings[row.id].add(row.opening)
            systems[row.id] += 1
    several = [id for id, count in systems.items() if count > 1]
    alike = sum(len(openings[id]) == 1 for id in several)
    return not several or alike >= _ALIKE * len(several)


def _alone(rows: Sequence[ScoredDialogue]) -> Contexts:
    return Contexts([_own(row) for row in rows], "")


def _own(row: ScoredDialogue) -> str:
    return f"own {row.system}\x00{row.id}"


def _by_column(rows: Sequence[ScoredDialogue], name: str) -> Contexts:
    values = [row.value(name) for row in rows]
    names = [
        _own(row) if value is None else f"column {value}"
        for row, value in zip(rows, values, strict=True)
    ]
    return Contexts(names, f"the column {name!r}")


def _by_opening(rows: Sequence[ScoredDialogue]) -> Contexts:
    """Openings that systems have equally often, or seldom, are contexts; a greeting that opens 50
    dialogues here and 45 there says nothing of what follows."""
    counts: Counter[tuple[str, str]] = Counter(
        (row.opening, row.system) for row in rows if row.opening is not None
    )
    by_opening: dict[str, list[int]] = defaultdict(list)
    for (opening, _), count in counts.items():
        by_opening[opening].append(count)
    greetings = {
        opening
        for opening, numbers in by_opening.items()
        if max(numbers) > _FEW and (len(numbers) == 1 or len(set(numbers)) > 1)
    }
    names = [
        _own(row) if row.opening is None or row.opening in greetings else f"opening {row.opening}"
        for row in rows
    ]
    several = sorted(greetings, key=lambda text: -sum(by_opening[text]))
    note = ""
    if several:
        shown = several[0] if len(several[0]) <= 40 else several[0][:39] + "…"
        more = f" and {len(several) - 1} more" if len(several) > 1 else ""
        note = (
            f"{shown!r}{more} open many dialogues, and not of all systems alike: taken as a "
            "greeting, not as a context that systems share."
        )
    return Contexts(names, "the first user turn", note)
