"""Tools to edit a dialogue: words and sentences of a text, tables of sentences, donors (turns of
other conversations), and ``Edit``, one issue in one dialogue.

The tables are YAML files in configs/perturbation/. No entry is in two splits, in any language, so
that a judge cannot score well by memorising sentences."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle, pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import yaml

from medal_judges.config import config_text, read_yaml
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue

T = TypeVar("T")
Split = Literal["train", "val", "test"]
LANGUAGES = ("en", "zh", "de", "fr", "pt", "es")
# Split by position, in cycles of five. All languages of an entry share its position, so a test
# sentence is not in the training split of another language. Add new entries at the end.
_DEAL: tuple[Split, ...] = ("train", "val", "train", "test", "train")
_NO_SPACES = frozenset({"zh", "ja"})
_END = re.compile(r"[.!?…。！？:：,，;](?:[\"'”’)\]]*)\s*$")
_BOUNDARY = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*|\n+")
_SLOT = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")
_MOST = 20_000  # donors per language: more would only cost memory
_WINDOW = 150  # longer turns, and shorter turns, to draw from
_TRIES = 48
_COMBINATIONS = 24  # of neutral sentences


def word_pattern(lang: str) -> re.Pattern[str]:
    """Returns a regular expression that matches one word. In Chinese and Japanese (``lang`` is
    ``zh`` or ``ja``), it matches one character."""
    if lang in _NO_SPACES:
        return re.compile(r"\S")
    return re.compile(r"\S+")


def join_texts(parts: Iterable[str], lang: str) -> str:
    """Returns ``parts`` as one text, with spaces between them if the language ``lang``
    has spaces."""
    space = "" if lang in _NO_SPACES else " "
    return space.join(filter(None, parts))


def has_words(text: str, lang: str, count: float) -> bool:
    """Returns whether ``text``, in the language ``lang``, has at least ``count`` words. In Chinese
    and Japanese, 1.6 characters count as a word."""
    if lang in _NO_SPACES:
        count *= 1.6
    return len(word_pattern(lang).findall(text)) >= count


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of ``text``, split at final punctuation and line breaks."""
    return [part.strip() for part in _BOUNDARY.split(text) if part.strip()]


def content_words(texts: Iterable[str], lang: str) -> set[str]:
    """Returns the words of ``texts`` with at least four letters, in lower case. In Chinese and
    Japanese (``lang`` is ``zh`` or ``ja``), returns all pairs of neighbouring characters."""
    words = re.findall(r"\w+", " ".join(texts).lower())
    if lang not in _NO_SPACES:
        return {word for word in words if len(word) >= 4}
    pairs: set[str] = set()
    for word in words:
        pairs.update(map("".join, pairwise(word)))
    return pairs


def match_style(sentence: str, like: str) -> str:
    """Returns ``sentence`` in the style of the text ``like``.

    It is in lower case if ``like`` has no capitals. It loses its full stop if ``like`` ends without
    punctuation.
    """
    # Otherwise an inserted sentence could be recognised by its style.
    if like.strip() and like == like.lower() and like.upper() != like:
        sentence = sentence.lower()
    if like.strip() and not _END.search(like):
        sentence = sentence.rstrip(".。")
    return sentence


def insert_sentence(
    text: str,
    sentence: str,
    position: float,
    lang: str,
) -> str:
    """Returns ``text`` with ``sentence`` inserted.

    ``sentence`` is adapted to the style of ``text``, such as lower case or no full stop.

    Args:
        text: The text to extend.
        sentence: The sentence to insert.
        position: Where to insert, from 0 (before the first sentence) to 1 (after the last).
        lang: The language of both texts.
    """
    text = text.strip()
    if not text:
        return sentence
    ends = {match.end() for match in _BOUNDARY.finditer(text)} - {0, len(text)}
    cuts = [0, *sorted(ends), len(text)]
    cut = cuts[round(position * (len(cuts) - 1))]
    styled = match_style(sentence, text)
    line_end = "\n" in text
    return append_sentence(
        append_sentence(text[:cut], styled, lang, line_end),
        text[cut:],
        lang,
        line_end,
    )


