"""Token counts without a tokenizer, and truncation by whole oldest turns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from medal_judges.models.llm.protocol import LanguageModel, Message
from medal_judges.records.dialogue import Dialogue

# Tokens of roles and separators that a chat template adds to a message, and to the prompt.
AROUND_MESSAGE = 8
AROUND_PROMPT = 16
_PIECE = re.compile(r" ?[A-Za-z]+|[^\x00-\x7F]+|.", re.DOTALL)
_VOWEL = re.compile(r"[aeiouy]")


def chat_messages(dialogue: Dialogue, start: int = 0) -> tuple[Message, ...]:
    """The turns from index ``start`` on as chat messages."""
    return tuple(Message(turn.role, turn.content) for turn in dialogue.turns[start:])


def oldest_kept(turns: int, fits: Callable[[int], bool]) -> int:
    """Smallest start in [0, ``turns``] for which ``fits(start)`` is true; ``turns`` if none is.
    ``fits`` is monotone: fewer turns are fewer tokens."""
    low, high = 0, turns
    if fits(0):
        return 0
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return high


def first_turn_that_fits(
    messages: Sequence[Message], llm: LanguageModel, prompt_budget: int
) -> int:
    """Smallest index from which ``messages`` take at most ``prompt_budget`` tokens; the last
    message stays even if it is too long."""
    last = max(0, len(messages) - 1)
    return oldest_kept(last, lambda start: llm.count_tokens(messages[start:]) <= prompt_budget)


def tokens_above(text: str) -> int:
    """An upper bound on the tokens of ``text``, for models whose tokenizer is not here.

    Two letters of a word count as a token (one if it has no vowel or is in capitals), every digit,
    sign and blank as one (the space before a word belongs to it), and every byte of other scripts.
    """
    total = 0
    for piece in _PIECE.findall(text):
        word = piece.removeprefix(" ")
        if not piece.isascii():
            total += len(piece.encode("utf-8", "surrogatepass"))
        elif not word.isalpha():
            total += len(piece)
        else:
            total += (len(word) + 1) // 2 if _VOWEL.search(word) else len(word)
    return total


def prompt_tokens_above(messages: Sequence[Message]) -> int:
    """The same for a whole chat."""
    return AROUND_PROMPT + sum(AROUND_MESSAGE + tokens_above(m.content) for m in messages)
