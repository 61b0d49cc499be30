"""The worst chats: what each of them scores, which turn cost most, and why, in words.

A reason is what the judge states: its own text, or the features of the turn that cost most. A chat
without one says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from medal_judges.eval.report.conversations import (
    Conversation,
    badness,
    chat_estimate,
    highest,
)
from medal_judges.eval.scores.scores import Scores
from medal_judges.eval.scores.times import Unit, period_starts
from medal_judges.models.base.turn_features import words
from medal_judges.records.judgement import Cause
from medal_judges.report.page import Turns
from medal_judges.report.table import Cell, Percent, Row, Table
from medal_judges.stats.estimate import Estimate

if TYPE_CHECKING:
    from pandas import DataFrame

WorstChat = Mapping[str, Any]  # the cells of a chat in worst.csv, by column
_COLUMNS = ["id", "judged_turn", "dimension", "score", "low", "high", "percentile"]
_COLUMNS += ["turn", "role", "text", "reason"]
_LONGEST = 120  # characters of a turn on the page; the CSV file has more
_EARLY = "early in a short chat"
# What a feature says of a turn if it is above its usual value, and if it is below.
_ABOVE = {
    "said_recently_2": "{repeats}: {value:.0%} of its word pairs, usual {usual:.0%}",
    "said_before_3": "{repeats}: {value:.0%} of its word triples, usual {usual:.0%}",
    "copy": "{repeats}: word for word",
    "near_copy": "{repeats}: with small changes",
    "centred_nearest_own": "{repeats}: similarity {value:.2f}, usual {usual:.2f}",
    "echo_3": "echoes the other side: {value:.0%} of its word triples, usual {usual:.0%}",
}
_BELOW = {
    "log_words": "short: {words:.0f} of the usual {usual_words:.0f} words",
    "log_turns": _EARLY,
    "distinct_1": "says words twice: {value:.0%} are different, usual {usual:.0%}",
    "last_partner": "about something else than the turn before: similarity {value:.2f}, usual "
    "{usual:.2f}",
    "centred_mean_partner": "far from the other side's turns: similarity {value:.2f}, usual "
    "{usual:.2f}",
    "reaction": "nearer to a complaint than usual: {value:.2f}, usual {usual:.2f}",
    "expected_reaction": "a complaint is likelier after it: {value:.2f}, usual {usual:.2f}",
}
_MOST_REASONS = 2  # features in words
_NOTE = (
    "Brackets hold the interval that the judge states for one conversation: nine in ten ratings of "
    "people. Turns are counted from 0.\n\nThe costliest turn moved the score most towards the bad "
    "end. Its reasons are the judge's own words, or the features of the turn that cost most, with "
    "the usual value in the training data. A percentile is the share of the reference that scores "
    "lower."
)


class NoReason(Enum):
    """Why a chat has no reason."""

    NONE_STATED = "none: the judge states no reason"
    NO_TURN = "none: no turn moved the score to the bad end"


def worst_chats(
    scores: Scores,
    conversations: Mapping[int, Conversation],
    count: int,
    unit: Unit | None = None,
) -> list[WorstChat]:
    """Returns the ``count`` worst scored rows, the worst first, of the ``conversations``. ``unit``
    is that of their periods.

    The dimension is the headline, or else the row's likeliest fault. The turn is the one that cost
    most, None if the judge does not say; its text is None without chats.
    """
    import pandas

    rows = highest(badness(scores), count)
    columns = pandas.DataFrame(dict(scores.columns), index=range(scores.rows))
    if unit is not None and scores.times is not None:
        indices, names = period_starts(scores.times, unit)
        columns.insert(0, unit, np.array([*names, None])[indices])
    columns = columns.astype(object).where(columns.notna(), None)
    answer_words = _answer_words(conversations, columns)
    chats: list[WorstChat] = []
    for row, of_row in zip(
        rows.tolist(), columns.iloc[rows].to_dict("records"), strict=True
    ):
        conversation = conversations[row]
        judgement = conversation.judgement
        name = scores.headline or _likeliest_fault(scores, row)
        estimate = chat_estimate(judgement, name)
        contributions = judgement.contributions.get(name)
        turn = role = text = None
        if contributions is not None:
            turn = contributions.costliest(scores.dimensions[name].good)
        if turn is not None and conversation.turns:
            role, text = conversation.turns[turn]
        usual_words = None
        if role == "assistant":
            usual_words = answer_words[of_row.get("chatbot")]
        cells: list[object] = [judgement.id, judgement.turn, name]
        cells += [estimate.value, estimate.low, estimate.high]
        cells += [scores.percentile(name, estimate.value), turn, role, text]
        cells.append(_reason(conversation, name, turn, usual_words))
        chats.append(dict(zip(_COLUMNS, cells, strict=True)) | of_row)
    return chats


def _likeliest_fault(scores: Scores, row: int) -> str:
    """Returns the binary dimension that is nearest to its bad end in this row."""
    distances = {}
    for name in scores.issues:
        good_end = float(scores.dimensions[name].good == "high")
        distances[name] = abs(
            np.nan_to_num(scores.scores[name][row], nan=good_end) - good_end
        )
    return max(distances, key=distances.__getitem__)


def _answer_words(
    conversations: Mapping[int, Conversation], columns: DataFrame
) -> dict[str | None, float]:
    """Returns the median number of words in an answer of each chatbot. Rows that state no chatbot
    are of one."""
    chatbots = columns.get("chatbot", {})
    counts: dict[str | None, list[int]] = {}
    for row, conversation in conversations.items():
        for role, text in conversation.turns:
            if role == "assistant":
                counts.setdefault(chatbots.get(row), []).append(len(words(text)))
    return {chatbot: median(lengths) for chatbot, lengths in counts.items()}


def _reason(
    conversation: Conversation, name: str, turn: int | None, usual_words: float | None
) -> str:
    """Returns what the judge says of the dimension, and the features of the costliest turn."""
    texts = [text for about, text in conversation.reasons if about in ("", name)]
    contributions = conversation.judgement.contributions.get(name)
    if contributions is not None and turn is None:
        texts = texts or [NoReason.NO_TURN.value]
    elif contributions is not None and turn is not None:
        phrases: dict[str, str] = {}
        for cause in contributions.causes:
            phrase = _phrase(cause, conversation.turns, turn, usual_words)
            phrases.setdefault(phrase.partition(":")[0], phrase)
        texts += list(phrases.values())[:_MOST_REASONS]
    return "; ".join(texts) or NoReason.NONE_STATED.value


def _phrase(cause: Cause, turns: Turns, turn: int, usual_words: float | None) -> str:
    """Returns a feature of a turn in words."""
    if cause.feature == "distinct_1" and cause.value == 0:
        return "has no words"
    if cause.feature == "centred_mean_partner" and len(turns) == 2:
        # The centred vectors of two turns are opposite, whatever the turns say.
        return _EARLY
    if usual_words is None:
        usual_words = math.expm1(cause.usual)
    phrases = _BELOW
    if cause.value > cause.usual:
        phrases = _ABOVE
    phrase = phrases.get(
        cause.feature, cause.feature + " {value:.2f}, usual {usual:.2f}"
    )
    return phrase.format(
        value=cause.value,
        usual=cause.usual,
        words=math.expm1(cause.value),
        usual_words=usual_words,
        repeats=_repeats(turns, turn),
    )


def _repeats(turns: Turns, turn: int) -> str:
    """Names the earlier turn of the same speaker that shares most of its words with this one."""
    nearest, largest_share = "an earlier turn", 0.0
    for i, (role, text) in enumerate(turns[:turn]):
        earlier, later = set(words(text)), set(words(turns[turn][1]))
        share = len(earlier & later) / max(1, len(earlier | later))
        if role == turns[turn][0] and share > largest_share:
            nearest, largest_share = f"turn {i}", share
    return f"repeats {nearest}"


def worst_table(scores: Scores, chats: Sequence[WorstChat]) -> Table:
    """Returns the page's table of the worst chats, of which there is at least one."""
    groups = list(chats[0])[len(_COLUMNS) :]
    columns = [scores.unit.capitalize(), "Score", "Percentile", *groups]
    columns += ["Dimension", "Costliest turn", "Its text", "Reason"]
    rows: list[Row] = []
    for chat in chats:
        name, turn, percentile = chat["id"], "", None
        if chat["judged_turn"] is not None:
            name += f" · turn {chat['judged_turn']}"
        if chat["turn"] is not None:
            turn = f"{chat['turn']} · {chat['role'] or ''}"
        if chat["percentile"] is not None:
            percentile = Percent(chat["percentile"] / 100)
        cells: list[Cell] = [name, Estimate(chat["score"], chat["low"], chat["high"])]
        cells += [percentile, *(chat[group] for group in groups), chat["dimension"]]
        rows.append([*cells, turn, (chat["text"] or "")[:_LONGEST], chat["reason"]])
    return Table(f"The {len(chats)} worst", columns, rows, _NOTE)