def append_sentence(
    left: str,
    right: str,
    lang: str,
    line_end: bool = False,
) -> str:
    """Returns ``left`` followed by ``right``. If one of them is empty, returns the other.

    Args:
        left: The first text. It gets a full stop if it ends without punctuation and ``line_end`` is
            False.
        right: The second text.
        lang: The language of both texts. Chinese and Japanese have no space between sentences.
        line_end: Whether ``right`` begins on a new line.
    """
    left = left.rstrip()
    right = right.lstrip()
    if not left or not right:
        return left or right
    if line_end:
        return f"{left}\n{right}"
    if not _END.search(left):
        left += "。" if lang in _NO_SPACES else "."
    return join_texts([left, right], lang)


def join_sentences(parts: Iterable[str], lang: str) -> str:
    """Returns ``parts``, texts in the language ``lang``, as one text. A part gets a full stop
    before the next if its punctuation is missing."""
    text = ""
    for part in parts:
        text = append_sentence(text, part, lang)
    return text


def sentence_table_entries(table: str, lang: str, split: Split) -> tuple[Any, ...]:
    """Returns the entries of a sentence table (a YAML file of texts to insert) in one language and
    one split.

    An entry is a text, a list or a mapping, depending on the table. No entry is in two splits. The
    tuple is empty if there are none.

    Args:
        table: The name of a file in configs/perturbation/, such as ``neutral``.
        lang: The language, such as ``de``.
        split: ``train``, ``val`` or ``test``.
    """
    return _load_by_split(table).get((lang, split), ())


@lru_cache(maxsize=32)
def _load_by_split(table: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    by_key: dict[tuple[str, str], tuple[Any, ...]] = {}
    by_language = yaml.safe_load(config_text(f"perturbation/{table}"))
    for entry, split in zip(by_language, cycle(_DEAL)):
        for lang, value in entry.items():
            by_key[lang, split] = (*by_key.get((lang, split), ()), value)
    return by_key


@lru_cache(maxsize=8)
def load_word_table(table: str) -> Mapping[str, Any]:
    """Returns the content of the YAML file ``table`` of configs/perturbation/: ``nonsense``
    (syllables) or ``small_changes`` (synonyms and fillers). Its words are the same in training,
    validation and test data."""
    return read_yaml(f"perturbation/{table}")


@lru_cache(maxsize=16)
def synonym_patterns(lang: str) -> list[tuple[re.Pattern[str], str]]:
    """Returns (pattern, synonym) pairs for the language ``lang``. A pattern is a regular expression
    that matches a word. The synonym can replace that word."""
    words = load_word_table("small_changes").get(lang, {}).get("words", {})
    edge = "" if lang == "zh" else r"\b"
    pairs = []
    for word, synonym in words.items():
        pattern = re.compile(f"{edge}{re.escape(word)}{edge}", re.IGNORECASE)
        pairs.append((pattern, synonym))
    return pairs


def with_new_texts(
    dialogue: Dialogue, contents: Mapping[int, str], start: int = 0
) -> Dialogue:
    """Returns a copy of ``dialogue`` with new texts in some turns.

    Args:
        dialogue: The original.
        contents: Turn index -> new text.
        start: A number that is added to each turn index in ``contents``.
    """
    turns = list(dialogue.turns)
    for i, content in contents.items():
        turns[start + i] = Turn(turns[start + i].role, content)
    return replace(dialogue, turns=tuple(turns))


def sound_and_faulty(text: str) -> tuple[str, str]:
    """Returns two versions of ``text``, which marks alternatives as ``[sound|faulty]``.

    For ``Ice is [cold|hot].``, it returns ``Ice is cold.`` and ``Ice is hot.``
    """
    return _SLOT.sub(r"\1", text), _SLOT.sub(r"\2", text)


def stable_hash(*parts: object) -> int:
    """Returns a 64-bit hash of ``parts`` that is the same in every process."""
    digest = hashlib.blake2b(
        "\x1f".join(map(str, parts)).encode("utf-8"), digest_size=8
    )
    return int.from_bytes(digest.digest(), "big")


@dataclass(frozen=True)
class Donors:
    """Assistant turns of many conversations, whose texts can be put into another conversation.

    Attributes:
        turns: Language -> (name of the conversation, text) pairs, the shortest text first.
    """

    turns: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, rows: Iterable[LabelledDialogue]) -> Donors:
        """Returns the donors in ``rows``: assistant turns of at least five words. The first and the
        last assistant turn of each dialogue are left out."""
        turns: dict[str, list[tuple[str, str]]] = {}
        for row in sorted(rows, key=lambda row: (stable_hash(row.id), row.id)):
            lang = row.dialogue.lang
            donors = turns.setdefault(lang, [])
            if len(donors) >= _MOST:
                continue
            for turn in row.dialogue.assistant_turns[1:-1]:
                text = row.dialogue.turns[turn].content
                if has_words(text, lang, 5):
                    donors.append((row.group, text))
        for donors in turns.values():
            donors.sort(key=lambda turn: (len(turn[1]), turn))
        return cls(turns)

    def draw_text(
        self,
        edit: Edit,
        length: int,
        accept: Callable[[str], bool],
    ) -> str | None:
        """Returns the text of a random turn of another conversation, of about the given length.

        48 random turns are tried. Returns None if none of them is both from another conversation
        and accepted, or if there are no turns in the language.

        Args:
            edit: The edit that needs the text. It has the language, the random number generator,
                and the conversation to avoid.
            length: Approximate length in characters.
            accept: Takes a text, and returns whether it may be used.
        """
        turns = self.turns.get(edit.lang, [])
        if not turns:
            return None
        near = bisect_left(turns, length, key=lambda turn: len(turn[1]))
        first = max(0, near - _WINDOW)
        last = min(len(turns), near + _WINDOW)
        tried: list[tuple[str, str]] = [
            turns[i] for i in edit.rng.integers(first, last, size=_TRIES)
        ]
        tried.sort(key=lambda turn: abs(len(turn[1]) - length))
        for group, text in tried:
            if group != edit.group and accept(text):
                return text
        return None


