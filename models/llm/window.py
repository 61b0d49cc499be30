"""Whole oldest turns are dropped when a dialogue does not fit: counted, never silent."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.dialogue import Dialogue
from medal_judges.models.llm.protocol import LanguageModel, Message
from medal_judges.models.llm.truncation import oldest_kept


def chat_messages(dialogue: Dialogue, start: int = 0) -> tuple[Message, ...]:
    """The turns from index ``start`` on as chat messages."""
    return tuple(Message(turn.role, turn.content) for turn in dialogue.turns[start:])


def first_turn_that_fits(
    messages: Sequence[Message], llm: LanguageModel, prompt_budget: int
) -> int:
    """Smallest index from which the rest of ``messages`` takes at most ``prompt_budget`` tokens.

    At least the last message is kept, also where it alone is too long.
    """
    last = max(0, len(messages) - 1)
    return oldest_kept(last, lambda start: llm.count_tokens(messages[start:]) <= prompt_budget)
