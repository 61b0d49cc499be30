"""How much of a dialogue a prompt shows: all, a share of it, or long answers shortened.

ORALIS, section 4.2. Shares are of turns, rounded up, so that something always stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from medal_judges.dialogue import Turn
from medal_judges.models.base.turn_features import words

Context = Literal["full", "last_40", "first_40", "first_20_last_20", "summary_50", "summary_150"]
_SHARES: dict[str, tuple[float, float]] = {
    "last_40": (0.0, 0.4),
    "first_40": (0.4, 0.0),
    "first_20_last_20": (0.2, 0.2),
}


def kept_turns(turns: Sequence[Turn], context: Context) -> list[int]:
    """Indices of the turns that ``context`` keeps, rising; at least one turn of the assistant where
    there is one (the share then grows towards the middle)."""
    if context not in _SHARES:
        return list(range(len(turns)))
    first, last = (math.ceil(share * len(turns)) for share in _SHARES[context])
    assistant = [i for i, turn in enumerate(turns) if turn.role == "assistant"]
    begin = max(first, len(turns) - last)
    if assistant and not any(i < first or i >= begin for i in assistant):
        if last:
            begin = max(i for i in assistant if i < begin)
        else:
            first = min(i for i in assistant if i >= first) + 1
    return [i for i in range(len(turns)) if i < first or i >= begin]


def summary_words(context: Context) -> int | None:
    """The words a long answer is shortened to, None where nothing is shortened."""
    return int(context.removeprefix("summary_")) if context.startswith("summary_") else None


def turns_to_shorten(turns: Sequence[Turn], *, longest: int, dialogue: int) -> list[int]:
    """Indices of the assistant's turns of more than ``longest`` words.

    None in a dialogue of ``dialogue`` words or fewer (ORALIS: 200 and 3,000). A CJK character is a
    word.
    """
    counts = [len(words(turn.content)) for turn in turns]
    if sum(counts) <= dialogue:
        return []
    pairs = enumerate(zip(turns, counts, strict=True))
    return [i for i, (turn, n) in pairs if turn.role == "assistant" and n > longest]
