"""Tokens: length units, lemmas, and MTLD, the lexical diversity of a text."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NamedTuple

from medal_judges.errors import MissingExtraError
from medal_judges.records.dialogue import base_language

Unit = Literal["words", "characters"]

# Written without spaces between words: Chinese, Cantonese, Wu, Japanese, Thai, Lao, Khmer, Burmese.
SPACELESS = frozenset({"zh", "yue", "wuu", "ja", "th", "lo", "km", "my"})
MTLD_UNDEFINED = "no token occurs twice, so the type-token ratio never falls"
_MTLD_THRESHOLD = 0.72
_MTLD_MIN_FACTOR = 10
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def unit_of(lang: str) -> Unit:
    """The unit that measures utterances of ``lang``."""
    return "characters" if base_language(lang) in SPACELESS else "words"


def length(text: str, unit: Unit) -> int:
    """The number of space-separated words, or of characters without white space.

    Punctuation belongs to the word it touches. It counts as a character.
    """
    words = text.split()
    return len(words) if unit == "words" else sum(map(len, words))


class Lemmatiser(NamedTuple):
    """``split`` returns the tokens of a text in lower case, without punctuation and symbols.

    ``name`` describes the tool and is shown beside every figure. If the language cannot be split
    into words here, ``split`` is None and ``name`` says why.
    """

    name: str
    split: Callable[[str], list[str]] | None


def lemmatiser(lang: str, *, lemmas: bool = True) -> Lemmatiser:
    """Returns jieba for Chinese; else spaCy's tokenizer with the lemma table of
    spacy-lookups-data, if it has one for the language.

    With ``lemmas=False``, it splits at spaces and punctuation and needs no package. Raises
    MissingExtraError.
    """
    base = base_language(lang)
    if not lemmas:
        if unit_of(lang) == "characters":
            return Lemmatiser("not split (no spaces between words, and --no-lemmas)", None)
        name = "words as they are, by spaces and punctuation"
        return Lemmatiser(name, lambda text: _WORD.findall(text.lower()))
    if base in ("zh", "yue", "wuu"):
        jieba = _import("jieba")
        jieba.setLogLevel(logging.WARNING)  # jieba announces its dictionary on stderr
        jieba.initialize()
        name = f"jieba {jieba.__version__} tokens"
        return Lemmatiser(name, lambda text: [t.lower() for t in jieba.cut(text) if _is_word(t)])
    spacy = _import("spacy")
    _import("spacy_lookups_data")
    rules = "tokens by its rules for the language"
    nlp: Any
    try:
        nlp = spacy.blank(base)
    except ImportError as error:  # spaCy lacks the language, or the language needs a package
        if unit_of(base) == "characters":
            needed = re.split(r"\. |:? \(?http|\n", str(error).strip())[0]
            return Lemmatiser(f"not split (no spaces between words; {needed})", None)
        nlp, rules = spacy.blank("xx"), "tokens by its rules for any language"
    pipe = nlp.add_pipe("lemmatizer", config={"mode": "lookup"})
    try:
        nlp.initialize()
        words = "lemmas looked up in spacy-lookups-data"
    except ValueError:  # E955: no lemma table for this language
        pipe, words = None, "words as they are (no lemma table)"
    cache: dict[int, str | None] = {}  # distinct token -> lemma; None if it is not a word

    def split(text: str) -> list[str]:
        tokens, doc = [], nlp.make_doc(text)
        # to_array is faster than creating a Token object for each token.
        for i, orth in enumerate(doc.to_array("ORTH").tolist()):
            if orth not in cache:
                word: str = doc[i].text
                lemma = pipe.lookup_lemmatize(doc[i])[0] if pipe else word
                cache[orth] = lemma.lower() if _is_word(word) else None
            tokens.append(cache[orth])
        return [token for token in tokens if token is not None]

    return Lemmatiser(f"spaCy {spacy.__version__} {rules}{', ' if pipe else ': '}{words}", split)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        purpose = "lexical diversity over lemmas (--no-lemmas counts the words as they are)"
        raise MissingExtraError(name.replace("_", "-"), "lang", purpose) from error


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token))


class MTLD:
    """MTLD (McCarthy and Jarvis 2010) of a text, or of many dialogues as one text: how many tokens
    it keeps its type-token ratio up, as the mean of a forward and a backward pass. Texts are not
    kept.

    A factor is complete at 10 tokens or more and a type-token ratio under 0.72. The remaining
    tokens count as a partial factor: how far their ratio has fallen from 1 towards 0.72. The
    forward pass reads each dialogue from its first token, the backward pass from its last. The
    numbers equal those of lexical-diversity 0.1.1, the package of the MEDAL paper, which does not
    import with current setuptools.
    """

    def __init__(self, tokens: Sequence[str] = ()) -> None:
        self.tokens = 0
        self.types: tuple[set[str], set[str]] = (set(), set())  # of the open factors
        self.lengths, self.complete = [0, 0], [0, 0]
        self.add(tokens)

    def add(self, tokens: Sequence[str]) -> None:
        self.tokens += len(tokens)
        for which, ordered in enumerate((tokens, reversed(tokens))):
            types, length = self.types[which], self.lengths[which]
            for token in ordered:
                if length >= _MTLD_MIN_FACTOR and len(types) / length < _MTLD_THRESHOLD:
                    self.complete[which] += 1
                    types.clear()
                    length = 0
                types.add(token)
                length += 1
            self.lengths[which] = length

    def value(self) -> float | None:
        """None if no token occurs twice."""
        values = []
        for types, length, complete in zip(self.types, self.lengths, self.complete, strict=True):
            part = (1 - len(types) / length) / (1 - _MTLD_THRESHOLD) if length else 0.0
            if not complete + part:
                return None
            values.append(self.tokens / (complete + part))
        return (values[0] + values[1]) / 2