class CannotInject(Exception):
    """Raised if an issue (a fault such as ``repetitive``) cannot be injected into a dialogue. The
    message says why."""


@dataclass
class Edit:
    """Two edited versions of one dialogue. The injected version has an issue. The control is
    similar but has no issue.

    The caller gives the first six fields. The methods fill the others: each edited turn gets a text
    in ``injected`` and in ``control``, and ``finish`` sets ``touched`` and ``how``.

    Attributes:
        dialogue: The original.
        strength: How much is edited, from 1 (one sentence) to 3 (several sentences or answers).
        rng: Random number generator for all choices.
        donors: Turns of other conversations, whose text may be used.
        split: ``train``, ``val`` or ``test``. Each split inserts different sentences.
        group: Name of the conversation. Its own turns are not used as donors.
        injected: Turn index -> new text in the injected version.
        control: Turn index -> new text in the control. Has the same turns as ``injected``.
        touched: Indices of the edited turns that show the issue. The other edited turns have the
            same new text in both versions.
        how: Name of the method, such as ``contradiction``.
        lang: The language of ``dialogue``.
        texts: The original text of each turn.
    """

    dialogue: Dialogue
    strength: int
    rng: np.random.Generator
    donors: Donors
    split: Split
    group: str
    injected: dict[int, str] = field(default_factory=dict)
    control: dict[int, str] = field(default_factory=dict)
    touched: tuple[int, ...] = ()
    how: str = ""

    def __post_init__(self) -> None:
        self.lang = self.dialogue.lang
        self.texts = tuple(turn.content for turn in self.dialogue.turns)

    def table_entries(self, name: str) -> tuple[Any, ...]:
        """Returns the entries of a sentence table (a YAML file of texts to insert), in the language
        and the split of this edit.

        Args:
            name: The name of the table, such as ``neutral``.

        Raises:
            CannotInject: There are no entries.
        """
        if not (table := sentence_table_entries(name, self.lang, self.split)):
            raise CannotInject(f"no sentences in language {self.lang!r}")
        return table

    def answer_indices(
        self,
        words: int = 1,
        *,
        need: int = 0,
        why: str = "no assistant turn with words",
    ) -> list[int]:
        """Returns the indices, among all turns, of the assistant turns with at least
        ``words`` words.

        Args:
            words: The minimum number of words in a turn.
            need: The minimum number of such turns.
            why: The error message if there are fewer than ``need``.

        Raises:
            CannotInject: There are fewer than ``need`` such turns.
        """
        turns = self.dialogue.assistant_turns
        answers = [i for i in turns if has_words(self.texts[i], self.lang, words)]
        if len(answers) < need:
            raise CannotInject(why)
        return answers

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """Returns ``count`` random items of ``options`` in their original order, or all items if
        there are fewer."""
        count = min(count, len(options))
        return [options[i] for i in sorted(self.rng.permutation(len(options))[:count])]

    def choose(self, options: Sequence[T]) -> T:
        """Returns a random item of ``options``."""
        return options[int(self.rng.integers(len(options)))]

    def flip_coin(self) -> bool:
        """Returns True or False at random, with equal probability."""
        return bool(self.rng.random() < 0.5)

    def replace_turn(
        self,
        turn: int,
        injected: str,
        control: str,
    ) -> None:
        """Sets the new text of the turn with index ``turn`` in both versions.

        Args:
            injected: The text in the version with the issue.
            control: The text in the control, the version without it.
        """
        self.injected[turn] = injected
        self.control[turn] = control

    def insert_sentences(
        self,
        turn: int,
        injected: str,
        control: str,
        position: float,
    ) -> None:
        """Inserts one sentence into the turn with index ``turn`` in both versions, at the
        same place.

        Args:
            injected: The sentence for the version with the issue.
            control: The sentence for the control, the version without it.
            position: Where to insert, from 0 (before the first sentence) to 1 (after the last).
        """
        for contents, sentence in ((self.injected, injected), (self.control, control)):
            before = contents.get(turn, self.texts[turn])
            contents[turn] = insert_sentence(before, sentence, position, self.lang)

    def finish(self, how: str, touched: Iterable[int] | None = None) -> None:
        """Records the method and the turns that show the issue, after all turns are edited.

        Args:
            how: The name of the method, such as ``contradiction``.
            touched: Indices of the turns that show the issue (default: all edited turns).

        Raises:
            CannotInject: A turn in ``touched`` has the same text in both versions.
        """
        self.how = how
        if touched is None:
            touched = self.injected
        self.touched = tuple(sorted(touched))
        for turn in self.touched:
            if self.injected[turn] == self.control[turn]:
                raise CannotInject("the edit would change nothing")

    def draw_neutral_sentences(
        self,
        length: int,
        used: Collection[str] = (),
        limit: int = 4,
    ) -> list[str]:
        """Returns random neutral sentences, such as "That is a good point.", for the control.
        Sentences that are whole turns of the dialogue are not used.

        Args:
            length: Approximate total length in characters.
            used: Further sentences to leave out.
            limit: The maximum number of sentences.

        Raises:
            CannotInject: No sentence is left.
        """
        present = {*used, *self.texts}
        free = [text for text in self.table_entries("neutral") if text not in present]
        if not free:
            raise CannotInject("no neutral sentence left for the control")
        drawn = []
        for _ in range(_COMBINATIONS):
            order = self.rng.permutation(len(free))
            drawn.append([free[i] for i in order[: self.rng.integers(1, limit + 1)]])
        return min(drawn, key=lambda sentences: abs(len(" ".join(sentences)) - length))

    def change_slightly(self, text: str) -> str:
        """Returns ``text`` with one to three changes that keep its meaning: a synonym, a typo, a
        filler or a different final punctuation mark."""
        changes = [
            self._swap_synonym,
            self._add_typo,
            self._add_filler,
            self._change_final_mark,
        ]
        changed = text
        for i in self.rng.permutation(len(changes))[: int(self.rng.integers(1, 4))]:
            changed = changes[i](changed)
        if changed == text:
            return self._change_final_mark(text)
        return changed

    def _swap_synonym(self, text: str) -> str:
        options = [pair for pair in synonym_patterns(self.lang) if pair[0].search(text)]
        if not options:
            return text
        pattern, synonym = self.choose(options)
        return str(pattern.sub(synonym, text, count=1))

    def _add_typo(self, text: str) -> str:
        """Returns ``text`` with two neighbouring letters of a word of five or more letters
        exchanged. Chinese text, and text without such a word, stays as it is."""
        words = text.split(" ")
        long = [i for i, word in enumerate(words) if len(word) >= 5 and word.isalpha()]
        if self.lang == "zh" or not long:
            return text
        at = self.choose(long)
        word = words[at]
        cut = int(self.rng.integers(1, len(word) - 2))
        words[at] = word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
        return " ".join(words)

    def _add_filler(self, text: str) -> str:
        """Returns ``text`` with a filler such as "Well," before it. Returns it unchanged if the
        language has no fillers."""
        fillers = load_word_table("small_changes").get(self.lang, {}).get("fillers", [])
        if not fillers:
            return text
        return join_texts([self.choose(fillers), text], self.lang)

    def _change_final_mark(self, text: str) -> str:
        marks = ("。", "！", "~") if self.lang == "zh" else (".", "!", "...")
        unmarked = text.rstrip(".!~。！ ")
        if unmarked.endswith(("?", "？")):
            return unmarked + unmarked[-1]
        other_marks = [mark for mark in marks if unmarked + mark != text]
        return unmarked + self.choose(other_marks)
