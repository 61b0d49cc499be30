"""A question and its answer in columns of their own, alone or beside the messages before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medal_judges.reading.names import PROMPTS, RESPONSES, ROLES, find_key
from medal_judges.reading.roles import ROLE_WORDS
from medal_judges.reading.talks import turn_in

_SPEAKERS = (*ROLES, "type")


def pair_in(item: object) -> tuple[Any, Any] | None:
    """Returns the question and the answer of ``["Is it open?", "Yes."]``, or of an object with both
    and no role."""
    if isinstance(item, list) and len(item) == 2 and not isinstance(item[0], Mapping):
        return item[0], item[1]
    if isinstance(item, Mapping) and find_key(item, _SPEAKERS) is None:
        question, answer = find_key(item, PROMPTS), find_key(item, RESPONSES)
        if question is not None and answer is not None:
            return item[question], item[answer]
    return None


def without_pairs(items: Sequence[Any]) -> list[Any]:
    """Returns a list of messages: two for a question and its answer, one for a role and a text."""
    pairs = [pair_in(item) for item in items]
    has_roles = all(pair and str(pair[0]).lower() in ROLE_WORDS for pair in pairs)
    messages: list[Any] = []
    for item, pair in zip(items, pairs, strict=True):
        if pair is None:
            messages.append(item)
        elif has_roles:
            messages.append({"role": pair[0], "content": pair[1]})
        else:
            messages.append({"role": "user", "content": pair[0]})
            messages.append({"role": "assistant", "content": pair[1]})
    return messages


def turns_in(messages: Sequence[Any]) -> list[tuple[str, str]]:
    turns = [turn_in(f"messages[{index}]", message) for index, message in enumerate(messages)]
    return [turn for turn in turns if turn is not None]


def continuation(
    turns: Sequence[tuple[str, str]], question: list[Any], answer: list[Any]
) -> list[Any]:
    """Returns those messages of a question and its answer that continue a chat with these
    ``turns``: none if it has them, or ends with another answer."""
    if not turns:
        return question + answer
    if not answer:
        return []
    if turns[-1][0] == "user":
        return answer
    is_repeated = set(turns_in(question + answer)) <= set(turns)
    return question + answer if question and not is_repeated else []
