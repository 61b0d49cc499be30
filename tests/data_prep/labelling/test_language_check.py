"""Languages of turns: hand-made examples in six languages, and the ten of xDial-Eval."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lingua", reason="lingua is in the extra lang")

from medal_judges.data_prep.labelling.language_check import (
    SHORT,
    UNKNOWN,
    LanguageChecker,
    plain,
)
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, Dialogue, Turn

# Names, titles, links, code and loan words: what a native speaker writes.
OWN = [
    ("de", 'Gestern habe ich "The Lord of the Rings" zum dritten Mal gesehen, kennst du den Film?'),
    ("de", "Schau mal: https://www.example.com/how-to-bake-the-best-bread und sag, was du denkst."),
    ("de", "Wir waren in New York City am Times Square und danach im Museum of Modern Art."),
    ("de", "Ich programmiere: `for item in list: print(item)` funktioniert aber nicht."),
    ("de", "Das Meeting im Homeoffice war ein totaler Flop, mein Chef hat nur gechillt."),
    ("fr", "J'ai adoré « The Great Gatsby », mais le film m'a un peu déçue."),
    ("fr", "On a mangé un brunch au Hard Rock Cafe avec des cookies et un milkshake."),
    ("es", "Me encanta la serie 'Game of Thrones' y también 'Breaking Bad', ¿y a ti?"),
    ("es", "El señor João da Silva me contó que vive en São Paulo desde hace años."),
    ("pt", "Estou lendo 'Cien años de soledad' do García Márquez e estou gostando muito."),
    ("pt", "Você já experimentou paella? Comi uma em Barcelona no verão passado."),
    ("zh", "我昨天用iPhone看了YouTube上的视频，内容是关于Harry Potter的。"),
    ("zh", "我最喜欢的电影是《The Shawshank Redemption》，你看过吗？"),
    ("zh", "这家店叫优の良品，东西很便宜。"),
    ("en", "We visited the Musée d'Orsay and the Sacré-Cœur when we were in Paris."),
    ("en", "I ordered pho (phở) and tom yum (ต้มยำ) for dinner."),
    ("ja", "昨日、友達とスターバックスで「How to Win Friends」という本について話しました。"),
]
FOREIGN = [
    ("de", "en", "Ich weiß nicht genau, was ich tun soll. What do you think about it?"),
    ("de", "en", "Ich habe so viel gearbeitet that I cannot keep my eyes open anymore."),
    ("de", "zh", "Das ist 非常 wichtig für mich."),
    ("fr", "en", "Je suis vraiment fatigué ce soir, but I still have to finish my homework."),
    ("fr", "es", "Hola, ¿cómo estás? Quería contarte lo que me pasó ayer en el trabajo."),
    ("es", "pt", "Estou muito cansado hoje, não dormi nada ontem à noite."),
    ("pt", "es", "Me gustaría mucho saber qué piensas tú sobre este tema tan complicado."),
    ("pt", "de", "Eu gosto muito dessa ideia, ich freue mich schon auf morgen Abend."),
    ("zh", "en", "我今天很累，but I still want to go out with my friends tonight。"),
    ("zh", "ja", "今天天气很好，散歩に行きましょうか。"),
    ("en", "zh", "That sounds great! 我们明天去吧。"),
    ("ja", "zh", "我今天很累，但是还是想和朋友一起出去吃晚饭。"),
    ("ko", "zh", "오늘은 정말 피곤해요. 我想回家睡觉。"),
]


@pytest.fixture(scope="module")
def checker() -> LanguageChecker:
    return LanguageChecker(("zh", "en", "de", "fr", "pt", "es", "ko", "ja"))


def checked(checker: LanguageChecker, lang: str, text: str) -> dict[str, Any]:
    return checker.turn(text, lang)


@pytest.mark.parametrize(("lang", "text"), OWN)
def test_names_titles_links_and_code_are_no_other_language(
    checker: LanguageChecker, lang: str, text: str
) -> None:
    found = checked(checker, lang, text)
    assert found["mixed"] is False and not found["foreign"] and lang in found["languages"]


@pytest.mark.parametrize(("lang", "other", "text"), FOREIGN)
def test_foreign_sentences_clauses_and_characters_are_found(
    checker: LanguageChecker, lang: str, other: str, text: str
) -> None:
    found = checked(checker, lang, text)
    assert found["mixed"] is True and found["reason"] is None
    assert other in {each["lang"] for each in found["foreign"]}


def test_no_verdict_has_a_reason(checker: LanguageChecker) -> None:
    assert checked(checker, "de", "Ok!")["reason"] == SHORT
    assert checked(checker, "de", "")["reason"] == SHORT
    assert checked(checker, "de", "https://example.com")["reason"] == SHORT
    assert checked(checker, UNKNOWN_LANGUAGE, "Hello, how are you?")["reason"] == UNKNOWN
    unknown = checked(checker, "xx", "Hello, how are you today?")
    assert unknown["mixed"] is None and "xx" in unknown["reason"]
    assert checked(checker, "zh", "好的")["mixed"] is False  # two characters are enough here


def test_sides_are_told_apart(checker: LanguageChecker) -> None:
    turns = (
        Turn("user", "Ich möchte heute Abend etwas Gutes kochen."),
        Turn("assistant", "Sure, what would you like to cook tonight?"),
        Turn("user", "Ok."),
    )
    found = checker.check(Dialogue("d", turns, "de"))
    assert (found["user"]["mixed"], found["assistant"]["mixed"]) == (False, True)
    assert found["assistant"] == {"mixed": True, "reason": None}
    assert found["turns"][1]["foreign"][0]["lang"] == "en"
    silent = checker.check(Dialogue("d", turns[2:], "de"))
    assert silent["user"] == {"mixed": None, "reason": SHORT}
    assert silent["assistant"]["reason"] == "no turn"


def test_quotation_marks_around_a_whole_turn_are_no_quotation() -> None:
    assert plain('"what should we do now?"').strip().startswith("what should we do")
    assert "lord" not in plain('I saw "the lord of the rings" today.')


@pytest.mark.skipif(
    "MEDAL_JUDGES_DATA" not in os.environ, reason="needs MEDAL_JUDGES_DATA, the human-rated sets"
)
def test_hardly_any_turn_of_ten_languages_is_called_foreign() -> None:
    path = Path(os.environ["MEDAL_JUDGES_DATA"]) / "xdial_fed_dialogue.jsonl.gz"
    rows = [r.dialogue for r in read_labelled(path)]
    rows = [d for i, d in enumerate(rows) if i % 5 == 0]
    checker = LanguageChecker(sorted({d.lang for d in rows}))
    turns, alarms, silent = Counter[str](), Counter[str](), Counter[str]()
    for dialogue in rows:
        for turn in checker.check(dialogue)["turns"]:
            turns[dialogue.lang] += 1
            alarms[dialogue.lang] += turn["mixed"] is True
            silent[dialogue.lang] += turn["mixed"] is None
    assert len(turns) == 10
    for lang, count in turns.items():
        assert alarms[lang] <= 0.01 * count and silent[lang] <= 0.3 * count
