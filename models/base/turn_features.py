"""Measures of each turn: surface measures, and how near its embedding stands to earlier turns.

Surface measures are what a reader of any language sees without understanding a word. They carry
much of what people complain of (repetition above all) and cost microseconds.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import AfterValidator

from medal_judges.dialogue import Dialogue

if TYPE_CHECKING:
    from torch import Tensor

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
SIMILARITY_NAMES = (
    "nearest_own",  # highest cosine with any earlier turn of the same speaker
    "nearest_recent_own",  # with the last four of them
    "last_own",
    "last_partner",
    "last_but_one_partner",
)
ALL_FEATURES = FEATURE_NAMES + SIMILARITY_NAMES
ROLE_INDEX = {"user": 0, "assistant": 1}


def _known(names: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...]:
    if unknown := [n for n in names if n not in known]:
        raise ValueError(f"no feature {unknown}; there are {', '.join(known)}")
    return names


# Fields of configs.
SurfaceFeatures = Annotated[tuple[str, ...], AfterValidator(partial(_known, known=FEATURE_NAMES))]
TurnFeatures = Annotated[tuple[str, ...], AfterValidator(partial(_known, known=ALL_FEATURES))]

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


def turn_similarities(vectors: Tensor, roles: Tensor, mask: Tensor) -> Tensor:
    """Cosines [B, T, 5] of turn ``vectors`` [B, T, H] with earlier turns; 0 where there is none."""
    import torch
    from torch.nn import functional

    unit = functional.normalize(vectors.float(), dim=-1)
    cosine = unit @ unit.transpose(1, 2)  # [B, T, T]
    turns = vectors.shape[1]
    position = torch.arange(turns, device=vectors.device)
    earlier = (position[None, :] < position[:, None]) & mask[:, None, :]
    same = roles[:, :, None] == roles[:, None, :]
    own, partner = earlier & same, earlier & ~same
    return torch.stack(
        [
            _nearest(cosine, own),
            _nearest(cosine, own & (_from_end(own) <= _WINDOW)),
            _nth_last(cosine, own, 1),
            _nth_last(cosine, partner, 1),
            _nth_last(cosine, partner, 2),
        ],
        dim=-1,
    )


def _nearest(cosine: Tensor, allowed: Tensor) -> Tensor:
    highest = cosine.masked_fill(~allowed, -2).amax(-1)
    return highest.where(allowed.any(-1), highest.new_zeros(()))


def _from_end(allowed: Tensor) -> Tensor:
    """1 at the last allowed turn, 2 at the one before it, and so on."""
    return allowed.flip(-1).cumsum(-1).flip(-1)


def _nth_last(cosine: Tensor, allowed: Tensor, n: int) -> Tensor:
    """Cosine with the n-th last allowed turn, 0 where there are fewer."""
    chosen = allowed & (_from_end(allowed) == n)
    return (cosine * chosen).sum(-1)
