"""Reasons: why a judge gave a chat its score, in words."""

from __future__ import annotations

from dataclasses import dataclass

from medal_judges.models.base.turn_features import words
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Cause, Judgement
from medal_judges.report.page import Turns

UNANSWERED = "the bot never answers"
OWN_WORDS = "in the judge's words"
NO_TURN = "no turn lowered the score"
NONE_STATED = "the judge states no reason"
WITHOUT_FEATURES = {OWN_WORDS, NO_TURN, NONE_STATED}  # mechanisms that say little
_REPEATS = "repeats an earlier turn"
_SHORT_CHAT = "the chat is short"
# What a feature says of a turn, by whether its value is above or below the usual one.
_PHRASES = {
    "+said_recently_2": _REPEATS,
    "+said_before_3": _REPEATS,
    "+copy": _REPEATS,
    "+near_copy": _REPEATS,
    "+nearest_own": _REPEATS,
    "+centred_nearest_own": _REPEATS,
    "+echo_3": "echoes the other side",
    "-log_words": "says little",
    "-log_turns": _SHORT_CHAT,
    "-distinct_1": "says the same words again",
    "-last_partner": "does not follow the turn before",
    "-centred_mean_partner": "leaves the subject",
    "-follows_answer": "answers another question",
    "-reaction": "seems to complain",
    "-expected_reaction": "may make the user complain",
}
# Features that are 0 for the first turn, because no turn is before it.
_COMPARED = {"last_partner", "follows_answer", "expected_reaction"}
_ORDINALS = ("first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a chat has its score.

    Attributes:
        mechanism: A general reason, by which chats are grouped, such as ``says little``.
        text: The reason with the details of this chat.
        turn: The index of the turn that worsened the score most. None if no turn worsened the
            score, or if the judge does not give the contribution of each turn.
    """

    mechanism: str
    text: str
    turn: int | None = None


def find_reason(judgement: Judgement, turns: Turns, dimension: Dimension) -> Reason:
    """Returns why a chat has its score.

    The reason is the judge's explanation. Without an explanation, it is the property of a turn
    (such as few words) that worsened the score most. If the judge gives neither, the reason says
    so.

    Args:
        judgement: The judgement of the chat.
        turns: (role, text) pairs of the chat, empty if unknown.
        dimension: The dimension of the score.
    """
    contributions = judgement.contributions.get(dimension.name)
    turn = None
    if contributions is not None:
        turn = contributions.worst_turn(dimension.good)
    comment = judgement.details.get(dimension.name, {}).get("comment")
    own_words = [text for text in (judgement.explanation, comment) if text]
    if own_words:
        return Reason(OWN_WORDS, " ".join(own_words), turn)
    if contributions is None:
        return Reason(NONE_STATED, NONE_STATED)
    if turn is None:
        return Reason(NO_TURN, NO_TURN)
    if not contributions.causes:
        return Reason(NONE_STATED, NONE_STATED, turn)
    mechanism = _feature_phrase(contributions.causes[0], turn, len(contributions.turns))
    text = mechanism
    if mechanism == _REPEATS and turns:
        text = f"repeats {_name_nearest_turn(turns[: turn + 1])}"
    if turns and turns[turn][0] == "user":
        mechanism, text = f"the user {mechanism}", f"the user {text}"
    return Reason(mechanism, text, turn)


def _feature_phrase(cause: Cause, turn: int, turn_count: int) -> str:
    """Returns a phrase for the property of a turn that lowered a score, such as ``says little``.

    Args:
        cause: The property: its name, its value in the turn and its usual value.
        turn: The index of the turn.
        turn_count: The number of turns in the chat.
    """
    if cause.feature == "distinct_1" and cause.value == 0:
        return "has no words"
    if turn == 0 and cause.feature in _COMPARED:
        return "opens the chat"
    if cause.feature == "centred_mean_partner" and turn_count == 2:
        # The centred vectors of two turns are opposite, whatever the turns say.
        return _SHORT_CHAT
    is_above = cause.value > (cause.usual or 0.0)
    name = cause.feature.replace("_", " ")
    unusual = f"{name} is unusually {'high' if is_above else 'low'}"
    return _PHRASES.get(f"{'+' if is_above else '-'}{cause.feature}", unusual)


def _name_nearest_turn(turns: Turns) -> str:
    """Finds the earlier turn of the same speaker that shares most words with the last of ``turns``,
    and returns a phrase for it, such as ``its second answer``."""
    role, text = turns[-1]
    later = set(words(text))
    nearest = "an earlier turn"
    largest_share = 0.0
    count = 0
    for earlier_role, earlier_text in turns[:-1]:
        if earlier_role != role:
            continue
        count += 1
        earlier = set(words(earlier_text))
        share = len(earlier & later) / max(1, len(earlier | later))
        if share > largest_share:
            ordinal = f"{count}th"
            if count <= len(_ORDINALS):
                ordinal = _ORDINALS[count - 1]
            nearest = f"its {ordinal} answer" if role == "assistant" else "a turn"
            largest_share = share
    return nearest
