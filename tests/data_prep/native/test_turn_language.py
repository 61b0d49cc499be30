"""A translation in another language than asked for is a failed try."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from medal_judges.data_prep.native.translate_run import (
    TranslateReport,
    failed_path,
    translate_to_file,
    translations_of,
)
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import load_config
from medal_judges.data_prep.native.translation import TranslateConfig, Translator, TurnLanguage
from medal_judges.models.llm.loading import load_llm
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import Turn
from medal_judges.storage.jsonl import write_records

from .conftest import Running, row

Serve = Callable[..., Running]
SORRY = "I am sorry, but I cannot help you with this request."


@pytest.fixture(scope="module")
def language() -> TurnLanguage:
    pytest.importorskip("lingua")
    return TurnLanguage(["de", "zh", "sw", "no", "ja"])


@pytest.mark.parametrize(
    ("lang", "text", "fault"),
    [
        ("de", "Das war heute leider gar nicht so einfach.", None),
        ("de", SORRY, "is in English, not in German"),
        ("zh", SORRY, "is in English, not in Chinese"),
        ("zh", "我今天去了图书馆，借了两本书。", None),
        ("de", "我今天去了图书馆，借了两本书。", "is in Chinese, not in German"),
        ("de", f"Das war heute leider gar nicht so einfach. {SORRY}", "has English in it"),
        ("no", "Jeg har ikke sett henne siden i går kveld.", None),
        ("no", SORRY, "is in English, not in Norwegian"),
        ("de", "OK, sorry!", None),  # too short to tell
        ("de", "", None),
    ],
)
def test_a_turn_in_another_language(
    language: TurnLanguage, lang: str, text: str, fault: str | None
) -> None:
    assert language.fault(text, lang, Turn("user", "Whatever it was."), "en") == fault


def test_a_language_the_library_does_not_know_is_named(language: TurnLanguage) -> None:
    assert not language.unknown and TurnLanguage(["de", "tlh"]).unknown == ("tlh",)
    assert language.fault(SORRY, "tlh", Turn("user", "Hi"), "en") is None


def test_what_the_english_turn_holds_too_may_stay(language: TurnLanguage) -> None:
    japanese = "おはようございます、元気ですか"
    said = f"Das sagt man so: {japanese}. So beginnt der Tag in Tokio immer."
    told = Turn("user", f"You say it like this: {japanese}. That is how the day begins.")
    assert language.fault(said, "de", told, "en") is None
    assert language.fault(said, "de", Turn("user", "That is it."), "en") == "has Japanese in it"


@pytest.mark.parametrize("style", ["whole", "turns"])
def test_an_apology_is_a_failed_try_with_its_reason(
    serve: Serve, tmp_path: Path, language: TurnLanguage, style: str
) -> None:
    running, out, report = serve(), tmp_path / "t.jsonl", TranslateReport()
    plain = load_config(TranslateConfig, "native/translate")
    config = plain.model_copy(update={"llm": running.llm, "style": style})
    by = Translator(config, load_llm(running.llm), language)
    rows = [row("g1", "en", "SORRY HEALS", "Ho"), row("g2", "en", "SORRY"), row("g3", "en", "HALF")]
    translate_to_file(translations_of(rows, ["de"], report), by, out, report)
    (kept,) = read_labelled(out)
    assert (kept.group, kept.extra["language_checked"]) == ("g1", True)
    assert kept.dialogue.turns[0].content == "[German] SORRY HEALS"
    apology, mixed = "turn 1 (user) is in English, not in German", "turn 1 (user) has English in it"
    assert report.failures == {apology: 1, mixed: 1}
    assert [r.extra["tries"] for r in read_labelled(failed_path(out))] == [3, 3]
    told = [r["messages"][-1]["content"] for r in running.requests()]
    assert sum(f"could not be used: {apology}" in prompt for prompt in told) == 1 + 2


@pytest.mark.parametrize("way", ["installed", "missing", "off"])
def test_the_command_checks_and_says_where_it_cannot(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "installed":
        pytest.importorskip("lingua")
    if way == "missing":
        monkeypatch.setitem(sys.modules, "lingua", None)
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_records(source, [row("g", "en", "SORRY")])
    setting = ["check_language=false"] if way == "off" else []
    command = ["data", "translate", str(source), f"llm={json.dumps(serve().llm)}", *setting]
    targets = [word for lang in ("de", "sw", "bn", "ur") for word in ("--to", lang)]
    result = CliRunner().invoke(app, [*command, *targets, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert ("NOT checked" in result.output) == (way == "missing")
    assert ("medal-judges[lang]" in result.output) == (way == "missing")
    found = [r.extra["language_checked"] for r in read_labelled(out)] if out.exists() else []
    assert found == ([] if way == "installed" else [False] * 4)
