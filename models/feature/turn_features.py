"""Surface measures of each turn, any language: what a reader sees without understanding a word.

They carry much of what people complain of (repetition above all) and cost microseconds. The net's
own similarities between turns (models/encoder/similarity.py) stand beside them.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence

import numpy as np

from medal_judges.dialogue import Dialogue

FEATURE_NAMES = (
    "log_words",
    "word_length",
    "said_recently_1",  # share of the turn's word n-grams in its speaker's last four turns: a
    "said_recently_2",  # window, because a share of all earlier turns grows with the dialogue
    "said_before_3",  # share of the trigrams that its speaker ever said before
    "echo_1",  # share of the n-grams that the partner's last turn held
    "echo_2",
    "echo_3",
    "echo_earlier_2",  # share of the bigrams that the partner ever said
    "copy",  # the same turn, word for word, by the same speaker before
    "distinct_1",
    "new_words",
    "question",
    "exclamation",
    "empty",
    "punctuation",
    "longer_than_partner",  # difference of log words to the partner's last turn
    "log_turns",  # length of the dialogue up to and including this turn
)
# One character is one word in scripts written without spaces.
_UNSPACED = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_QUESTION, _EXCLAMATION = re.compile(r"[?？؟]"), re.compile(r"[!！]")
_ORDERS = (1, 2, 3)
_WINDOW = 4
Grams = set[tuple[str, ...]]


def words(text: str) -> list[str]:
    """Lower-case words; single characters for Chinese, Japanese and Thai."""
    return _WORD.findall(text.casefold())


def ngrams(tokens: Sequence[str], order: int) -> list[tuple[str, ...]]:
    """All n-grams in order, repeats kept."""
    return [tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1)]


def turn_features(dialogue: Dialogue) -> np.ndarray:
    """Features [turns, len(FEATURE_NAMES)] float32; a turn's row reads no later turn."""
    speakers = {"user": _Speaker(), "assistant": _Speaker()}
    heard: set[str] = set()
    table = np.zeros((len(dialogue.turns), len(FEATURE_NAMES)), dtype=np.float32)
    for position, turn in enumerate(dialogue.turns):
        own = speakers[turn.role]
        partner = speakers["user" if turn.role == "assistant" else "assistant"]
        tokens = words(turn.content)
        grams = {n: ngrams(tokens, n) for n in _ORDERS}
        form = _form(turn.content, tokens, heard)
        table[position] = [
            *form[:2],
            *(_share(grams[n], own.lately(n)) for n in (1, 2)),
            _share(grams[3], own.said[3]),
            *(_share(grams[n], partner.last(n)) for n in _ORDERS),
            _share(grams[2], partner.said[2]),
            float(tuple(tokens) in own.turns),
            *form[2:],
            math.log1p(len(tokens)) - partner.log_words if partner.turns else 0.0,
            math.log1p(position + 1),
        ]
        own.remember(tokens, grams)
        heard.update(tokens)
    return table


class _Speaker:
    """What one side has said so far."""

    def __init__(self) -> None:
        self.said: dict[int, Grams] = {n: set() for n in _ORDERS}
        self.recent: deque[dict[int, Grams]] = deque(maxlen=_WINDOW)
        self.turns: Grams = set()
        self.log_words = 0.0

    def lately(self, order: int) -> Grams:
        """n-grams of the last four turns."""
        return set().union(*(turn[order] for turn in self.recent))

    def last(self, order: int) -> Grams:
        """n-grams of the last turn."""
        return self.recent[-1][order] if self.recent else set()

    def remember(self, tokens: list[str], grams: dict[int, list[tuple[str, ...]]]) -> None:
        turn = {n: set(grams[n]) for n in _ORDERS}
        self.recent.append(turn)
        for n in _ORDERS:
            self.said[n] |= turn[n]
        self.turns.add(tuple(tokens))
        self.log_words = math.log1p(len(tokens))


def _share(grams: list[tuple[str, ...]], known: Grams) -> float:
    return sum(gram in known for gram in grams) / len(grams) if grams else 0.0


def _form(text: str, tokens: list[str], heard: set[str]) -> list[float]:
    """log_words, word_length, then distinct_1 to punctuation."""
    count = max(1, len(tokens))
    marks = sum(not c.isalnum() and not c.isspace() for c in text)
    return [
        math.log1p(len(tokens)),
        sum(map(len, tokens)) / count,
        len(set(tokens)) / count,
        math.log1p(len(set(tokens) - heard)),
        float(bool(_QUESTION.search(text))),
        float(bool(_EXCLAMATION.search(text))),
        float(not tokens),
        marks / max(1, len(text)),
    ]
