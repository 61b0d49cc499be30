"""Conversations: which ones to read first, which ones the page holds, and how it packs them."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from markupsafe import Markup

from medal_judges.eval.report.options import moment_text
from medal_judges.eval.report.scores import Codes, Scores
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.stats.correlation import Floats

Reason = Literal["worst", "least certain", "most unusual"]
REASONS: tuple[Reason, ...] = ("worst", "least certain", "most unusual")
FIRST = 6  # shown of each kind
LONGEST = 20_000  # characters of a conversation on the page; the rest is counted
MOST_BYTES = 16_000_000  # of all packed conversations
_CHUNK = 50  # conversations unpacked at a time
_SNIPPET = 90
_MOST_VALUES = 300  # of a column to filter by; nobody filters by a user
_FEW = 20  # rows from which a profile can be unusual
_RIDGE = 0.05  # of the variance: dimensions that always agree count about once
Turns = Sequence[tuple[str, str]]


# -- selection -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """``rows`` are all rows on the page, the worst first; ``first`` maps a row to read first to its
    reason. ``worst_kept``: how many of the worst rows are on the page for certain. ``badness`` and
    ``unusual`` (rows,): of all rows, NaN if unknown. ``profile``: robust z by column, (rows,)."""

    rows: Codes
    first: Mapping[int, Reason]
    worst_kept: int
    badness: Floats
    unusual: Floats
    profile: Mapping[str, Floats]

    def why_unusual(self, scores: Scores, row: int) -> str:
        """The two columns in which a row is furthest from the median."""
        far = sorted(self.profile, key=lambda name: -abs(self.profile[name][row]))[:2]
        parts = []
        for name in far:
            if abs(self.profile[name][row]) >= 1:
                is_size = name in scores.sizes
                column = scores.sizes[name] if is_size else scores.scores[name]
                digits, median = 0 if is_size else 2, float(np.nanmedian(column))
                parts.append(f"{name} {column[row]:,.{digits}f} (median {median:,.{digits}f})")
        return "; ".join(parts)


def select(scores: Scores, most: int, seed: int = 0) -> Selection:
    """At most ``most`` rows: all if they fit, or else the worst half, the least certain and most
    unusual twentieths, and a random sample of the others."""
    bad, profile = badness(scores), _profile(scores)
    unusual = _distance(profile, scores.rows)
    measures = (bad, scores.uncertainty, unusual)
    ranked = [
        known[np.argsort(-values[known], kind="stable")]
        for values in measures
        for known in [np.flatnonzero(np.isfinite(values))]
    ]
    first: dict[int, Reason] = {}
    for reason, order in zip(REASONS, ranked, strict=True):
        fresh = [row for row in order[: FIRST + len(first)].tolist() if row not in first]
        first |= dict.fromkeys(fresh[:FIRST], reason)
    chosen, worst_kept = np.arange(scores.rows), scores.rows
    if scores.rows > most:
        worst_kept = min(len(ranked[0]), most // 2)
        must = np.array(sorted(first), dtype=np.int64)
        parts = [ranked[0][:worst_kept], must, *(order[: most // 20] for order in ranked[1:])]
        kept = np.unique(np.concatenate(parts))[:most] if most >= len(first) else must[:most]
        others = np.setdiff1d(chosen, kept, assume_unique=True)
        drawn = np.random.default_rng(seed).choice(others, most - len(kept), replace=False)
        chosen = np.concatenate([kept, drawn])
    order = np.argsort(np.where(np.isnan(bad[chosen]), -math.inf, bad[chosen]), kind="stable")[::-1]
    return Selection(chosen[order], first, worst_kept, bad, unusual, profile)


def badness(scores: Scores) -> Floats:
    """How bad each row is, shape (rows,), NaN if unscored: the distance of the headline from its
    good end, from 0 to 1, plus a millionth of the mean probability of an issue (it orders ties).
    Without a graded dimension it is the mean probability of an issue alone."""
    faults = [
        scores.scores[name] if scores.dimensions[name].good == "low" else 1 - scores.scores[name]
        for name in scores.issues
    ]
    issues: Floats = np.full(scores.rows, math.nan)
    if faults:
        known = np.isfinite(table := np.array(faults))
        total, count = np.where(known, table, 0.0).sum(axis=0), known.sum(axis=0)
        np.divide(total, count, out=issues, where=count > 0)
    if scores.headline is None:
        return issues
    dimension = scores.dimensions[scores.headline]
    good, bad = dimension.high, dimension.low
    if dimension.good == "low":
        good, bad = bad, good
    total = (scores.scores[scores.headline] - good) / (bad - good)
    return total + 1e-6 * np.where(np.isnan(issues), 0.0, issues)


def _profile(scores: Scores) -> dict[str, Floats]:
    """Robust z of each row's scores and of the logarithms of its numbers of turns and characters:
    0 at the median, 1 at a standard deviation."""
    columns = {name: scores.scores[name] for name in scores.dimensions}
    columns |= {name: np.log1p(size) for name, size in scores.sizes.items()}
    made: dict[str, Floats] = {}
    for name, column in columns.items():
        known = column[np.isfinite(column)]
        if len(known) >= _FEW and (spread := float(known.std())) > 1e-9:
            made[name] = (column - float(np.median(known))) / spread
    return made


def _distance(profile: Mapping[str, Floats], rows: int) -> Floats:
    """Mahalanobis distance of each row's profile from the median one, shape (rows,)."""
    if not profile:
        return np.full(rows, math.nan)
    table = np.array(list(profile.values()))
    known = np.isfinite(table)
    filled = np.where(known, table, 0.0)
    covariance = np.atleast_2d(np.cov(filled)) + _RIDGE * np.eye(len(table))
    squares = np.einsum("cr,cr->r", filled, np.linalg.solve(covariance, filled))
    return np.where(known.all(axis=0), np.sqrt(squares), math.nan)


