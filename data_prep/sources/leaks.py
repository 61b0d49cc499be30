"""Leak check: a training set may not share a dialogue with its test set.

A dialogue is shared if both have the same ``group``, the same normalised text or beginning
(turn-level rows are prefixes of dialogues), or nearly the same text by MinHash over word 5-grams.
MinHash is our own because the check must run in the core install.
"""

from __future__ import annotations

import hashlib
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.errors import LeakError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.labelled import LabelledDialogue

THRESHOLD = 0.7  # minimum Jaccard similarity of word 5-grams of a near-duplicate
_ORDER = 5
_HASHES, _BANDS = 96, 24  # 4 rows a band: a pair at 0.7 is a candidate with probability 0.998
_MIN_TURNS = 3  # shorter beginnings ("hi", "hello") are shared by chance
_MIN_SHINGLES = 20
_PRIME = (1 << 61) - 1


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
    groups = {row.group: row for row in sorted(test, key=_has_own_group, reverse=True)}
    texts = _TextIndex(test)
    near = _NearIndex(test)
    for row in train:
        same = groups.get(row.group)
        # Rows without a group have their id as group; two files may share ids by chance.
        if same is not None and not (_has_own_group(row) and _has_own_group(same)):
            yield Leak(row.id, same.id, f"same group {row.group!r}")
        elif (other := texts.find(row.dialogue)) is not None:
            yield Leak(row.id, other, "same text, whole or as a beginning")
        elif (match := near.find(row.dialogue)) is not None:
            yield Leak(row.id, match[0], f"near-duplicate, Jaccard {match[1]:.2f}")


def _has_own_group(row: LabelledDialogue) -> bool:
    return row.group == row.id


def normalise(text: str) -> str:
    """``text`` without differences of case, width, encoding, spaces and punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(c if c.isalnum() else " " for c in folded).split())


def _running_hashes(dialogue: Dialogue) -> list[bytes]:
    """Hashes of the dialogue up to each turn."""
    digest, hashes = hashlib.sha256(), []
    for turn in dialogue.turns:
        digest.update(normalise(turn.content).encode() + b"\n")
        hashes.append(digest.digest()[:12])
    return hashes


class _TextIndex:
    """Finds a test row that equals a training row, starts with it, or is its beginning."""

    def __init__(self, rows: Sequence[LabelledDialogue]) -> None:
        self.beginnings: dict[bytes, str] = {}
        self.wholes: dict[bytes, str] = {}
        for row in rows:
            hashes = _running_hashes(row.dialogue)
            self.wholes.setdefault(hashes[-1], row.id)
            for hash_ in hashes[_MIN_TURNS - 1 :]:
                self.beginnings.setdefault(hash_, row.id)

    def find(self, dialogue: Dialogue) -> str | None:
        """Id of such a test row; a shared opening alone does not count."""
        hashes = _running_hashes(dialogue)
        equal = self.wholes.get(hashes[-1]) or self.beginnings.get(hashes[-1])
        longer = (self.wholes.get(hash_) for hash_ in hashes[_MIN_TURNS - 1 :])
        return equal or next((id for id in longer if id is not None), None)


def _shingles(dialogue: Dialogue) -> np.ndarray:
    """Distinct hashed word 5-grams [n] uint64 (characters if the text has no spaces)."""
    words = normalise(" ".join(t.content for t in dialogue.turns)).split()
    if words and sum(map(len, words)) / len(words) > 15:
        words = list("".join(words))
    codes = np.array([zlib.crc32(w.encode()) for w in words], dtype=np.uint64)
    if len(codes) < _ORDER:
        return codes
    mixed = np.zeros(len(codes) - _ORDER + 1, dtype=np.uint64)
    for k in range(_ORDER):
        mixed = mixed * np.uint64(1_000_003) + codes[k : len(mixed) + k]
    return np.unique(mixed)


class _NearIndex:
    """Banded MinHash over the test rows."""

    def __init__(self, rows: Sequence[LabelledDialogue]) -> None:
        generator = np.random.default_rng(0)
        self.factors = generator.integers(1, _PRIME, _HASHES, dtype=np.uint64) | np.uint64(1)
        self.ids = [row.id for row in rows]
        self.shingles = [_shingles(row.dialogue) for row in rows]
        self.bands: dict[tuple[int, bytes], list[int]] = defaultdict(list)
        for number, shingles in enumerate(self.shingles):
            for key in self._keys(shingles):
                self.bands[key].append(number)

    def find(self, dialogue: Dialogue) -> tuple[str, float] | None:
        """(id, Jaccard) of the nearest test row if it reaches the threshold."""
        shingles = _shingles(dialogue)
        candidates = {n for key in self._keys(shingles) for n in self.bands.get(key, ())}
        scored = [(_jaccard(shingles, self.shingles[n]), self.ids[n]) for n in sorted(candidates)]
        best = max(scored, default=(0.0, ""))
        return (best[1], best[0]) if best[0] >= THRESHOLD else None

    def _keys(self, shingles: np.ndarray) -> list[tuple[int, bytes]]:
        if len(shingles) < _MIN_SHINGLES:
            return []
        with np.errstate(over="ignore"):
            hashed = shingles[:, None] * self.factors[None, :]
        signature = (hashed ^ (hashed >> np.uint64(29))).min(axis=0).reshape(_BANDS, -1)
        return [(band, row.tobytes()) for band, row in enumerate(signature)]


def _jaccard(a: np.ndarray, b: np.ndarray) -> float:
    shared = len(np.intersect1d(a, b, assume_unique=True))
    return shared / (len(a) + len(b) - shared) if shared else 0.0
