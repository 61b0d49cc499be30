"""How many tokens a dialogue takes, and which of its whole oldest turns have to go to make it fit:
counted, never silent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from medal_judges.models.llm.protocol import LanguageModel, Message
from medal_judges.records.dialogue import Dialogue

# Roles and separators that a chat template puts around a message, and at the end of the prompt.
AROUND_MESSAGE = 8
AROUND_PROMPT = 16
_PIECE = re.compile(r" ?[A-Za-z]+|[^\x00-\x7F]+|.", re.DOTALL)
_VOWEL = re.compile(r"[aeiouy]")


def chat_messages(dialogue: Dialogue, start: int = 0) -> tuple[Message, ...]:
    """The turns from index ``start`` on as chat messages."""
    return tuple(Message(turn.role, turn.content) for turn in dialogue.turns[start:])


def oldest_kept(turns: int, fits: Callable[[int], bool]) -> int:
    """Smallest start in [0, ``turns``] for which ``fits(start)``; ``turns`` where none does.

    ``fits`` has to stay true once it is: fewer turns are fewer tokens.
    """
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
    """Smallest index from which the rest of ``messages`` takes at most ``prompt_budget`` tokens.

    At least the last message is kept, also where it alone is too long.
    """
    last = max(0, len(messages) - 1)
    return oldest_kept(last, lambda start: llm.count_tokens(messages[start:]) <= prompt_budget)


def tokens_above(text: str) -> int:
    """An estimate from above of the tokens in ``text``, when the tokenizer is on the other side of
    the wire.

    Two letters of a word make a token (one where it has no vowel or is in capitals), a digit, a
    sign and a blank are one each (the space before a word is part of it), and so is each byte of
    other scripts, which no byte-level tokenizer can pass.
    """
    return sum(_piece(piece) for piece in _PIECE.findall(text))


def _piece(piece: str) -> int:
    if not piece.isascii():
        return len(piece.encode("utf-8", "surrogatepass"))
    word = piece.removeprefix(" ")
    if not word.isalpha():
        return len(piece)
    return (len(word) + 1) // 2 if _VOWEL.search(word) else len(word)


def prompt_tokens_above(messages: Sequence[Message]) -> int:
    """The same for a whole chat."""
    return AROUND_PROMPT + sum(AROUND_MESSAGE + tokens_above(m.content) for m in messages)
