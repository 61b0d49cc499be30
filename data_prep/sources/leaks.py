"""Leak check: a training set may not share a dialogue with its test set.

A dialogue is shared if both have the same ``group``, the same normalised text or beginning
(turn-level rows are prefixes of dialogues), or nearly the same text by word 5-grams.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from medal_judges.errors import LeakError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.labelled import LabelledDialogue

THRESHOLD = 0.7  # minimum Jaccard similarity of word 5-grams of a near-duplicate
_ORDER = 5
_MIN_TURNS = 3  # shorter beginnings ("hi", "hello") are shared by chance
_MIN_SHINGLES = 20
_NONE: npt.NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Leak:
    """A training row that is also in the test set; ``how`` describes the match."""

    train_id: str
    test_id: str
    how: str


def check_leaks(train: Iterable[LabelledDialogue], test: Sequence[LabelledDialogue]) -> None:
    """Raise LeakError with the first examples if ``train`` and ``test`` share a dialogue."""
    leaks = list(find_leaks(train, test))
    if not leaks:
        return
    shown = "\n".join(f"    {leak.train_id} ~ {leak.test_id}: {leak.how}" for leak in leaks[:5])
    raise LeakError(
        f"{len({leak.train_id for leak in leaks})} training rows are also in the held-out rows:"
        f"\n{shown}",
        hint="split by conversation (`group`), or remove these rows from training",
    )


def find_leaks(
    train: Iterable[LabelledDialogue], test: Sequence[LabelledDialogue]
) -> Iterator[Leak]:
    """Yields the leaks, at most one per training row."""

    def has_own_group(row: LabelledDialogue) -> bool:
        return row.group == row.id

    groups = {row.group: row for row in sorted(test, key=has_own_group, reverse=True)}
    wholes: dict[int, str] = {}  # hash of a text -> id of its row
    beginnings: dict[int, str] = {}
    for row in test:
        hashes = _running_hashes(row.dialogue)
        wholes.setdefault(hashes[-1], row.id)
        for value in hashes[_MIN_TURNS - 1 :]:
            beginnings.setdefault(value, row.id)
    by_row = [_shingles(row.dialogue) for row in test]
    sizes = list(map(len, by_row))
    shingles, owners = np.concatenate([_NONE, *by_row]), np.repeat(np.arange(len(test)), sizes)
    order = np.argsort(shingles)
    shingles, owners = shingles[order], owners[order]
    for row in train:
        same = groups.get(row.group)
        hashes = _running_hashes(row.dialogue)
        starts = (wholes[value] for value in hashes[_MIN_TURNS - 1 :] if value in wholes)
        equal = wholes.get(hashes[-1]) or beginnings.get(hashes[-1]) or next(starts, None)
        # Rows without a group have their id as group; two files may share ids by chance.
        if same is not None and not (has_own_group(row) and has_own_group(same)):
            yield Leak(row.id, same.id, f"same group {row.group!r}")
        elif equal is not None:
            yield Leak(row.id, equal, "same text, whole or as a beginning")
        else:
            own = _shingles(row.dialogue)
            first, last = (np.searchsorted(shingles, own, side) for side in ("left", "right"))
            found = np.nonzero(first < last)[0]
            shared = Counter(n for i in found for n in owners[first[i] : last[i]].tolist())
            similar = (
                (count / (len(own) + sizes[n] - count), test[n].id) for n, count in shared.items()
            )
            jaccard, id = max(similar, default=(0.0, ""))
            if jaccard >= THRESHOLD:
                yield Leak(row.id, id, f"near-duplicate, Jaccard {jaccard:.2f}")


@lru_cache(1 << 15)  # copies of one chat, with injected issues, share most turns
def _normal(text: str) -> str:
    """``text`` without differences of case, width, encoding, spaces and punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(c if c.isalnum() else " " for c in folded).split())


def _running_hashes(dialogue: Dialogue) -> list[int]:
    """Hashes of the dialogue up to each turn."""
    texts = (_normal(turn.content) for turn in dialogue.turns)
    return list(accumulate(texts, lambda before, text: hash((before, text)), initial=0))[1:]


def _shingles(dialogue: Dialogue) -> npt.NDArray[np.int64]:
    """Hashes of the word 5-grams (of characters if the text has no spaces); none for a short
    text."""
    words = " ".join(_normal(turn.content) for turn in dialogue.turns).split()
    if words and sum(map(len, words)) / len(words) > 15:
        words = list("".join(words))
    found = set(map(hash, zip(*(words[k:] for k in range(_ORDER)), strict=False)))
    return np.fromiter(found, np.int64) if len(found) >= _MIN_SHINGLES else _NONE
