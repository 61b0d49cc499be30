"""Splits by conversation, never by turn; by chatbot on request; the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal

from medal_judges.errors import ConfigError
from medal_judges.labelled import LabelledDialogue

By = Literal["group", "chatbot"]
_NAMES = ("train", "validation", "test")


def hash_split(key: str, *, seed: int, shares: Sequence[float] = (0.8, 0.1, 0.1)) -> str:
    """``train``, ``validation`` or ``test`` for ``key``, by a hash of it and ``seed``.

    Depends on nothing but the key: adding rows or changing their order moves no other row.
    """
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < shares[0]:
        return _NAMES[0]
    return _NAMES[1] if place < shares[0] + shares[1] else _NAMES[2]


def split_rows(
    rows: Sequence[LabelledDialogue],
    *,
    seed: int,
    shares: Sequence[float] = (0.8, 0.1, 0.1),
    by: By = "group",
) -> dict[str, list[LabelledDialogue]]:
    """Rows by split. All rows of one ``group`` (or of one chatbot) share a split.

    ``shares`` are (train, validation, test), from 0, and add up to 1; raises ConfigError otherwise.
    By chatbot the shares are of chatbots, so that a held-out one was never seen; a group that
    several chatbots share is then cut between them. Raises ConfigError when a row names none.
    """
    if len(shares) != 3 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-9:
        raise ConfigError(
            f"shares must be three numbers from 0 that add up to 1, not {tuple(shares)}"
        )
    assign = _by_chatbot(rows, seed, shares) if by == "chatbot" else _by_group(seed, shares)
    parts: dict[str, list[LabelledDialogue]] = {name: [] for name in _NAMES}
    for row in rows:
        parts[assign(row)].append(row)
    return parts


def _by_group(seed: int, shares: Sequence[float]) -> Callable[[LabelledDialogue], str]:
    return lambda row: hash_split(row.group, seed=seed, shares=shares)


def _by_chatbot(
    rows: Sequence[LabelledDialogue], seed: int, shares: Sequence[float]
) -> Callable[[LabelledDialogue], str]:
    """Chatbots in hash order, cut by share: with eleven, a draw for each would often miss one."""
    nameless = next((row.id for row in rows if not row.dialogue.chatbot), None)
    if nameless is not None:
        raise ConfigError(
            f"cannot split by chatbot: row {nameless!r} does not say which it is",
            hint="give models.assistant in every line, or split by group",
        )
    names = sorted({str(row.dialogue.chatbot) for row in rows}, key=lambda n: _rank(n, seed))
    ends = [round(len(names) * sum(shares[: i + 1])) for i in range(3)]
    split = {
        n: _NAMES[next(i for i, end in enumerate(ends) if k < end)] for k, n in enumerate(names)
    }
    return lambda row: split[str(row.dialogue.chatbot)]


def _rank(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()
