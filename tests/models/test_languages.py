"""A judge states its languages; dialogues in others are warned of and counted, or refused."""

import json
import logging
from pathlib import Path

import pytest
import yaml

from medal_judges import Dialogue, Judge, Turn
from medal_judges.models.base.judge import Judge as Base
from medal_judges.models.hybrid.judge import HybridJudge
from medal_judges.records.judgement import parse_judgement

from ..talks import alike

SAID = {
    "en": (
        "Where did you go on holiday last summer?",
        "We went to the lake with my two sisters.",
    ),
    "zh": ("你去年夏天去哪里度假了？", "我和我的两个姐妹一起去了湖边，非常开心。"),
    "ar": ("أين ذهبت في عطلة الصيف الماضي؟", "ذهبنا إلى البحيرة مع أختي الاثنتين."),
    "ja": ("去年の夏休みはどこに行きましたか？", "二人の姉妹と一緒に湖に行きました。"),
}


def chat(lang: str, stated: bool = True) -> Dialogue:
    user, assistant = SAID[lang]
    turns = (Turn("user", user), Turn("assistant", assistant))
    name = lang if stated else f"{lang}-unstated"
    return Dialogue(name, turns, lang=lang) if stated else Dialogue(name, turns)


def judge(tmp_path: Path, languages: object = ("en",)) -> Base:
    settings = yaml.safe_load(Path("configs/judges/length.yaml").read_text())
    path = tmp_path / "english.yaml"
    stated = list(languages) if isinstance(languages, tuple) else languages
    path.write_text(yaml.safe_dump(settings | {"languages": stated}))
    return Judge.from_pretrained(path)


def test_what_is_outside_is_scored_with_a_warning_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = judge(tmp_path)
    with caplog.at_level(logging.WARNING):
        found = list(made.score([chat("en"), chat("zh"), chat("ar")], level="turn"))
    assert all(j.scored for j in found)
    assert [j.unknown_language for j in found] == [None, "zh", "ar"]
    assert "zh (1), ar (1). It supports en" in caplog.text
    for judgement in found:
        record = judgement.to_record()
        assert alike(
            parse_judgement(json.loads(json.dumps(record))).to_record(), record
        )


def test_a_language_that_is_not_stated_is_detected(tmp_path: Path) -> None:
    pytest.importorskip("lingua")
    found = list(judge(tmp_path).score([chat(lang, stated=False) for lang in SAID]))
    assert [j.unknown_language for j in found] == [None, "zh", "ar", "ja"]
    short = Dialogue("s", (Turn("user", "Hm"), Turn("assistant", "OK")))
    (told,) = judge(tmp_path).score([short])
    assert told.unknown_language is None  # too short to tell
    assert told.detected_language is None


def test_languages_are_saved_with_the_judge_and_shared_by_a_hybrid(
    tmp_path: Path,
) -> None:
    folder = judge(tmp_path, ("de", "en")).save_pretrained(tmp_path / "saved")
    assert Judge.from_pretrained(folder).languages == ("de", "en")
    other = judge(tmp_path, ("en", "fr"))
    settings = {
        "family": "hybrid",
        "name": "both",
        "rubric": "overall",
        "dimensions": {"overall": {"a": 1, "b": 1}},
    }
    members = {
        "a": {"path": str(folder)},
        "b": {"path": str(tmp_path / "english.yaml")},
    }
    path = tmp_path / "both.yaml"
    path.write_text(json.dumps(settings | {"members": members}))
    both = Judge.from_pretrained(path)
    assert (
        isinstance(both, HybridJudge) and both.languages == ("en",) and other.languages
    )
    saved = both.save_pretrained(tmp_path / "both")
    again = Judge.from_pretrained(saved, b={"path": str(tmp_path / "english.yaml")})
    assert again.languages == ("en",)
