"""Leak check: a training set may not share a dialogue with its test set.

A dialogue is shared if both have the same ``group``, the same normalised text or beginning
(turn-level rows are prefixes of dialogues), or nearly the same text by word 5-grams.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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
_NOT_A_WORD = re.compile(r"[\W_]+")
_NONE: npt.NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Leak:
    """A training row that is also in the test set; ``how`` describes the match."""

    train_id: str
    test_id: str
    how: str


def check_leaks(
    train: Iterable[LabelledDialogue], test: Sequence[LabelledDialogue]
) -> None:
    """Raise LeakError with the first examples if ``train`` and ``test`` share a dialogue."""
    leaks = list(find_leaks(train, test))
    if not leaks:
        return
    examples = [
        f"    {leak.train_id} ~ {leak.test_id}: {leak.how}" for leak in leaks[:5]
    ]
    raise LeakError(
        f"{len({leak.train_id for leak in leaks})} training rows are also in the held-out rows:"
        "\n" + "\n".join(examples),
        hint="split by conversation (`group`), or remove these rows from training",
    )


def find_leaks(
    train: Iterable[LabelledDialogue], test: Sequence[LabelledDialogue]
) -> Iterator[Leak]:
    """Yields the leaks, at most one per training row."""
    groups = {row.group: row for row in sorted(test, key=_has_own_group, reverse=True)}
    texts: dict[int, str] = {}  # hash of a text -> id of its row
    beginnings: dict[int, str] = {}
    for row in test:
        hashes = _running_hashes(row.dialogue)
        texts.setdefault(hashes[-1], row.id)
        for beginning in hashes[_MIN_TURNS - 1 :]:
            beginnings.setdefault(beginning, row.id)
    nearest = _search_by_shingles(test)
    for row in train:
        relative = groups.get(row.group)
        hashes = _running_hashes(row.dialogue)
        starts = (texts[start] for start in hashes[_MIN_TURNS - 1 :] if start in texts)
        equal = (
            texts.get(hashes[-1]) or beginnings.get(hashes[-1]) or next(starts, None)
        )
        # Rows without a group have their id as group; two files may share ids by chance.
        if relative is not None and not (
            _has_own_group(row) and _has_own_group(relative)
        ):
            yield Leak(row.id, relative.id, f"same group {row.group!r}")
        elif equal is not None:
            yield Leak(row.id, equal, "same text, whole or as a beginning")
        else:
            similarity, id = nearest(row.dialogue)
            if similarity >= THRESHOLD:
                yield Leak(row.id, id, f"near-duplicate, Jaccard {similarity:.2f}")


def _has_own_group(row: LabelledDialogue) -> bool:
    return row.group == row.id


def _search_by_shingles(
    rows: Sequence[LabelledDialogue],
) -> Callable[[Dialogue], tuple[float, str]]:
    """Returns a function of a dialogue: the highest Jaccard similarity to one of ``rows``, and the
    id of that row."""
    by_row = [_shingles(row.dialogue) for row in rows]
    sizes = list(map(len, by_row))
    shingles = np.concatenate([_NONE, *by_row])
    order = np.argsort(shingles)
    shingles = shingles[order]
    owners = np.repeat(np.arange(len(rows)), sizes)[order]

    def nearest(dialogue: Dialogue) -> tuple[float, str]:
        searched = _shingles(dialogue)
        first = np.searchsorted(shingles, searched, "left")
        last = np.searchsorted(shingles, searched, "right")
        shared: Counter[int] = Counter()
        for start, end in zip(first, last, strict=True):
            shared.update(owners[start:end].tolist())
        highest = (0.0, "")
        for owner, count in shared.items():
            similarity = count / (len(searched) + sizes[owner] - count)
            highest = max(highest, (similarity, rows[owner].id))
        return highest

    return nearest


@lru_cache(1 << 15)  # copies of one chat, with injected issues, share most turns
def _normal(text: str) -> str:
    """``text`` without differences of case, width, encoding, spaces and punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_NOT_A_WORD.sub(" ", folded).split())


def _running_hashes(dialogue: Dialogue) -> list[int]:
    """Hashes of the dialogue up to each turn."""
    texts = (_normal(turn.content) for turn in dialogue.turns)
    return list(
        accumulate(texts, lambda before, text: hash((before, text)), initial=0)
    )[1:]


def _shingles(dialogue: Dialogue) -> npt.NDArray[np.int64]:
    """Hashes of the word 5-grams (of characters if the text has no spaces); none for a short
    text."""
    words = " ".join(_normal(turn.content) for turn in dialogue.turns).split()
    if words and sum(map(len, words)) / len(words) > 15:
        words = list("".join(words))
    ngrams = zip(*(words[start:] for start in range(_ORDER)), strict=False)
    shingles = set(map(hash, ngrams))
    if len(shingles) >= _MIN_SHINGLES:
        return np.fromiter(shingles, np.int64)
    return _NONE
