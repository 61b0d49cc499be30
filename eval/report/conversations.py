"""Conversations: selects those that the page shows, the worst first, and packs them into it."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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

MOST_CHARACTERS = (
    60_000_000  # of all conversations on the page, which gzip makes some 20 MB
)
_CHUNK = 50  # conversations unpacked at a time
_SNIPPET = 90
_MOST_VALUES = 300  # of a column to filter by; nobody filters by a user


def select(scores: Scores, limit: int, seed: int = 0) -> Codes:
    """Returns at most ``limit`` rows, the worst first: all if they fit, or else the worst half, the
    least certain twentieth, and a random sample of the others."""
    bad, chosen = badness(scores), np.arange(scores.rows)
    if scores.rows > limit:
        worst = highest(bad, limit // 2)
        uncertain = highest(scores.uncertainty, limit // 20)
        certain_choice = np.union1d(worst, uncertain)
        remaining = np.setdiff1d(chosen, certain_choice, assume_unique=True)
        generator = np.random.default_rng(seed)
        sample = generator.choice(remaining, limit - len(certain_choice), replace=False)
        chosen = np.concatenate([certain_choice, sample])
    order = np.argsort(np.nan_to_num(bad[chosen], nan=-math.inf), kind="stable")[::-1]
    return np.asarray(chosen[order])


def highest(values: Floats, count: int) -> Codes:
    """Returns the rows of the ``count`` highest values; NaN is none of them."""
    finite = np.flatnonzero(np.isfinite(values))
    return finite[np.argsort(-values[finite], kind="stable")][:count]


def fault_probability(scores: Scores, name: str) -> Floats:
    """Returns the probability of the bad end of a binary dimension, shape (rows,)."""
    probability = scores.scores[name]
    if scores.dimensions[name].good == "high":
        return 1 - probability
    return probability


def badness(scores: Scores) -> Floats:
    """Returns how bad each row is, shape (rows,), NaN if unscored. It is the distance of the
    headline score from the good end of its scale, from 0 to 1. A millionth of the mean probability
    of an issue is added to order ties. Without a graded dimension it is the mean probability of an
    issue."""
    total, count = np.zeros(scores.rows), np.zeros(scores.rows)
    for name in scores.issues:
        probability = fault_probability(scores, name)
        total += np.nan_to_num(probability)
        count += np.isfinite(probability)
    issues: Floats = np.divide(
        total, count, out=np.full(scores.rows, math.nan), where=count > 0
    )
    if scores.headline is None:
        return issues
    dimension = scores.dimensions[scores.headline]
    good, bad = dimension.high, dimension.low
    if dimension.good == "low":
        good, bad = bad, good
    distance = (scores.scores[scores.headline] - good) / (bad - good)
    return distance + 1e-6 * np.nan_to_num(issues)


@dataclass(slots=True)
class Conversation:
    """A judgement with its turns as (role, text), if there are chats. ``cut``: number of characters
    that are cut from the turns."""

    judgement: Judgement
    turns: Turns = ()
    cut: int = 0

    @property
    def snippet(self) -> str:
        """The beginning of the first user turn, or else of any turn."""
        user_texts = [text for role, text in self.turns if role == "user"]
        for text in (*user_texts, *(text for _, text in self.turns)):
            if text.strip():
                line = " ".join(text[: 4 * _SNIPPET].split())
                return line if len(line) <= _SNIPPET else line[: _SNIPPET - 1] + "…"
        return ""

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """(Dimension, text) of the judge's explanations, and (``unscored``, reason) for an unscored
        row. An explanation of the whole judgement has an empty dimension."""
        judgement = self.judgement
        texts = {"": judgement.explanation}
        for name, detail in judgement.details.items():
            texts[name] = detail.get("comment")
        reasons = [*texts.items(), ("unscored", judgement.failure)]
        return [(name, text) for name, text in reasons if text]


def collect(
    rows: Codes,
    judgements: Iterable[Judgement],
    dialogues: Iterable[Dialogue] | None,
    progress: Callable[[int], object] = lambda count: None,
) -> dict[int, Conversation]:
    """Returns the conversations of these rows, in their order, from a second pass over the
    judgements and the dialogues. Long texts are cut; the more rows there are, the shorter they
    become."""
    chosen = set(rows.tolist())
    conversations: dict[int, Conversation] = {}
    by_id: dict[str, list[Conversation]] = {}
    for row, judgement in enumerate(judgements):
        if row in chosen:
            conversation = conversations[row] = Conversation(judgement)
            by_id.setdefault(judgement.id, []).append(conversation)
        if row % 1000 == 0:
            progress(1000)
    longest = min(LONGEST, MOST_CHARACTERS // max(len(rows), 1))
    for dialogue in dialogues or ():
        if dialogue.id not in by_id:
            continue
        turns, cut = shortened(dialogue, longest)
        for conversation in by_id[dialogue.id]:
            judgement = conversation.judgement
            if ScoreKey(dialogue.id, judgement.turn, judgement.chat).is_of(dialogue):
                conversation.turns, conversation.cut = turns, cut
    return {row: conversations[row] for row in rows.tolist()}


def pack(scores: Scores, conversations: Mapping[int, Conversation]) -> Markup:
    """Returns two JSON data blocks of the page: an index, and gzipped parts of 50 conversations
    that the page unpacks when it needs them."""
    details = list(map(_details, conversations.values()))
    parts = []
    for start in range(0, len(details), _CHUNK):
        chunk = _json(details[start : start + _CHUNK]).encode()
        parts.append(base64.b64encode(gzip.compress(chunk, 6, mtime=0)).decode())
    element = '<script type="application/json" id="conversation-{}">{}</script>'
    blocks = []
    for name, value in {"index": _index(scores, conversations), "parts": parts}.items():
        text = _json(value)
        # "</script>" in a chat must not end the block.
        for character in "<>&":
            text = text.replace(character, f"\\u{ord(character):04x}")
        blocks.append(element.format(name, text))
    return Markup("".join(blocks))


def _details(conversation: Conversation) -> dict[str, Any]:
    """Returns what the page shows of an opened conversation."""
    judgement = conversation.judgement
    turns = [[role == "assistant", text] for role, text in conversation.turns]
    intervals = {name: chat_interval(judgement, name) for name in judgement.details}
    details: dict[str, Any] = {"turns": turns, "intervals": intervals}
    if conversation.cut:
        details["cut"] = conversation.cut
    accounts = {}
    for name, contributions in (judgement.contributions or {}).items():
        score = judgement.scores.get(name)
        if score is not None:
            moves = [round(move, 3) for move in contributions.turns]
            accounts[name] = [account_of(contributions, score), moves]
    if judgement.contributions:
        details["contributions"] = accounts
    if reasons := conversation.reasons:
        details["reasons"] = [[name, text[:LONGEST]] for name, text in reasons]
    return details


def chat_interval(judgement: Judgement, name: str) -> Sequence[float | None]:
    """Returns the ends of the interval that the judge states for the score of one chat."""
    return judgement.details.get(name, {}).get("interval") or (None, None)


def _index(scores: Scores, conversations: Mapping[int, Conversation]) -> dict[str, Any]:
    """Returns what the page searches, filters and sorts by."""
    import pandas

    rows = list(conversations)
    columns = {}
    for name, column in scores.columns.items():
        if 1 < len(column.categories) <= _MOST_VALUES:
            part = pandas.Categorical(column[rows].astype(object))
            columns[name] = {
                "names": list(part.categories),
                "codes": part.codes.tolist(),
            }
    dimensions = []
    rounded = {}
    for name in scores.judged:
        record = scores.dimensions[name].to_record()
        del record["definition"]
        dimensions.append(record)
        rounded[name] = _rounded(scores.scores[name][rows])
    times = []
    if scores.times is not None:
        times = list(map(moment_text, scores.times[rows]))
    index: dict[str, Any] = {
        "chunk": _CHUNK,
        "unit": scores.unit,
        "headline": scores.headline,
        "dimensions": dimensions,
        "id": [],
        "turn": [],
        "time": times,
        "scores": rounded,
        "percentile": [],
        "uncertainty": _rounded(scores.uncertainty[rows]),
        "columns": columns,
        "snippet": [],
        "length": [],
    }
    for conversation in conversations.values():
        index["id"].append(conversation.judgement.id)
        score = conversation.judgement.scores.get(scores.headline or "")
        index["percentile"].append(scores.percentile(score))
        index["turn"].append(conversation.judgement.turn)
        index["snippet"].append(conversation.snippet)
        index["length"].append(len(conversation.turns))
    return index


def _rounded(column: Floats) -> list[float | None]:
    """Returns the numbers with three decimals, None for NaN: JSON has no NaN."""
    rounded: list[float | None] = []
    for value in column.tolist():
        rounded.append(None if math.isnan(value) else round(value, 3))
    return rounded


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
