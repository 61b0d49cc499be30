"""Units of length, and lemmas: the tokens over which lexical diversity is counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from medal_judges.errors import MissingExtraError
from medal_judges.records.languages import base_language

Unit = Literal["words", "characters"]

# Written without spaces between words: Chinese (MEDAL, Table 2, has only this one), Cantonese, Wu,
# Japanese, Thai, Lao, Khmer, Burmese.
SPACELESS = frozenset({"zh", "yue", "wuu", "ja", "th", "lo", "km", "my"})

Split = Callable[[str], list[str]]
_PURPOSE = "lexical diversity over lemmas (--no-lemmas takes the words as they are)"
_SIZES = ("sm", "md", "lg", "trf")
_NOT_NEEDED = ["parser", "ner", "senter"]
_CHINESE = frozenset({"zh", "yue", "wuu"})
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def unit_of(lang: str) -> Unit:
    """The unit in which utterances of ``lang`` are measured."""
    return "characters" if base_language(lang) in SPACELESS else "words"


def length(text: str, unit: Unit) -> int:
    """Length of an utterance: what stands between spaces, or every character that is no space.

    Punctuation belongs to the word it touches, and is a character of its own.
    """
    words = text.split()
    return len(words) if unit == "words" else sum(map(len, words))


@dataclass(frozen=True, slots=True)
class Lemmatiser:
    """``split`` gives the tokens of a text, lower-cased, without punctuation and symbols.

    ``name`` says what makes them and stands beside every figure. ``split`` is None where the
    language cannot be split into words here, and ``name`` says why.
    """

    name: str
    split: Split | None


def lemmatiser(lang: str, *, lemmas: bool = True) -> Lemmatiser:
    """What splits ``lang``: jieba for Chinese, else the spaCy model that is installed, else
    spaCy's tokens with the lemma table of spacy-lookups-data, else its tokens as they are.

    Without ``lemmas`` the words as they are, which needs no package. Raises MissingExtraError.
    """
    base = base_language(lang)
    if not lemmas:
        return _plain(lang)
    if base in _CHINESE:
        return _jieba()
    spacy = _import("spacy")
    model = _installed_model(spacy, base)
    if model is not None:
        return _trained(spacy, model)
    _import("spacy_lookups_data")
    return _blank(spacy, base)


def _import(name: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(name.replace("_", "-"), "lang", _PURPOSE) from error


def _plain(lang: str) -> Lemmatiser:
    if unit_of(lang) == "characters":
        return Lemmatiser("not split (no spaces between words, and --no-lemmas)", None)
    return Lemmatiser("words as they are, by spaces and punctuation", _words)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _jieba() -> Lemmatiser:
    import logging

    jieba = _import("jieba")
    jieba.setLogLevel(logging.WARNING)  # it announces its dictionary on stderr
    jieba.initialize()

    def split(text: str) -> list[str]:
        return [t.lower() for t in jieba.cut(text) if _is_word(t)]

    return Lemmatiser(f"jieba {jieba.__version__} tokens", split)


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token))


def _installed_model(spacy: ModuleType, base: str) -> str | None:
    """The smallest model of the language that pip has installed."""
    names = [name for name in spacy.util.get_installed_models() if name.startswith(f"{base}_")]
    sizes = {size: i for i, size in enumerate(_SIZES)}
    names.sort(key=lambda name: (sizes.get(name.rsplit("_", 1)[-1], len(sizes)), name))
    return names[0] if names else None


def _trained(spacy: ModuleType, model: str) -> Lemmatiser:
    nlp = spacy.load(model, exclude=_NOT_NEEDED)

    def split(text: str) -> list[str]:
        return [t.lemma_.lower() for t in nlp(text) if _is_word(t.text)]

    return Lemmatiser(f"spaCy model {model} {nlp.meta['version']}, lemmas", split)


def _blank(spacy: ModuleType, base: str) -> Lemmatiser:
    """spaCy without a trained model: its rules for tokens, and its table of lemmas if any."""
    nlp, rules = _tokeniser(spacy, base)
    if nlp is None:
        return Lemmatiser(rules, None)
    pipe = nlp.add_pipe("lemmatizer", config={"mode": "lookup"})
    name = f"spaCy {spacy.__version__} {rules}"
    known: dict[int, str | None] = {}  # each distinct token is looked up once; None is no word
    try:
        nlp.initialize()
    except ValueError:  # E955: no table of this language
        pipe, name = None, f"{name}: words as they are (no lemma table)"
    else:
        name = f"{name}, lemmas looked up in spacy-lookups-data"

    def split(text: str) -> list[str]:
        tokens, doc = [], nlp.make_doc(text)
        # A Token object costs more than a number.
        for i, orth in enumerate(doc.to_array("ORTH").tolist()):
            if orth not in known:
                word: str = doc[i].text
                lemma = pipe.lookup_lemmatize(doc[i])[0] if pipe else word  # the first, as in spaCy
                known[orth] = lemma.lower() if _is_word(word) else None
            tokens.append(known[orth])
        return [token for token in tokens if token is not None]

    return Lemmatiser(name, split)


def _tokeniser(spacy: ModuleType, base: str) -> tuple[Any, str]:
    """An empty pipeline and what to call it; None and the reason where words cannot be told."""
    try:
        return spacy.blank(base), "tokens by its rules for the language"
    except ImportError as error:  # no such language, or it asks for a package of its own
        needed = re.split(r"\. |:? \(?http|\n", str(error).strip())[0]
    if unit_of(base) == "characters":
        return None, f"not split (no spaces between words; {needed})"
    return spacy.blank("xx"), "tokens by its rules for any language"