# -- texts -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Conversation:
    """A selected row with its judgement and, if the chats are known, its turns (role, text).
    ``cut``: characters that are left out of them."""

    row: int
    judgement: Judgement
    turns: Turns = ()
    cut: int = 0

    @property
    def snippet(self) -> str:
        """The beginning of the first user turn, or else of any turn."""
        texts = [text for role, text in self.turns if role == "user" and text.strip()]
        texts += [text for _, text in self.turns if text.strip()]
        line = " ".join(texts[0][: 4 * _SNIPPET].split()) if texts else ""
        return line if len(line) <= _SNIPPET else line[: _SNIPPET - 1] + "…"

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """(Dimension or empty, text) of the judge's explanations, and why a row is unscored."""
        judgement = self.judgement
        reasons = [("", judgement.explanation)] if judgement.explanation else []
        details = judgement.details.items()
        reasons += [(name, text) for name, each in details if (text := each.get("comment"))]
        return reasons + ([("unscored", judgement.failure)] if judgement.failure else [])


def collect(
    rows: Collection[int],
    judgements: Iterable[Judgement],
    dialogues: Iterable[Dialogue] | None,
    progress: Callable[[int], object] = lambda count: None,
) -> dict[int, Conversation]:
    """The conversations of these rows: a second pass over ``judgements`` (in the same order) and
    ``dialogues``."""
    found: dict[int, Conversation] = {}
    by_id: dict[str, list[Conversation]] = {}
    for row, judgement in enumerate(judgements):
        if row in rows:
            found[row] = Conversation(row, judgement)
            by_id.setdefault(judgement.id, []).append(found[row])
        if not row % 1000:
            progress(1000)
    for dialogue in dialogues or ():
        if same := by_id.get(dialogue.id):
            turns, cut = shortened([(t.role, t.content) for t in dialogue.turns], LONGEST)
            for conversation in same:
                conversation.turns, conversation.cut = turns, cut
    return found


def shortened(turns: Turns, most: int) -> tuple[Turns, int]:
    """The turns within ``most`` characters, and how many are cut. Every turn stays; the long ones
    lose their ends."""
    if sum(len(text) for _, text in turns) <= most:
        return turns, 0
    # Every turn may have its share; short ones leave theirs to the long ones.
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


def pack(
    scores: Scores, selection: Selection, found: Mapping[int, Conversation]
) -> tuple[Markup, int]:
    """Two JSON data blocks of the page, and the length from which texts are cut: an index, and
    gzipped parts of 50 conversations that the page unpacks when it needs them. Texts are cut
    shorter until all fit."""
    listed = [found[int(row)] for row in selection.rows]
    longest = LONGEST
    while True:
        details = [_detail(each, longest) for each in listed]
        parts = []
        for start in range(0, len(details), _CHUNK):
            text = _json(details[start : start + _CHUNK])
            parts.append(base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode())
        if sum(map(len, parts)) <= MOST_BYTES or longest < 100:
            break
        longest //= 2
    blocks = {"index": _index(scores, selection, listed), "parts": parts}
    element = '<script type="application/json" id="conversation-{}">{}</script>'
    escaped = {
        name: _json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        for name, value in blocks.items()
    }
    return Markup("".join(element.format(*each) for each in escaped.items())), longest


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _index(scores: Scores, selection: Selection, listed: Sequence[Conversation]) -> dict[str, Any]:
    rows = [each.row for each in listed]

    def rounded(column: Floats) -> list[float | None]:
        return [round(float(v), 3) if math.isfinite(v) else None for v in column[rows]]

    columns = {}
    for name, column in scores.columns.items():
        if 1 < len(column.categories) <= _MOST_VALUES:
            names = column.categories
            used = sorted({int(c) for c in column.codes[rows] if c >= 0}, key=lambda c: names[c])
            place = {code: i for i, code in enumerate(used)}
            codes = [place.get(int(c), -1) for c in column.codes[rows]]
            columns[name] = {"names": [names[code] for code in used], "codes": codes}
    return {
        "chunk": _CHUNK,
        "unit": scores.unit,
        "headline": scores.headline,
        "dimensions": [
            {"name": d.name, "kind": d.kind, "low": d.low, "high": d.high, "good": d.good}
            for d in scores.dimensions.values()
        ],
        "id": [each.judgement.id for each in listed],
        "turn": [each.judgement.turn for each in listed],
        "time": [] if scores.times is None else [moment_text(scores.times[r]) for r in rows],
        "scores": {name: rounded(column) for name, column in scores.scores.items()},
        "uncertainty": rounded(scores.uncertainty),
        "unusual": rounded(selection.unusual),
        "reason": [selection.first.get(row, "") for row in rows],
        "columns": columns,
        "snippet": [each.snippet for each in listed],
        "length": [len(each.turns) for each in listed],
    }


def _detail(conversation: Conversation, longest: int) -> dict[str, Any]:
    """What is unpacked of a conversation: turns, contributions, the judge's reasons."""
    turns, cut = shortened(conversation.turns, longest)
    detail: dict[str, Any] = {"turns": [[role == "assistant", text] for role, text in turns]}
    if cut or conversation.cut:
        detail["cut"] = cut + conversation.cut
    if contributions := conversation.judgement.contributions:
        detail["contributions"] = {
            name: [round(each.baseline, 3), each.unit, [round(t, 3) for t in each.turns]]
            for name, each in contributions.items()
        }
    if reasons := conversation.reasons:
        detail["reasons"] = [[name, text[:longest]] for name, text in reasons]
    return detail
