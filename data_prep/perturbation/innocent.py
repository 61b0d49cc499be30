"""Edits that are no fault: filler of a wanted length, small changes of wording, slips of typing."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from medal_judges.data_prep.perturbation.job import CannotPlant, Job
from medal_judges.data_prep.perturbation.tables import shared
from medal_judges.data_prep.perturbation.text import join

_COMBINATIONS = 24


def filler(job: Job, length: int, used: Collection[str] = (), most: int = 4) -> list[str]:
    """One to ``most`` neutral sentences, none in ``used``, of about ``length`` characters together.

    Raises CannotPlant when the table has none left.
    """
    free = [s for s in job.table("neutral") if s not in used and s not in job.texts]
    if not free:
        raise CannotPlant("no neutral sentence left for the control")
    best: list[str] = []
    for _ in range(_COMBINATIONS):
        drawn = [free[i] for i in job.rng.permutation(len(free))[: job.rng.integers(1, most + 1)]]
        if not best or _miss(drawn, length) < _miss(best, length):
            best = drawn
    return best


def _miss(sentences: list[str], length: int) -> int:
    return abs(sum(map(len, sentences)) + len(sentences) - 1 - length)


def small_change(job: Job, text: str) -> str:
    """``text`` with one to three changes that leave its meaning alone.

    A word for its like (``small_changes.yaml``), a slip of typing, a hesitation, a final mark.
    """
    changes = [_other_word, _slip, _hesitation, _final_mark]
    changed = text
    for i in job.rng.permutation(len(changes))[: int(job.rng.integers(1, 4))]:
        changed = changes[i](job, changed)
    return changed if changed != text else _final_mark(job, text)


def _other_word(job: Job, text: str) -> str:
    options = [pair for pair in _word_pairs(job.lang) if pair[0].search(text)]
    if not options:
        return text
    pattern, other = job.one(options)
    return str(pattern.sub(other, text, count=1))


@lru_cache(maxsize=16)
def _word_pairs(lang: str) -> list[tuple[re.Pattern[str], str]]:
    words = shared("small_changes").get(lang, {}).get("words", {})
    edge = "" if lang == "zh" else r"\b"
    return [(re.compile(f"{edge}{re.escape(a)}{edge}", re.IGNORECASE), b) for a, b in words.items()]


def _slip(job: Job, text: str) -> str:
    """Two neighbouring inner letters of one long word change places."""
    words = text.split(" ")
    long = [i for i, word in enumerate(words) if len(word) >= 5 and word.isalpha()]
    if job.lang == "zh" or not long:
        return text
    at = job.one(long)
    cut = int(job.rng.integers(1, len(words[at]) - 2))
    word = words[at]
    words[at] = word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
    return " ".join(words)


def _hesitation(job: Job, text: str) -> str:
    fillers = shared("small_changes").get(job.lang, {}).get("fillers", [])
    return join([job.one(fillers), text], job.lang) if fillers else text


def _final_mark(job: Job, text: str) -> str:
    marks = ("。", "！", "~") if job.lang == "zh" else (".", "!", "...")
    bare = text.rstrip(".!~。！ ")
    if bare.endswith(("?", "？")):
        return bare + bare[-1]
    mark: str = job.one([mark for mark in marks if bare + mark != text])
    return bare + mark
