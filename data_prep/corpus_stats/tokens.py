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
    """Returns the unit in which texts in ``lang`` are measured: ``characters`` for languages
    without spaces between words, such as Chinese, otherwise ``words``."""
    if base_language(lang) in SPACELESS:
        return "characters"
    return "words"


def length(text: str, unit: Unit) -> int:
    """Returns the length of ``text`` in ``unit``: the number of words between spaces, or of
    characters that are not white space."""
    words = text.split()
    if unit == "words":
        return len(words)
    return sum(map(len, words))


class Lemmatiser(NamedTuple):
    """A tool that splits texts of one language into lemmas, or into words if it has no lemmas.

    Attributes:
        name: Description to show beside results, such as ``jieba 0.42.1 tokens``. If ``split`` is
            None, the reason why the language cannot be split.
        split: Takes a text and returns its lemmas in lower case, without punctuation. None if no
            tool can split the language.
    """

    name: str
    split: Callable[[str], list[str]] | None


def load_lemmatiser(lang: str, *, lemmas: bool = True) -> Lemmatiser:
    """Returns the tool that splits texts in one language: jieba for Chinese, otherwise spaCy.

    If spacy-lookups-data has no lemmas for the language, the tool returns words in place of lemmas.

    Args:
        lang: The language code, such as ``de``.
        lemmas: If False, texts are only split at spaces and punctuation, and no package is needed.

    Raises:
        MissingExtraError: A package for the language is not installed.
    """
    if lemmas and base_language(lang) in ("zh", "yue", "wuu"):
        return _load_jieba()
    if lemmas:
        return _load_spacy(base_language(lang))
    if unit_of(lang) == "characters":
        return Lemmatiser("not split (no spaces between words, and --no-lemmas)", None)
    name = "words as they are, by spaces and punctuation"
    return Lemmatiser(name, lambda text: _WORD.findall(text.lower()))


def _load_jieba() -> Lemmatiser:
    """Returns a tool that splits Chinese into words. Raises MissingExtraError if jieba is
    not installed."""
    jieba = _import_extra("jieba")
    jieba.setLogLevel(logging.WARNING)  # jieba announces its dictionary on stderr
    jieba.initialize()

    def split(text: str) -> list[str]:
        return [token.lower() for token in jieba.cut(text) if _is_word(token)]

    return Lemmatiser(f"jieba {jieba.__version__} tokens", split)


def _load_spacy(lang: str) -> Lemmatiser:
    """Returns spaCy's tool for the language ``lang``, which gives words if spaCy has no lemmas
    for it.

    If spaCy lacks the language, the tool splits at spaces and punctuation. Languages without spaces
    are then not split.

    Raises:
        MissingExtraError: spaCy or its tables of lemmas are not installed.
    """
    spacy = _import_extra("spacy")
    _import_extra("spacy_lookups_data")
    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        # spaCy lacks the language, or the language needs a package
        if unit_of(lang) == "words":
            return load_lemmatiser(lang, lemmas=False)
        needed = re.split(r"\. |:? \(?http|\n", str(error).strip())[0]
        return Lemmatiser(f"not split (no spaces between words, {needed})", None)
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


def _import_extra(name: str) -> ModuleType:
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
    """Returns the MTLD of ``tokens``, a measure of lexical diversity (McCarthy and Jarvis 2010).
    Returns None if no token occurs twice.

    MTLD is the mean number of tokens over which the type-token ratio (distinct tokens over all
    tokens) stays above 0.72. It is the average of a forward and a backward pass.
    """
    # The package lexical-diversity 0.1.1, which the MEDAL paper used, gives the same number.
    forward = _count_factors(tokens)
    backward = _count_factors(tokens[::-1])
    if not forward or not backward:
        return None
    return (len(tokens) / forward + len(tokens) / backward) / 2


def _count_factors(tokens: Sequence[str]) -> float:
    """Returns the number of MTLD factors in ``tokens``, in one pass.

    A factor is a run of at least 10 tokens, which ends when its type-token ratio (distinct tokens
    over all tokens) falls below 0.72. The tokens after the last factor count as a fraction of one.
    """
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
