"""Measures of each turn: surface measures, and how near its embedding stands to earlier turns.

Surface measures are what a reader of any language sees without understanding a word. They carry
much of what people complain of (repetition above all) and cost microseconds.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
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
_NOTHING: dict[int, Grams] = {n: set() for n in _ORDERS}


def words(text: str) -> list[str]:
    """Lower-case words; single characters for Chinese, Japanese and Thai."""
    return _WORD.findall(text.casefold())


@dataclass(slots=True)
class _Speaker:
    """What one side has said so far: n-grams of all its turns, and of its last four one by one."""

    said: dict[int, Grams] = field(default_factory=lambda: {n: set() for n in _ORDERS})
    recent: deque[dict[int, Grams]] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    turns: Grams = field(default_factory=set)
    log_words: float = 0.0


def turn_features(dialogue: Dialogue) -> np.ndarray:
    """Features [turns, len(FEATURE_NAMES)] float32; a turn's row reads no later turn."""
    speakers = {"user": _Speaker(), "assistant": _Speaker()}
    heard: set[str] = set()
    table = np.zeros((len(dialogue.turns), len(FEATURE_NAMES)), dtype=np.float32)
    for position, turn in enumerate(dialogue.turns):
        own = speakers[turn.role]
        partner = speakers["user" if turn.role == "assistant" else "assistant"]
        text, tokens = turn.content, words(turn.content)
        # All n-grams in order, repeats kept.
        # n-grams in order, repeats kept.
        grams = {n: list(zip(*(tokens[i:] for i in range(n)), strict=False)) for n in _ORDERS}
        lately = {n: set().union(*(turn[n] for turn in own.recent)) for n in (1, 2)}
        last = partner.recent[-1] if partner.recent else _NOTHING
        marks = sum(not c.isalnum() and not c.isspace() for c in text)
        log_words, count = math.log1p(len(tokens)), max(1, len(tokens))
        table[position] = [
            log_words,
            sum(map(len, tokens)) / count,
            _share(grams[1], lately[1]),
            _share(grams[2], lately[2]),
            _share(grams[3], own.said[3]),
            *(_share(grams[n], last[n]) for n in _ORDERS),
            _share(grams[2], partner.said[2]),
            float(tuple(tokens) in own.turns),
            len(set(tokens)) / count,
            math.log1p(len(set(tokens) - heard)),
            float(bool(_QUESTION.search(text))),
            float(bool(_EXCLAMATION.search(text))),
            float(not tokens),
            marks / max(1, len(text)),
            log_words - partner.log_words if partner.turns else 0.0,
            math.log1p(position + 1),
        ]
        own.recent.append({n: set(grams[n]) for n in _ORDERS})
        for n in _ORDERS:
            own.said[n] |= own.recent[-1][n]
        own.turns.add(tuple(tokens))
        own.log_words = log_words
        heard.update(tokens)
    return table


def _share(grams: Sequence[tuple[str, ...]], known: Grams) -> float:
    return sum(gram in known for gram in grams) / len(grams) if grams else 0.0


def turn_similarities(vectors: Tensor, roles: Tensor, mask: Tensor) -> Tensor:
    """Cosines [B, T, 5] of turn ``vectors`` [B, T, H] with earlier turns; 0 where there is none."""
    import torch
    from torch.nn import functional

    unit = functional.normalize(vectors.float(), dim=-1)
    cosine = unit @ unit.transpose(1, 2)  # [B, T, T]
    position = torch.arange(vectors.shape[1], device=vectors.device)
    earlier = (position[None, :] < position[:, None]) & mask[:, None, :]
    same = roles[:, :, None] == roles[:, None, :]
    own, partner = earlier & same, earlier & ~same
    # 1 at the speaker's last turn before, 2 at the one before it, and so on.
    own_rank, partner_rank = (m.flip(-1).cumsum(-1).flip(-1) for m in (own, partner))
    columns = []
    for allowed in (own, own & (own_rank <= _WINDOW)):
        highest = cosine.masked_fill(~allowed, -2).amax(-1)
        columns.append(highest.where(allowed.any(-1), highest.new_zeros(())))
    last_own, last_partner = own & (own_rank == 1), partner & (partner_rank == 1)
    for allowed in (last_own, last_partner, partner & (partner_rank == 2)):
        columns.append((cosine * allowed).sum(-1))
    return torch.stack(columns, dim=-1)
