"""Conversations: what the page holds of each one that was selected, and how it is packed."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from medal_judges.eval.traffic.reading import mark_of
from medal_judges.eval.traffic.selection import Selection
from medal_judges.eval.traffic.times import moment_text
from medal_judges.eval.traffic.traffic import Traffic
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement

LONGEST = 20_000  # characters of a conversation in the page; what is cut is counted
MOST_BYTES = 16_000_000  # of all packed conversations
_CHUNK = 50  # conversations unpacked at a time
_SNIPPET = 90
_MOST_VALUES = 300  # of a column that can be filtered by; users are rather searched for
Turns = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One selected row with its judgement and, where the chats are at hand, its turns (role, text).
    ``cut``: characters that are left out of them."""

    row: int
    judgement: Judgement
    turns: Turns = ()
    cut: int = 0


def collect(
    selection: Selection,
    judgements: Iterable[Judgement],
    dialogues: Callable[[], Iterable[Dialogue]] | None,
    progress: Callable[[int], None] = lambda count: None,
    more: Collection[int] = (),
) -> dict[int, Conversation]:
    """The selected conversations, and ``more`` rows, by row: a second pass over ``judgements`` (in
    the same order as the first) and ``dialogues``."""
    wanted = set(selection.rows.tolist()) | {row for row, _ in selection.first}
    wanted |= set(more)
    found: dict[int, Conversation] = {}
    by_mark: dict[int, list[int]] = {}
    for row, judgement in enumerate(judgements):
        if row in wanted:
            found[row] = Conversation(row, judgement)
            by_mark.setdefault(mark_of(judgement.id), []).append(row)
        if not row % 1000:
            progress(1000)
    for dialogue in dialogues() if dialogues is not None else ():
        rows = by_mark.get(mark_of(dialogue.id), ())
        if rows:
            turns, cut = shortened([(t.role, t.content) for t in dialogue.turns], LONGEST)
            for row in rows:
                found[row] = replace(found[row], turns=turns, cut=cut)
    return found


def shortened(turns: Turns, most: int) -> tuple[Turns, int]:
    """The turns within ``most`` characters, and how many are cut: a long turn loses its end, and
    what follows is empty, so that every turn keeps its place."""
    if sum(len(text) for _, text in turns) <= most:
        return turns, 0
    # Every turn may have its share; what short ones leave goes to the long ones.
    room, kept = most, 0
    for place, length in enumerate(sorted(len(text) for _, text in turns)):
        share = room // (len(turns) - place)
        if length > share:
            kept = max(share, 1)
            break
        room -= length
    cut = sum(max(0, len(text) - kept) for _, text in turns)
    return [
        (role, text if len(text) <= kept else f"{text[:kept]} … ({len(text) - kept:,} more)")
        for role, text in turns
    ], cut


@dataclass(frozen=True, slots=True)
class Packed:
    """The conversations as data of the page, and the length from which texts were cut."""

    data: Markup
    longest: int


def pack(traffic: Traffic, selection: Selection, found: Mapping[int, Conversation]) -> Packed:
    """Two JSON data blocks: an index that is read when the page opens, and gzipped parts of 50
    conversations that are unpacked when they are needed. Texts are cut shorter until all fit."""
    listed = [found[int(row)] for row in selection.rows]
    longest = LONGEST
    while True:
        parts = [
            _zipped([_detail(c, longest) for c in listed[start : start + _CHUNK]])
            for start in range(0, len(listed), _CHUNK)
        ]
        if sum(map(len, parts)) <= MOST_BYTES or longest < 100:
            break
        longest //= 2
    index = _index(traffic, selection, listed)
    blocks = (("conversation-index", index), ("conversation-parts", parts))
    template = Markup('<script type="application/json" id="{}">{}</script>')
    joined = Markup("").join(template.format(name, _json(value)) for name, value in blocks)
    return Packed(joined, longest)


def _json(value: object) -> Markup:
    """JSON that cannot end its script element, whatever is in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(sign, code)
    return Markup(text)


def _zipped(values: Sequence[object]) -> str:
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    raw = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()


def _index(
    traffic: Traffic, selection: Selection, listed: Sequence[Conversation]
) -> dict[str, Any]:
    rows = [c.row for c in listed]
    reasons: dict[int, str] = {}
    for row, reason in selection.first:
        reasons.setdefault(row, reason)
    columns = {
        name: [int(column.codes[row]) for row in rows]
        for name, column in traffic.columns.items()
        if 1 < len(column.names) <= _MOST_VALUES
    }
    return {
        "chunk": _CHUNK,
        "unit": traffic.unit,
        "headline": traffic.headline,
        "dimensions": [
            {"name": d.name, "kind": d.kind, "low": d.low, "high": d.high, "good": d.good}
            for d in traffic.dimensions.values()
        ],
        "id": [c.judgement.id for c in listed],
        "turn": [c.judgement.turn for c in listed],
        "time": [] if traffic.times is None else [moment_text(traffic.times[r]) for r in rows],
        "scores": {n: [_rounded(column[r]) for r in rows] for n, column in traffic.scores.items()},
        "uncertainty": [_rounded(traffic.uncertainty[row]) for row in rows],
        "unusual": [_rounded(selection.unusual[row]) for row in rows],
        "reason": [reasons.get(row, "") for row in rows],
        "columns": {name: _used(traffic.columns[name].names, codes)
                    for name, codes in columns.items()},
        "snippet": [snippet(c.turns) for c in listed],
        "length": [len(c.turns) for c in listed],
    }  # fmt: skip


def _used(names: Sequence[str], codes: Sequence[int]) -> dict[str, Any]:
    """Values of a column in the page alone, and the place of each row's in them (-1: none)."""
    used = sorted({code for code in codes if code >= 0}, key=lambda code: names[code])
    place = {code: i for i, code in enumerate(used)}
    return {"names": [names[code] for code in used], "codes": [place.get(c, -1) for c in codes]}


def _rounded(value: float) -> float | None:
    return round(float(value), 3) if math.isfinite(value) else None


def snippet(turns: Turns) -> str:
    """The beginning of what the user said first, or else of what there is."""
    said = [text for role, text in turns if role == "user" and text.strip()]
    said += [text for _, text in turns if text.strip()]
    line = " ".join(said[0][: 4 * _SNIPPET].split()) if said else ""
    return line if len(line) <= _SNIPPET else line[: _SNIPPET - 1] + "…"


def _detail(conversation: Conversation, longest: int) -> dict[str, Any]:
    """What is unpacked of a conversation: turns, contributions, the judge's reasons."""
    judgement = conversation.judgement
    turns, cut = shortened(conversation.turns, longest)
    detail: dict[str, Any] = {"turns": [[role == "assistant", text] for role, text in turns]}
    if cut or conversation.cut:
        detail["cut"] = cut + conversation.cut
    if judgement.contributions:
        detail["contributions"] = {
            name: [round(each.baseline, 3), each.unit, [round(t, 3) for t in each.turns]]
            for name, each in judgement.contributions.items()
        }
    if reasons := reasons_of(judgement):
        detail["reasons"] = [[name, text[:longest]] for name, text in reasons]
    return detail


def reasons_of(judgement: Judgement) -> list[tuple[str, str]]:
    """(Dimension, or empty; text) of what the judge wrote, and why a row is unscored."""
    reasons = [("", judgement.explanation)] if judgement.explanation else []
    reasons += [(n, d["comment"]) for n, d in judgement.details.items() if d.get("comment")]
    if judgement.failure:
        reasons.append(("unscored", judgement.failure))
    return reasons
