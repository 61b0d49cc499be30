"""The worst chats: what each of them scores, which turn cost most, and why, in words.

A reason is what the judge states: its own text, or the features of the turn that cost most. A chat
without one says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from medal_judges.eval.report.conversations import (
    Conversation,
    chat_interval,
    fault_probability,
)
from medal_judges.eval.scores.columns import value_as_text
from medal_judges.eval.scores.scores import Scores
from medal_judges.eval.scores.times import Unit, period_starts
from medal_judges.models.base.turn_features import words
from medal_judges.records.judgement import Cause
from medal_judges.report.page import Turns
from medal_judges.report.table import Row, Table
from medal_judges.stats.estimate import Estimate

WorstChat = Mapping[str, Any]  # the cells of a chat in worst.csv, by column
_LONGEST = 120  # characters of a turn on the page; the CSV file has more
_EARLY = "early in a short chat"
# What a feature says of a turn. A sign says whether it costs above or below its usual value.
_WORDS = {
    "+said_recently_2": "{repeats}: {value:.0%} of its word pairs, usual {usual:.0%}",
    "+said_before_3": "{repeats}: {value:.0%} of its word triples, usual {usual:.0%}",
    "+copy": "{repeats}: word for word",
    "+near_copy": "{repeats}: with small changes",
    "+nearest_own": "{repeats}: similarity {value:.2f}, usual {usual:.2f}",
    "+centred_nearest_own": "{repeats}: similarity {value:.2f}, usual {usual:.2f}",
    "+echo_3": "echoes the other side: {value:.0%} of its word triples, usual {usual:.0%}",
    "-log_words": "short: word count {words:.0f}, usual {usual_words:.0f}",
    "-log_turns": _EARLY,
    "-distinct_1": "says words twice: {value:.0%} are different, usual {usual:.0%}",
    "-last_partner": "about something else than the turn before: similarity {value:.2f}, usual "
    "{usual:.2f}",
    "-centred_mean_partner": "far from the other side's turns: similarity {value:.2f}, usual "
    "{usual:.2f}",
    "-reaction": "nearer to a complaint than usual: {value:.2f}, usual {usual:.2f}",
    "-follows_answer": "follows the answer less than usual: {value:.2f}, usual {usual:.2f}",
    "-expected_reaction": "a complaint is likelier after it: {value:.2f}, usual {usual:.2f}",
}
# Features that are 0 for the first turn, because no turn is before it.
_COMPARED = {"last_partner", "follows_answer", "expected_reaction"}
_NOTE = (
    "Brackets hold the interval that the judge states for one conversation: nine in ten ratings of "
    "people. Turns are counted from 0.\n\nThe costliest turn moved the score most towards the bad "
    "end. Its reasons are the judge's own words, or the features of the turn that cost most, with "
    "the usual value in the training data. A percentile is the percentage of the reference that "
    "scores lower."
)


class NoReason(Enum):
    """Why a chat has no reason."""

    NONE_STATED = "none: the judge states no reason"
    NO_TURN = "none: no turn moved the score to the bad end"


def worst_chats(
    scores: Scores, conversations: Mapping[int, Conversation], unit: Unit | None = None
) -> list[WorstChat]:
    """Returns the cells of the ``conversations`` by row, in their order. ``unit`` is that of their
    periods.

    The dimension is the headline, or else the row's likeliest fault. The turn is the one that cost
    most, None if the judge does not say; its text is None without chats.
    """
    columns: dict[str, Any] = {}
    if unit is not None and scores.times is not None:
        indices, names = period_starts(scores.times, unit)
        columns[unit] = np.array([*names, ""])[indices]
    columns |= scores.columns
    chats: list[WorstChat] = []
    for row, conversation in conversations.items():
        judgement = conversation.judgement
        name = scores.headline
        if name is None:
            faults = [fault_probability(scores, issue)[row] for issue in scores.issues]
            name = scores.issues[int(np.nanargmax(faults))]
        score = judgement.scores[name]
        turn = None
        role = None
        text = None
        if name in judgement.contributions:
            contributions = judgement.contributions[name]
            turn = contributions.costliest(scores.dimensions[name].good)
        if turn is not None and conversation.turns:
            role, text = conversation.turns[turn]
        low, high = chat_interval(judgement, name)
        chat: dict[str, Any] = {
            "id": judgement.id,
            "judged_turn": judgement.turn,
            "dimension": name,
            "score": score,
            "low": low,
            "high": high,
        }
        if scores.reference is not None:
            chat["percentile"] = scores.percentile(score)
        for column, values in columns.items():
            chat.setdefault(column, value_as_text(values[row]))
        chat["turn"] = turn
        chat["role"] = role
        chat["text"] = text
        chat["reason"] = _reason(conversation, name, turn)
        chats.append(chat)
    return chats


def _reason(conversation: Conversation, name: str, turn: int | None) -> str:
    """Returns what the judge says of the dimension, and the features of the costliest turn."""
    texts = [text for about, text in conversation.reasons if about in ("", name)]
    contributions = conversation.judgement.contributions.get(name)
    if contributions is not None and turn is not None:
        phrases: dict[str, str] = {}
        turns = conversation.turns[: turn + 1]
        for cause in contributions.causes:
            phrase = _phrase(cause, turns, len(contributions.turns))
            if turn == 0 and cause.feature in _COMPARED:
                phrase = "opens the chat"
            phrases.setdefault(phrase.partition(":")[0], phrase)
        texts += phrases.values()
    elif contributions is not None and not texts:
        texts.append(NoReason.NO_TURN.value)
    return "; ".join(texts) or NoReason.NONE_STATED.value


def _phrase(cause: Cause, turns: Turns, count: int) -> str:
    """Returns a feature of the last of these ``turns``, in words; the chat has ``count``."""
    if cause.feature == "distinct_1" and cause.value == 0:
        return "has no words"
    if cause.feature == "centred_mean_partner" and count == 2:
        # The centred vectors of two turns are opposite, whatever the turns say.
        return _EARLY
    usual = cause.usual or 0.0
    sign = "+" if cause.value > usual else "-"
    default = cause.feature + ": {value:.2f}, usual {usual:.2f}"
    phrase = _WORDS.get(sign + cause.feature, default)
    if cause.usual is None:
        phrase = phrase.partition(", usual")[0]
    return phrase.format(
        value=cause.value,
        usual=usual,
        words=math.expm1(cause.value),
        usual_words=math.expm1(usual),
        repeats=f"repeats {_nearest(turns)}",
    )


def _nearest(turns: Turns) -> str:
    """Names the turn of the last turn's speaker that shares most of its words with it."""
    nearest = "an earlier turn"
    largest_share = 0.0
    for i, (role, text) in enumerate(turns[:-1]):
        earlier = set(words(text))
        later = set(words(turns[-1][1]))
        share = len(earlier & later) / max(1, len(earlier | later))
        if role == turns[-1][0] and share > largest_share:
            nearest = f"turn {i}"
            largest_share = share
    return nearest


def worst_table(scores: Scores, chats: Sequence[WorstChat]) -> Table:
    """Returns the page's table of the worst chats, of which there is at least one."""
    left_out = ["low", "high", "role"]
    if scores.headline is not None:
        left_out.append("dimension")
    if scores.unit == "conversation":
        left_out.append("judged_turn")
    names = ["id", "score", "turn", "text", "reason"]
    for name in chats[0]:
        if name not in names and name not in left_out:
            names.append(name)
    rows: list[Row] = []
    for chat in map(dict, chats):
        chat["score"] = Estimate(chat["score"], chat["low"], chat["high"])
        if chat["text"] is not None:
            chat["text"] = f"{chat['role']}: {chat['text'][:_LONGEST]}"
        rows.append([chat[name] for name in names])
    columns = [name.replace("_", " ") for name in names]
    return Table(f"The {len(chats)} worst", columns, rows, _NOTE)
