"""MTLD: how many tokens in a row a text keeps its type-token ratio up (McCarthy and Jarvis 2010).

The arithmetic is that of lexical-diversity 0.1.1, the package of the MEDAL paper, number for
number. The package itself is not called: it imports pkg_resources, which setuptools no longer
has, it needs a whole text at once, and it gives 0 where nothing is defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

THRESHOLD = 0.72
MIN_FACTOR = 10
UNDEFINED = "no token occurs twice: the type-token ratio never falls"


class Factors:
    """One pass over a stream of tokens; holds the types of the open factor only.

    A factor is complete once it has 10 tokens and a type-token ratio under 0.72. What is left at
    the end counts for the share of the way that its ratio has gone from 1 to 0.72.
    """

    __slots__ = ("_complete", "_length", "_types", "tokens")

    def __init__(self) -> None:
        self._types: set[str] = set()
        self._length = 0
        self._complete = 0
        self.tokens = 0

    def add(self, tokens: Iterable[str]) -> None:
        """Read on. The last token of all always belongs to the part that is left over."""
        types, length, start = self._types, self._length, self.tokens
        for count, token in enumerate(tokens, start + 1):
            if length >= MIN_FACTOR and len(types) / length < THRESHOLD:
                self._complete += 1
                types.clear()
                length = 0
            types.add(token)
            length += 1
            self.tokens = count
        self._length = length

    @property
    def value(self) -> float | None:
        """Tokens per factor; None where there is not even a part of a factor."""
        if not self._length:
            return None
        left = (1 - len(self._types) / self._length) / (1 - THRESHOLD)
        factors = self._complete + left
        return self.tokens / factors if factors else None


class RunTogether:
    """MTLD of many dialogues as one text, without holding it.

    One pass reads every dialogue from its first token, the other from its last, both in the order
    of the dialogues, which is no order of a text anyway; the value is the mean of both passes.
    """

    __slots__ = ("_backward", "_forward")

    def __init__(self) -> None:
        self._forward, self._backward = Factors(), Factors()

    def add(self, tokens: Sequence[str]) -> None:
        self._forward.add(tokens)
        self._backward.add(reversed(tokens))

    @property
    def tokens(self) -> int:
        return self._forward.tokens

    @property
    def value(self) -> float | None:
        there, back = self._forward.value, self._backward.value
        return None if there is None or back is None else (there + back) / 2


def mtld(tokens: Sequence[str]) -> float | None:
    """Mean of the passes from both ends of one text; None where every token occurs once."""
    both = RunTogether()
    both.add(tokens)
    return both.value
