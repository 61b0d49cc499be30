"""Tokens and lemmas: spaCy's own answers, jieba for Chinese, and what is said of each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from medal_judges.data_prep.corpus_stats.tokens import lemmatiser, length, unit_of
from medal_judges.errors import MissingExtraError

SENTENCES = {
    "en": "The cats weren't running faster than 2 dogs, were they? Well-known e-mails…",
    "nb": "Jeg har sett bilene, og de var større enn husene!",
    "hu": "A kutyák a házak előtt futottak.",
}


@pytest.mark.parametrize("lang", sorted(SENTENCES))
def test_lemmas_are_those_of_spacys_own_pipeline(lang: str) -> None:
    spacy = pytest.importorskip("spacy")
    pytest.importorskip("spacy_lookups_data")
    nlp = spacy.blank(lang)
    nlp.add_pipe("lemmatizer", config={"mode": "lookup"})
    nlp.initialize()
    expected = [t.lemma_.lower() for t in nlp(SENTENCES[lang]) if any(map(str.isalnum, t.text))]
    tool = lemmatiser(lang)
    assert tool.split is not None
    assert tool.split(SENTENCES[lang]) == expected
    assert tool.split(SENTENCES[lang]) == expected  # from memory
    assert "spacy-lookups-data" in tool.name and spacy.__version__ in tool.name


def test_english_by_hand() -> None:
    pytest.importorskip("spacy_lookups_data")
    split = lemmatiser("en").split
    assert split is not None
    found = split("The cats were running 😀 , isn't it?")
    assert found == ["the", "cat", "be", "run", "be", "not", "it"]


def test_chinese_is_split_by_jieba_and_measured_in_characters() -> None:
    jieba = pytest.importorskip("jieba")
    text = "我们去公园散步吧,好吗?OK!"
    for lang in ("zh", "zh-Hant", "zh_TW"):
        tool = lemmatiser(lang)
        assert tool.split is not None and tool.name.startswith("jieba")
        kept = [t.lower() for t in jieba.lcut(text) if any(map(str.isalnum, t))]
        assert tool.split(text) == kept
        assert {"公园", "散步", "ok"} <= set(kept)
        assert unit_of(lang) == "characters"
    assert length("我们 去\n公园。", "characters") == 6


def test_words_are_what_stands_between_spaces() -> None:
    assert length("  Well, it's  a well-known\nfact… ", "words") == 5
    assert length("", "words") == length(" \n", "characters") == 0
    assert [unit_of(lang) for lang in ("en", "ko", "ja", "th", "und")] == [
        "words",
        "words",
        "characters",
        "characters",
        "words",
    ]


def test_a_language_without_lemma_table_says_so() -> None:
    pytest.importorskip("spacy_lookups_data")
    hindi, none_at_all = lemmatiser("hi"), lemmatiser("und")
    assert "words as they are" in hindi.name and "words as they are" in none_at_all.name
    assert hindi.split is not None and hindi.split("मैं ठीक हूँ।") == ["मैं", "ठीक", "हूँ"]
    assert none_at_all.split is not None and none_at_all.split("Ça VA ?") == ["ça", "va"]


def test_no_lemmas_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("spacy", "jieba", "spacy_lookups_data"):
        monkeypatch.setitem(sys.modules, name, None)
    plain = lemmatiser("de", lemmas=False)
    assert plain.split is not None
    assert plain.split("Die Häuser, e-mail und d’accord!") == [
        "die", "häuser", "e-mail", "und", "d’accord",
    ]  # fmt: skip
    chinese = lemmatiser("zh", lemmas=False)
    assert chinese.split is None and "no spaces" in chinese.name


@pytest.mark.parametrize("lang, package", [("en", "spacy"), ("zh", "jieba")])
def test_a_missing_package_is_named(
    lang: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=package) as caught:
        lemmatiser(lang)
    assert "medal-judges[lang]" in str(caught.value) and "--no-lemmas" in str(caught.value)


def test_an_installed_model_comes_before_the_table(
    tmp_path: Path,
) -> None:
    """A pipeline installed as pip installs one: a package with an entry point."""
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("attribute_ruler")
    ruler.add([[{"LOWER": "cats"}]], {"LEMMA": "FELINE"})
    package = tmp_path / "en_core_tiny_sm"
    package.mkdir()
    nlp.to_disk(package / "data")
    (package / "__init__.py").write_text(
        "from pathlib import Path\nfrom spacy.util import load_model_from_path\n"
        "def load(**options):\n"
        "    return load_model_from_path(Path(__file__).parent / 'data', **options)\n"
    )
    info = tmp_path / "en_core_tiny_sm-9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: en-core-tiny-sm\nVersion: 9.1\n")
    (info / "entry_points.txt").write_text("[spacy_models]\nen_core_tiny_sm = en_core_tiny_sm\n")
    code = (
        "from medal_judges.data_prep.corpus_stats.tokens import lemmatiser\n"
        "tool = lemmatiser('en')\nprint(tool.name)\nprint(*tool.split('Cats!'))"
    )  # in a process of its own: spaCy reads the entry points once
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    version = nlp.meta["version"]
    assert done.stdout == f"spaCy model en_core_tiny_sm {version}, lemmas\nfeline\n"
