"""Tokens and lemmas: spaCy's own answers, jieba for Chinese, and what is said of each."""

import pytest

from medal_judges.data_prep.corpus_stats.tokens import length, load_lemmatiser, unit_of

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
    expected = [
        t.lemma_.lower() for t in nlp(SENTENCES[lang]) if any(map(str.isalnum, t.text))
    ]
    tool = load_lemmatiser(lang)
    assert tool.split is not None
    assert tool.split(SENTENCES[lang]) == expected
    assert tool.split(SENTENCES[lang]) == expected  # from memory
    assert "spacy-lookups-data" in tool.name and spacy.__version__ in tool.name


def test_chinese_is_split_by_jieba_and_measured_in_characters() -> None:
    jieba = pytest.importorskip("jieba")
    text = "我们去公园散步吧,好吗?OK!"
    for lang in ("zh", "zh-Hant", "zh_TW"):
        tool = load_lemmatiser(lang)
        assert tool.split is not None and tool.name.startswith("jieba")
        kept = [t.lower() for t in jieba.lcut(text) if any(map(str.isalnum, t))]
        assert tool.split(text) == kept
        assert {"公园", "散步", "ok"} <= set(kept)
        assert unit_of(lang) == "characters"
    assert length("我们 去\n公园。", "characters") == 6
