"""Tokens: length units, lemmas, and MTLD, the lexical diversity of a text."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NamedTuple

from medal_judges.errors import MissingExtraError
from medal_judges.records.languages import base_language

Unit = Literal["words", "characters"]

# Written without spaces between words: Chinese, Cantonese, Wu, Japanese, Thai, Lao, Khmer, Burmese.
SPACELESS = frozenset({"zh", "yue", "wuu", "ja", "th", "lo", "km", "my"})
MTLD_UNDEFINED = "no token occurs twice, so the type-token ratio never falls"
_MTLD_THRESHOLD = 0.72
_MTLD_MIN_FACTOR = 10
_MODEL_SIZES = ("sm", "md", "lg", "trf")
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
    """Returns jieba for Chinese; else the installed spaCy model; else spaCy's tokenizer with the
    lemma table of spacy-lookups-data, if it has one for the language.

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
        return _jieba()
    spacy = _import("spacy")
    models = [name for name in spacy.util.get_installed_models() if name.startswith(f"{base}_")]
    if models:
        return _spacy_model(spacy, min(models, key=_model_rank))
    _import("spacy_lookups_data")
    return _spacy_rules(spacy, base)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        purpose = "lexical diversity over lemmas (--no-lemmas counts the words as they are)"
        raise MissingExtraError(name.replace("_", "-"), "lang", purpose) from error


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token))


def _jieba() -> Lemmatiser:
    jieba = _import("jieba")
    jieba.setLogLevel(logging.WARNING)  # jieba announces its dictionary on stderr
    jieba.initialize()

    def split(text: str) -> list[str]:
        return [token.lower() for token in jieba.cut(text) if _is_word(token)]

    return Lemmatiser(f"jieba {jieba.__version__} tokens", split)


def _model_rank(name: str) -> tuple[int, str]:
    """Sorts the smallest model first."""
    size = name.rsplit("_", 1)[-1]
    return _MODEL_SIZES.index(size) if size in _MODEL_SIZES else len(_MODEL_SIZES), name


def _spacy_model(spacy: ModuleType, model: str) -> Lemmatiser:
    nlp = spacy.load(model, exclude=["parser", "ner", "senter"])

    def split(text: str) -> list[str]:
        return [token.lemma_.lower() for token in nlp(text) if _is_word(token.text)]

    return Lemmatiser(f"spaCy model {model} {nlp.meta['version']}, lemmas", split)


def _spacy_rules(spacy: ModuleType, base: str) -> Lemmatiser:
    """spaCy without a trained model: tokenizer rules, and the lemma table if there is one."""
    rules = "tokens by its rules for the language"
    nlp: Any
    try:
        nlp = spacy.blank(base)
    except ImportError as error:  # spaCy lacks the language, or the language needs a package
        needed = re.split(r"\. |:? \(?http|\n", str(error).strip())[0]
        if unit_of(base) == "characters":
            return Lemmatiser(f"not split (no spaces between words; {needed})", None)
        nlp, rules = spacy.blank("xx"), "tokens by its rules for any language"
    pipe = nlp.add_pipe("lemmatizer", config={"mode": "lookup"})
    name = f"spaCy {spacy.__version__} {rules}"
    try:
        nlp.initialize()
    except ValueError:  # E955: no lemma table for this language
        pipe, name = None, f"{name}: words as they are (no lemma table)"
    else:
        name = f"{name}, lemmas looked up in spacy-lookups-data"
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

    return Lemmatiser(name, split)


class _Factors:
    """One MTLD pass over a stream of tokens; keeps only the types of the open factor.

    A factor is complete at 10 tokens or more and a type-token ratio under 0.72. The remaining
    tokens count as a partial factor: how far their ratio has fallen from 1 towards 0.72.
    """

    def __init__(self) -> None:
        self.types: set[str] = set()
        self.length = self.complete = self.tokens = 0

    def add(self, tokens: Iterable[str]) -> None:
        for token in tokens:
            if self.length >= _MTLD_MIN_FACTOR and len(self.types) / self.length < _MTLD_THRESHOLD:
                self.complete += 1
                self.types.clear()
                self.length = 0
            self.types.add(token)
            self.length += 1
            self.tokens += 1

    def value(self) -> float | None:
        if not self.length:
            return None
        factors = self.complete + (1 - len(self.types) / self.length) / (1 - _MTLD_THRESHOLD)
        return self.tokens / factors if factors else None


class RunTogether:
    """MTLD of many dialogues as one text, without keeping the text.

    The forward pass reads each dialogue from its first token, the backward pass from its last.
    Both take the dialogues in the same order.
    """

    def __init__(self) -> None:
        self._passes = (_Factors(), _Factors())

    def add(self, tokens: Sequence[str]) -> None:
        self._passes[0].add(tokens)
        self._passes[1].add(reversed(tokens))

    def value(self) -> float | None:
        forward, backward = (each.value() for each in self._passes)
        return None if forward is None or backward is None else (forward + backward) / 2


def mtld(tokens: Sequence[str]) -> float | None:
    """MTLD (McCarthy and Jarvis 2010): how many tokens a text keeps its type-token ratio up.

    Returns the mean of a forward and a backward pass, None if no token occurs twice. The numbers
    equal those of lexical-diversity 0.1.1, the package of the MEDAL paper, which does not import
    with current setuptools.
    """
    text = RunTogether()
    text.add(tokens)
    return text.value()
