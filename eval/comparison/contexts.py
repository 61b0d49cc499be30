"""Contexts: which dialogues of several systems belong together, so that systems are compared in
them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medal_judges.errors import MedalError
from medal_judges.eval.comparison.rows import CompareOptions, Systems

if TYPE_CHECKING:
    from pandas import Series

# Names of a column that holds the scene or prompt of a dialogue.
SCENES = ("context", "scene", "scenario", "prompt_id", "context_id")
_FEW = 3  # dialogues of a system that may share an opening without being a greeting
_COMMON = 0.2  # minimum share of rows whose opening two systems have, to pair by openings
_ALIKE = 0.5  # minimum share of shared ids with equal openings, to pair by ids


@dataclass(frozen=True, slots=True)
class Contexts:
    """The context of each row, and in words what makes a context. ``note`` warns the reader, for
    example of openings that are mere greetings."""

    names: Series
    by: str
    note: str = ""


def find_contexts(systems: Systems, options: CompareOptions) -> Contexts:
    """The contexts of all rows: the ``context`` column if it is named; else the first that some
    systems share: a column named context or scene, the id, the first user turn; else each dialogue
    alone.

    Raises MedalError for a column that no row has, and for openings without texts.
    """
    ids, opening = systems.row("id"), systems.row("opening")
    if options.context is not None:
        return _by_column(systems, options.context, systems.required(options.context))
    if options.pair_by == "none":
        return Contexts(systems.alone, "")
    if options.pair_by == "id":
        return Contexts("id " + ids, "the id")
    if options.pair_by == "opening":
        if opening.isna().all():
            raise MedalError(
                "the first user turns are not known: the files hold scores only",
                hint="give the dialogues too: --chats FILE",
            )
        return _by_opening(systems)
    for name in SCENES:
        values = systems.column(name)
        if values.nunique() > 1 and _in_several(systems, values).any():
            return _by_column(systems, name, values)
    note = ""
    if _in_several(systems, ids).any():
        # Numbers from 1 on in two files name nothing common: dialogues of one id begin alike.
        same = opening.groupby(ids)
        openings = same.nunique()[same.count() > 1]
        if (openings == 1).sum() >= _ALIKE * len(openings):
            return Contexts("id " + ids, "the id")
        note = "Systems share ids, but the dialogues of one id begin differently: not paired by id."
    found = _by_opening(systems)
    if _in_several(systems, found.names).mean() < _COMMON:
        # "how are you?" begins a few dialogues of any two systems
        found = Contexts(systems.alone, "")
    return Contexts(found.names, found.by, " ".join(filter(None, (note, found.note))))


def _in_several(systems: Systems, values: Series) -> Series:
    """Whether the value of each row occurs in several systems."""
    return systems.row("system").groupby(values).transform("nunique").fillna(0) > 1


def _by_column(systems: Systems, name: str, values: Series) -> Contexts:
    names = systems.alone.where(values.isna(), "column " + values.astype(object))
    return Contexts(names, f"the column {name!r}")


def _by_opening(systems: Systems) -> Contexts:
    """Openings that systems have equally often, or rarely, are contexts; a greeting that opens 50
    dialogues of one system and 45 of another is not."""
    opening = systems.row("opening").astype(object)
    counts = opening.groupby([opening, systems.row("system")]).size().groupby(level=0)
    uneven = (counts.size() == 1) | (counts.nunique() > 1)
    greetings = counts.sum()[(counts.max() > _FEW) & uneven].sort_values(ascending=False)
    alone = opening.isna() | opening.isin(greetings.index)
    note = ""
    if len(greetings):
        first = str(greetings.index[0])
        shown = first if len(first) <= 40 else first[:39] + "…"
        more = f" and {len(greetings) - 1} more" if len(greetings) > 1 else ""
        note = (
            f"{shown!r}{more} open many dialogues, and not equally many of each system: a "
            "greeting, not a context that systems share."
        )
    names = systems.alone.where(alone, "opening " + opening)
    return Contexts(names, "the first user turn", note)
