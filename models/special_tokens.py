"""Marks of a tokenizer, which text by others must not be read as: a turn cannot end itself, begin
another, or add a field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class SpecialTokens:
    """Those of ``tokenizer``: the named ones (beginning, end, ...), and every other that it flags
    as special, as many chat models do with the marks of their turns and images."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        added = tokenizer.added_tokens_decoder.values()
        marks = {str(token) for token in added if token.special}
        marks |= set(map(str, tokenizer.all_special_tokens))
        longest_first = sorted(filter(None, marks), key=lambda mark: (-len(mark), mark))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def broken_up(self, text: str) -> str:
        """``text`` with a blank between the characters of each mark in it."""
        return self._pattern.sub(lambda found: " ".join(found.group()), text)
