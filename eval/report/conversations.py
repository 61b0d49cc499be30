"""Conversations: selects those that the page shows, the worst first, and packs them into it."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from medal_judges.eval.scores.scores import Codes, Scores
from medal_judges.eval.scores.times import moment_text
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.joining import ScoreKey
from medal_judges.records.judgement import Judgement
from medal_judges.report.page import LONGEST, Turns, account_of, shortened
from medal_judges.stats.correlation import Floats

MOST_CHARACTERS = 60_000_000  # of all conversations on the page, which gzip makes some 20 MB
_CHUNK = 50  # conversations unpacked at a time
_SNIPPET = 90
_MOST_VALUES = 300  # of a column to filter by; nobody filters by a user


def select(scores: Scores, most: int, seed: int = 0) -> Codes:
    """At most ``most`` rows, the worst first: all if they fit, or else the worst half, the least
    certain twentieth, and a random sample of the others."""
    bad, chosen = badness(scores), np.arange(scores.rows)
    if scores.rows > most:
        parts = []
        for values, count in ((bad, most // 2), (scores.uncertainty, most // 20)):
            known = np.flatnonzero(np.isfinite(values))
            parts.append(known[np.argsort(-values[known], kind="stable")][:count])
        kept = np.unique(np.concatenate(parts))
        others = np.setdiff1d(chosen, kept, assume_unique=True)
        drawn = np.random.default_rng(seed).choice(others, most - len(kept), replace=False)
        chosen = np.concatenate([kept, drawn])
    order = np.argsort(np.where(np.isnan(bad[chosen]), -math.inf, bad[chosen]), kind="stable")[::-1]
    return np.asarray(chosen[order])


def badness(scores: Scores) -> Floats:
    """How bad each row is, shape (rows,), NaN if unscored. It is the distance of the headline score
    from the good end of its scale, from 0 to 1. A millionth of the mean probability of an issue is
    added to order ties. Without a graded dimension it is the mean probability of an issue."""
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


@dataclass(slots=True)
class Conversation:
    """A judgement with its turns as (role, text), if the chats are known. ``cut``: number of
    characters that are cut from the turns."""

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
        """(Dimension, text) of the judge's explanations, and (``unscored``, reason) for an unscored
        row. An explanation of the whole judgement has an empty dimension."""
        judgement = self.judgement
        reasons = [("", judgement.explanation)] if judgement.explanation else []
        details = judgement.details.items()
        reasons += [(name, text) for name, each in details if (text := each.get("comment"))]
        return reasons + ([("unscored", judgement.failure)] if judgement.failure else [])


def collect(
    rows: Codes,
    judgements: Iterable[Judgement],
    dialogues: Iterable[Dialogue] | None,
    progress: Callable[[int], object] = lambda count: None,
) -> dict[int, Conversation]:
    """The conversations of these rows, in their order, from a second pass over the judgements and
    the dialogues. Long texts are cut; the more rows there are, the shorter they become."""
    found: dict[int, Conversation] = {}
    by_id: dict[str, list[Conversation]] = {}
    longest = min(LONGEST, MOST_CHARACTERS // max(len(rows), 1))
    wanted = set(rows.tolist())
    for row, judgement in enumerate(judgements):
        if row in wanted:
            found[row] = Conversation(judgement)
            by_id.setdefault(judgement.id, []).append(found[row])
        if not row % 1000:
            progress(1000)
    for dialogue in dialogues or ():
        if same := by_id.get(dialogue.id):
            turns, cut = shortened([(t.role, t.content) for t in dialogue.turns], longest)
            for conversation in same:
                key = ScoreKey(
                    dialogue.id, conversation.judgement.turn, conversation.judgement.chat
                )
                if key.is_of(dialogue):
                    conversation.turns, conversation.cut = turns, cut
    return {row: found[row] for row in rows.tolist()}


def pack(scores: Scores, found: Mapping[int, Conversation]) -> Markup:
    """Two JSON data blocks of the page: an index, and gzipped parts of 50 conversations that the
    page unpacks when it needs them."""
    rows, listed = list(found), list(found.values())
    details = []
    for each in listed:
        detail: dict[str, Any] = {"turns": [[r == "assistant", text] for r, text in each.turns]}
        if each.cut:
            detail["cut"] = each.cut
        if contributions := each.judgement.contributions:
            detail["contributions"] = {
                name: [account_of(own, score), [round(t, 3) for t in own.turns]]
                for name, own in contributions.items()
                if (score := each.judgement.scores.get(name)) is not None
            }
        if reasons := each.reasons:
            detail["reasons"] = [[name, text[:LONGEST]] for name, text in reasons]
        details.append(detail)
    parts = []
    for start in range(0, len(details), _CHUNK):
        text = _json(details[start : start + _CHUNK]).encode()
        parts.append(base64.b64encode(gzip.compress(text, 6, mtime=0)).decode())
    columns = {}
    for name, column in scores.columns.items():
        if 1 < len(column.categories) <= _MOST_VALUES:
            names = column.categories
            used = sorted({int(c) for c in column.codes[rows] if c >= 0}, key=lambda c: names[c])
            place = {code: i for i, code in enumerate(used)}
            codes = [place.get(int(c), -1) for c in column.codes[rows]]
            columns[name] = {"names": [names[code] for code in used], "codes": codes}

    def rounded(column: Floats) -> list[float | None]:
        return [round(float(v), 3) if math.isfinite(v) else None for v in column[rows]]

    index = {
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
        "columns": columns,
        "snippet": [each.snippet for each in listed],
        "length": [len(each.turns) for each in listed],
    }
    element = '<script type="application/json" id="conversation-{}">{}</script>'
    blocks = [
        element.format(
            name,
            _json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        )
        for name, value in (("index", index), ("parts", parts))
    ]
    return Markup("".join(blocks))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
