"""Features of a turn: surface measures of its text, and similarities of its embedding to earlier
turns.

Surface measures work in any language. What they detect best is repetition."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.records.dialogue import Dialogue

Floats = npt.NDArray[np.float64]

FEATURE_NAMES = (
    "log_words",
    "word_length",
    "said_recently_1",  # share of the turn's word n-grams in its speaker's last four turns: a
    "said_recently_2",  # window, because a share of all earlier turns grows with the dialogue
    "said_before_3",  # share of the trigrams in any earlier turn of its speaker
    "echo_1",  # share of the n-grams in the partner's last turn
    "echo_2",
    "echo_3",
    "echo_earlier_2",  # share of the bigrams in any earlier turn of the partner
    "copy",  # an earlier turn of the same speaker is equal, word for word
    "distinct_1",
    "new_words",
    "question",
    "exclamation",
    "empty",
    "punctuation",
    "longer_than_partner",  # difference of log words to the partner's last turn
    "log_turns",  # length of the dialogue up to and including this turn
    "near_copy",  # most character 4-grams of an earlier turn of the same speaker: finds copies in
    # any script, and with a changed word
)
SIMILARITY_NAMES = (
    "nearest_own",  # highest cosine with any earlier turn of the same speaker
    "nearest_recent_own",  # with the last four of them
    "last_own",
    "last_partner",
    "last_but_one_partner",
    "centred_nearest_own",  # of the vectors less the dialogue's mean, which removes what all turns
    "centred_mean_partner",  # share: topic, language, and text that an encoder cannot read
)
ALL_FEATURES = FEATURE_NAMES + SIMILARITY_NAMES
# The default of configs.
USUAL_FEATURES = tuple(
    name
    for name in ALL_FEATURES
    if name != "near_copy" and not name.startswith("centred_")
)
ROLE_INDEX = {"user": 0, "assistant": 1}


# Scripts without spaces are cut into pieces about as long as a word: with single characters, three
# of which are one word of Japanese, an answer that repeats the user's word would echo a phrase.
# Signs that are no letters (vowels in Hindi) belong to the letter before them.
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HIRAGANA = "\u3041-\u309f"
_IDEOGRAPHS = "\u3005\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_OTHERS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
_UNSPACED = _KATAKANA + _HIRAGANA + _IDEOGRAPHS + _OTHERS
_SIGNS = "\u200c\u200d" + "".join(
    chr(c)
    for c in (*range(0x300, 0x1DFF), *range(0xA66F, 0xABFF))
    if unicodedata.category(chr(c)).startswith("M")
)
_WORD = re.compile(
    rf"[^\W{_UNSPACED}]+(?:[{_SIGNS}]+[^\W{_UNSPACED}]*)*"
    rf"|[{_KATAKANA}]+|[{_HIRAGANA}]+|[{_IDEOGRAPHS}]{{1,2}}|[{_OTHERS}]{{1,3}}"
)
_SEPARATOR = re.compile(rf"(?:[^\w{_SIGNS}]|_)+")
_QUESTION, _EXCLAMATION = re.compile(r"[?？؟]"), re.compile(r"[!！]")
_WINDOW = 4
_NEAR = 0.6  # the share of character 4-grams in a near copy
_ALIKE = (
    0.05  # distance of a unit vector from the mean below which its direction is noise
)
Grams = tuple[set[Any], set[Any], set[Any]]  # words, pairs and triples of words


def words(text: str) -> list[str]:
    """Returns the lower-case words of ``text`` without punctuation. Scripts without spaces, such
    as Chinese, are split into pieces about as long as a word."""
    return _WORD.findall(text.casefold())


class _Speaker:
    """What one speaker has said so far.

    Attributes:
        grams: The words, bigrams and trigrams of all turns.
        recent: The words, bigrams and trigrams of each of the last four turns.
        turns: Each turn as a tuple of words.
        spellings: The character 4-grams of each turn.
        log_words: The log of the last turn's number of words plus one.
    """

    def __init__(self) -> None:
        self.grams: Grams = (set(), set(), set())
        self.recent: deque[Grams] = deque(maxlen=_WINDOW)
        self.turns: set[tuple[str, ...]] = set()
        self.spellings: list[set[Any]] = []
        self.log_words = 0.0


def surface_features(dialogue: Dialogue) -> np.ndarray:
    """Returns features of the text of each turn, such as ``said_recently_1``: the share of its
    words that also occur in the four turns of the same speaker before it.

    The features of a turn do not depend on later turns.

    Args:
        dialogue: A dialogue of T turns.

    Returns:
        [T, 19] in float32: a row for each turn, and a column for each name in FEATURE_NAMES.
    """
    speakers = {"user": _Speaker(), "assistant": _Speaker()}
    heard: set[str] = set()
    table = np.zeros((len(dialogue.turns), len(FEATURE_NAMES)), dtype=np.float32)
    for position, turn in enumerate(dialogue.turns):
        speaker = speakers[turn.role]
        partner = speakers["user" if turn.role == "assistant" else "assistant"]
        text, tokens = turn.content, words(turn.content)
        # In order, repeats kept.
        grams = (
            tokens,
            list(pairwise(tokens)),
            list(zip(tokens, tokens[1:], tokens[2:], strict=False)),
        )
        distinct: Grams = (set(tokens), set(grams[1]), set(grams[2]))
        lately = [set[Any](), set[Any]()]
        for recent in speaker.recent:
            lately[0] |= recent[0]
            lately[1] |= recent[1]
        last = partner.recent[-1] if partner.recent else (set(), set(), set())
        earlier = [*enumerate(lately), (2, speaker.grams[2])]
        earlier += [*enumerate(last), (1, partner.grams[1])]
        for column, (order, seen_grams) in enumerate(earlier, 2):
            count = len(grams[order])
            table[position, column] = sum(map(seen_grams.__contains__, grams[order]))
            table[position, column] /= max(1, count)
        letters = _SEPARATOR.sub(" ", text.casefold()).strip()
        spelling: set[Any] = set(
            zip(letters, letters[1:], letters[2:], letters[3:], strict=False)
        )
        # A text shorter than an n-gram is one.
        spelling = spelling or {letters} - {""}
        marks = len(text) - sum(map(str.isalnum, text)) - sum(map(str.isspace, text))
        log_words, count = math.log1p(len(tokens)), max(1, len(tokens))
        table[position, :2] = log_words, sum(map(len, tokens)) / count
        table[position, 9:] = [
            tuple(tokens) in speaker.turns,
            len(distinct[0]) / count,
            math.log1p(len(distinct[0] - heard)),
            _QUESTION.search(text) is not None,
            _EXCLAMATION.search(text) is not None,
            not tokens,
            marks / max(1, len(text)),
            log_words - partner.log_words if partner.turns else 0.0,
            math.log1p(position + 1),
            _has_near_copy(spelling, speaker.spellings),
        ]
        speaker.recent.append(distinct)
        for seen_grams, turn_grams in zip(speaker.grams, distinct, strict=True):
            seen_grams |= turn_grams
        speaker.turns.add(tuple(tokens))
        speaker.spellings.append(spelling)
        speaker.log_words = log_words
        heard |= distinct[0]
    return table


def _has_near_copy(spelling: set[Any], earlier: Sequence[set[Any]]) -> bool:
    """Returns whether a turn repeats almost all of an earlier turn: their character 4-grams have a
    Jaccard similarity above 0.6.

    Args:
        spelling: The character 4-grams of the turn.
        earlier: The character 4-grams of each earlier turn.
    """
    for before in earlier:
        smaller, larger = sorted((len(spelling), len(before)))
        if smaller > _NEAR * larger:  # otherwise the sizes alone rule it out
            shared = len(spelling & before)
            if shared > _NEAR * (smaller + larger - shared):
                return True
    return False


def turn_similarities(cosines: Floats, roles: npt.NDArray[np.int64]) -> Floats:
    """Returns how similar each turn is to earlier turns, as cosines of embeddings.

    Args:
        cosines: [T, T], the cosines between the embeddings of the T turns.
        roles: [T], 0 for a user turn, 1 for an assistant turn.

    Returns:
        [T, 7]: a row for each turn, and a column for each name in SIMILARITY_NAMES, such as the
            cosine to the partner's last turn. A value is 0 if there is no earlier turn to compare
            with. The two columns ``centred_*`` compare embeddings after the mean of the whole
            dialogue is subtracted. So only these two depend on later turns.
    """
    centred = _centred_cosines(cosines)
    table = np.zeros((len(roles), len(SIMILARITY_NAMES)))
    for side in (0, 1):
        turns, partners = np.flatnonzero(roles == side), np.flatnonzero(roles != side)
        heard = np.searchsorted(partners, turns)  # turns of the partner before each
        same_side = np.ix_(turns, turns)
        earlier = np.tri(len(turns), k=-1, dtype=bool)
        nearest, recent_nearest, centred_nearest = _highest_allowed(
            np.stack([cosines[same_side], cosines[same_side], centred[same_side]]),
            np.stack([earlier, np.triu(earlier, -_WINDOW), earlier]),
        )
        columns = [
            nearest,
            recent_nearest,
            np.append(0.0, cosines[turns[1:], turns[:-1]])[: len(turns)],
        ]
        for rank in (1, 2):
            has_heard = heard >= rank
            before = partners[heard[has_heard] - rank]
            column = np.zeros(len(turns))
            column[has_heard] = cosines[turns[has_heard], before]
            columns.append(column)
        columns.append(centred_nearest)
        was_heard = np.arange(len(partners)) < heard[:, None]
        sums = (centred[np.ix_(turns, partners)] * was_heard).sum(axis=1)
        columns.append(sums / np.maximum(heard, 1))
        table[turns] = np.stack(columns, axis=1)
    return table


def _centred_cosines(cosines: Floats) -> Floats:
    """Returns the cosines [T, T] of T unit vectors after their mean is subtracted from each.

    Args:
        cosines: [T, T], the cosines before the mean is subtracted.
    """
    with_mean = cosines.mean(axis=1)
    products = cosines - with_mean[:, None] - with_mean + with_mean.mean()
    # Equal turns leave only rounding, which must not be scaled up to a direction.
    norms = np.sqrt(np.maximum(products.diagonal(), _ALIKE**2))
    centred: Floats = products / norms / norms[:, None]
    return centred


def _highest_allowed(cosines: Floats, allowed: npt.NDArray[np.bool_]) -> Floats:
    """Returns the highest of ``cosines`` along the last axis where ``allowed`` is true, or 0 if it
    is false along the whole axis. Both arrays have one shape."""
    best = np.where(allowed, cosines, -2).max(axis=-1, initial=-2)
    return np.where(allowed.any(axis=-1), best, 0)
