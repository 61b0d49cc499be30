"""uninterpretable: an answer whose meaning cannot be made out.

letters:  the letters of the words are scrambled (the characters, in Chinese);
order:    the words of a whole answer are scrambled;
nonsense: made-up words of the same length stand for the words;
foreign:  the rest of the answer is a broken-off fragment in another language.

Strength 1: the second half of one answer; 2: a whole answer; 3: two or three. The control
has small changes, slips of typing among them; the injected version has the same changes under the
garbling, so they say nothing.
"""

from __future__ import annotations

from medal_judges.data_prep.perturbation.edit import (
    CannotInject,
    EditContext,
    EditedPair,
    small_change,
)
from medal_judges.data_prep.perturbation.material import LANGUAGES, entries, shared
from medal_judges.data_prep.perturbation.text import halfway, has_words, join, units, with_units

_WORDS = 6
_ORDER_WORDS = 10  # fewer words in a wrong order can still be made out


def garbling(edit: EditContext) -> EditedPair:
    """The pair by one method for all its turns."""
    turns = edit.answers(_WORDS)
    count = 1 if edit.strength < 3 else 2 + int(edit.chance())
    if len(turns) < min(count, 2):
        raise CannotInject(f"fewer than {min(count, 2)} answers of {_WORDS} words to garble")
    how = edit.one(["letters", "nonsense", "foreign", *(["order"] if edit.strength > 1 else [])])
    pair = EditedPair(edit, how)
    for turn in edit.some(turns, count):
        changed = small_change(edit, edit.texts[turn])
        foreign = how == "foreign"
        garbled = _foreign(edit, changed) if foreign else _garbled(edit, changed, how)
        pair.put(turn, garbled, changed)
    return pair.finished()


def _garbled(edit: EditContext, text: str, how: str) -> str:
    parts = units(text, edit.lang)
    start = len(parts) // 2 if edit.strength == 1 else 0
    if how == "order" and not has_words(text, edit.lang, _ORDER_WORDS):
        how = "letters"
    if how == "order" or (how == "letters" and edit.lang == "zh"):
        worked = [parts[start + i] for i in edit.rng.permutation(len(parts) - start)]
    elif how == "letters":
        worked = [_scrambled(edit, word) for word in parts[start:]]
    else:
        worked = [_made_up(edit, len(word)) for word in parts[start:]]
    return with_units(text, parts[:start] + worked, edit.lang)


def _scrambled(edit: EditContext, word: str) -> str:
    """``word`` with its letters in another order; marks stay where they are."""
    at = [i for i, letter in enumerate(word) if letter.isalpha()]
    letters = list(word)
    for i, j in zip(at, edit.rng.permutation(at), strict=True):
        letters[i] = word[j]
    return "".join(letters)


def _made_up(edit: EditContext, length: int) -> str:
    syllables = shared("nonsense")["zh" if edit.lang == "zh" else "latin"]
    word = ""
    while len(word) < length:
        word += edit.one(syllables)
    return word[:length]


def _foreign(edit: EditContext, text: str) -> str:
    """``text`` with a foreign fragment instead of its second half, or of all (from strength 2)."""
    cut = halfway(text, edit.lang) if edit.strength == 1 else 0
    rest = text[cut:].lstrip()
    kept = text[: len(text) - len(rest)]
    lang = edit.one([code for code in LANGUAGES if code != edit.lang])
    pool = [*entries("off_topic", lang, edit.split), *entries("neutral", lang, edit.split)]
    fragments: list[str] = []
    for i in edit.rng.permutation(len(pool)):
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
