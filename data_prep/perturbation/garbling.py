"""uninterpretable: an answer whose meaning cannot be made out.

letters:  the letters of the words are scrambled (the characters, in Chinese);
order:    the words of a whole answer are scrambled;
nonsense: made-up words of the same length stand for the words;
foreign:  the rest of the answer is a broken-off fragment in another language.

Strength 1: the second half of one answer; 2: a whole answer; 3: two or three. The innocent twin
has small changes, slips of typing among them; the planted one has the same changes under the
garbling, so they say nothing.
"""

from __future__ import annotations

from medal_judges.data_prep.perturbation.innocent import small_change
from medal_judges.data_prep.perturbation.job import CannotPlant, Job, Twin, twin
from medal_judges.data_prep.perturbation.tables import LANGUAGES, entries, shared
from medal_judges.data_prep.perturbation.text import (
    halfway,
    has_words,
    join,
    units,
    with_units,
)

_WORDS = 6
_ORDER_WORDS = 10  # fewer words in a wrong order can still be made out


def garbling(job: Job, issue: str) -> Twin:
    """Twin by one method for all its turns."""
    turns = job.answers(_WORDS)
    count = 1 if job.strength < 3 else 2 + int(job.chance())
    if len(turns) < min(count, 2):
        raise CannotPlant(f"fewer than {min(count, 2)} answers of {_WORDS} words to garble")
    how = job.one(["letters", "nonsense", "foreign", *(["order"] if job.strength > 1 else [])])
    planted: dict[int, str] = {}
    innocent: dict[int, str] = {}
    for turn in job.some(turns, count):
        innocent[turn] = small_change(job, job.texts[turn])
        foreign = how == "foreign"
        changed = innocent[turn]
        planted[turn] = _foreign(job, changed) if foreign else _garbled(job, changed, how)
    return twin(job, planted, innocent, how)


def _garbled(job: Job, text: str, how: str) -> str:
    parts = units(text, job.lang)
    start = len(parts) // 2 if job.strength == 1 else 0
    if how == "order" and not has_words(text, job.lang, _ORDER_WORDS):
        how = "letters"
    if how == "order" or (how == "letters" and job.lang == "zh"):
        worked = [parts[start + i] for i in job.rng.permutation(len(parts) - start)]
    elif how == "letters":
        worked = [_scrambled(job, word) for word in parts[start:]]
    else:
        worked = [_made_up(job, len(word)) for word in parts[start:]]
    return with_units(text, parts[:start] + worked, job.lang)


def _scrambled(job: Job, word: str) -> str:
    """``word`` with its letters in another order; marks stay where they are."""
    at = [i for i, letter in enumerate(word) if letter.isalpha()]
    letters = list(word)
    for i, j in zip(at, job.rng.permutation(at), strict=True):
        letters[i] = word[j]
    return "".join(letters)


def _made_up(job: Job, length: int) -> str:
    syllables = shared("nonsense")["zh" if job.lang == "zh" else "latin"]
    word = ""
    while len(word) < length:
        word += job.one(syllables)
    return word[:length]


def _foreign(job: Job, text: str) -> str:
    """``text`` with a foreign fragment instead of its second half, or of all (from strength 2)."""
    cut = halfway(text, job.lang) if job.strength == 1 else 0
    rest = text[cut:].lstrip()
    kept = text[: len(text) - len(rest)]
    lang = job.one([code for code in LANGUAGES if code != job.lang])
    pool = [*entries("off_topic", lang, job.split), *entries("neutral", lang, job.split)]
    fragments: list[str] = []
    for i in job.rng.permutation(len(pool)):
        if len(join(fragments, lang)) >= len(rest):
            break
        whole = units(pool[i].rstrip(".。?？"), lang)
        fragments.append(join(whole[len(whole) // 3 :], lang))
    ending = rest[-1:] if not rest[-1:].isalnum() else ""
    return kept + _laid_out(join(fragments, lang), rest) + ending


def _laid_out(fragment: str, like: str) -> str:
    """``fragment`` cut into lines of the lengths of those of ``like``."""
    lines = []
    for line in like.split("\n"):
        lines.append(fragment[: len(line)].strip())
        fragment = fragment[len(line) :]
    return "\n".join(lines)
