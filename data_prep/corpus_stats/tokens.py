"""Tokens: length units, lemmas, and MTLD, the lexical diversity of a text."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Literal, NamedTuple

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
    """Returns the unit that measures utterances of ``lang``."""
    if base_language(lang) in SPACELESS:
        return "characters"
    return "words"


def length(text: str, unit: Unit) -> int:
    """Returns the number of space-separated words in ``text``, or of characters without white
    space, as ``unit`` says.

    Punctuation belongs to the word it touches. It counts as a character.
    """
    words = text.split()
    if unit == "words":
        return len(words)
    return sum(map(len, words))


class Lemmatiser(NamedTuple):
    """``split`` returns the tokens of a text in lower case, without punctuation and symbols.

    ``name`` describes the tool and is shown beside every figure. If the language cannot be split
    into words here, ``split`` is None and ``name`` says why.
    """

    name: str
    split: Callable[[str], list[str]] | None


def lemmatiser(lang: str, *, lemmas: bool = True) -> Lemmatiser:
    """Returns jieba for Chinese. For another ``lang`` returns spaCy's tokenizer with the lemma
    table of spacy-lookups-data, if it has one for the language.

    With ``lemmas=False`` it splits at spaces and punctuation and needs no package. Raises
    MissingExtraError if the package for the language is not installed.
    """
    if lemmas and base_language(lang) in ("zh", "yue", "wuu"):
        return _jieba()
    if lemmas:
        return _spacy(base_language(lang))
    if unit_of(lang) == "characters":
        return Lemmatiser("not split (no spaces between words, and --no-lemmas)", None)
    name = "words as they are, by spaces and punctuation"
    return Lemmatiser(name, lambda text: _WORD.findall(text.lower()))


def _jieba() -> Lemmatiser:
    """Returns a lemmatiser that splits Chinese into jieba's words. Raises MissingExtraError without
    jieba."""
    jieba = _import("jieba")
    jieba.setLogLevel(logging.WARNING)  # jieba announces its dictionary on stderr
    jieba.initialize()

    def split(text: str) -> list[str]:
        return [token.lower() for token in jieba.cut(text) if _is_word(token)]

    return Lemmatiser(f"jieba {jieba.__version__} tokens", split)


def _spacy(lang: str) -> Lemmatiser:
    """Returns spaCy's lemmatiser for the language ``lang``. It returns words as they are if spaCy
    has no table of lemmas, and splits at spaces if spaCy lacks the language. Raises
    MissingExtraError without spaCy."""
    spacy = _import("spacy")
    _import("spacy_lookups_data")
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        # spaCy lacks the language, or the language needs a package
        if unit_of(lang) == "words":
            return lemmatiser(lang, lemmas=False)
        needed = re.split(r"\. |:? \(?http|\n", str(error).strip())[0]
        return Lemmatiser(f"not split (no spaces between words; {needed})", None)
    pipe = nlp.add_pipe("lemmatizer", config={"mode": "lookup"})
    try:
        nlp.initialize()
        words = ", lemmas looked up in spacy-lookups-data"
    except ValueError:  # E955: no lemma table for this language
        pipe = None
        words = ": words as they are (no lemma table)"
    lemma_of: dict[int, str] = {}  # distinct token -> lemma; empty if it is not a word

    def split(text: str) -> list[str]:
        document = nlp.make_doc(text)
        lemmas = []
        # to_array is faster than creating a Token object for each token.
        for i, token in enumerate(document.to_array("ORTH").tolist()):
            if token not in lemma_of:
                word: str = document[i].text
                lemma = pipe.lookup_lemmatize(document[i])[0] if pipe else word
                lemma_of[token] = lemma.lower() if _is_word(word) else ""
            lemmas.append(lemma_of[token])
        return list(filter(None, lemmas))

    rules = f"spaCy {spacy.__version__} tokens by its rules for the language"
    return Lemmatiser(rules + words, split)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        purpose = (
            "lexical diversity over lemmas (--no-lemmas counts the words as they are)"
        )
        raise MissingExtraError(name.replace("_", "-"), "lang", purpose) from error


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token))


def mtld(tokens: Sequence[str]) -> float | None:
    """MTLD (McCarthy and Jarvis 2010): how many tokens a text keeps its type-token ratio up, as the
    mean of a forward and a backward pass. None if no token occurs twice.

    The numbers equal those of lexical-diversity 0.1.1, the package of the MEDAL paper, which does
    not import with current setuptools.
    """
    forward = _factors(tokens)
    backward = _factors(tokens[::-1])
    if not forward or not backward:
        return None
    return (len(tokens) / forward + len(tokens) / backward) / 2


def _factors(tokens: Sequence[str]) -> float:
    """A factor is complete at 10 tokens or more and a type-token ratio under 0.72. The remaining
    tokens count as a partial factor: how far their ratio has fallen from 1 towards 0.72."""
    factors = 0.0
    types: set[str] = set()
    length = 0
    for token in tokens:
        if length >= _MTLD_MIN_FACTOR and len(types) / length < _MTLD_THRESHOLD:
            factors += 1
            types.clear()
            length = 0
        types.add(token)
        length += 1
    if length:
        factors += (1 - len(types) / length) / (1 - _MTLD_THRESHOLD)
    return factors
