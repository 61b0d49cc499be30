"""Translation through a real server process: the same turns and roles, or a reason why not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import load_config
from medal_judges.data_prep.native.translate_run import (
    TranslateReport,
    failed_path,
    translate_to_file,
    translations_of,
)
from medal_judges.data_prep.native.translation import TranslateConfig, Translator
from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.llm.cost import CostLimitError
from medal_judges.models.llm.loading import load_llm
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records

from .conftest import Running, row

Serve = Callable[..., Running]


def translator(running: Running, **settings: Any) -> Translator:
    plain = load_config(TranslateConfig, "native/translate")
    config = plain.model_copy(update={"llm": running.llm} | settings)
    return Translator(config, load_llm(running.llm))


def run(
    rows: Sequence[LabelledDialogue], by: Translator, out: Path, langs: Sequence[str] = ("de",)
) -> tuple[list[LabelledDialogue], TranslateReport]:
    report = TranslateReport()
    translate_to_file(translations_of(rows, langs, report), by, out, report)
    return list(read_labelled(out)), report


@pytest.mark.parametrize("style", ["whole", "turns"])
def test_structure_speakers_and_context_are_kept(serve: Serve, tmp_path: Path, style: str) -> None:
    source = [row("g1", "en", "Hi {dialogue}", "user: hello", ""), row("g2", "en", 'Bye "x"\n}')]
    by = translator(serve(), style=style)
    found, report = run(source, by, tmp_path / "t.jsonl", ["de", "zh"])
    assert [r.id for r in found] == [
        "g1-en--ann--bot--in-de",
        "g1-en--ann--bot--in-zh",
        "g2-en--ann--bot--in-de",
        "g2-en--ann--bot--in-zh",
    ]
    one = found[1]
    assert [(t.role, t.content) for t in one.dialogue.turns] == [
        ("user", "[Chinese] Hi {dialogue}"),
        ("assistant", "[Chinese] user: hello"),
        ("user", ""),
    ]
    same = ("models", "context")
    assert all(getattr(one.dialogue, f) == getattr(source[0].dialogue, f) for f in same)
    assert (one.group, one.split, one.dialogue.lang) == ("g1", "train", "zh")
    assert one.dialogue.source == "medal-translated" and not one.labels
    assert one.extra["translated_from"] == source[0].id
    assert one.extra["translated_by"] == str(by.signature())
    assert (
        report.written == 4
        and not report.failures
        and not failed_path(tmp_path / "t.jsonl").exists()
    )


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("DROP", "the entry '2_assistant' is missing"),
        ("ADD", "there is an entry '9_user' that was not asked for"),
        ("EMPTY", "turn 1 (user) is empty"),
        ("DOTS", "turn 1 (user) has no word in it"),
        ("NUMBER", "turn 1 (user) is not a text"),
        ("LEAVE", "turn 1 (user) was left in the original language"),
        ("PROSE", "the answer is not one JSON object and nothing else"),
    ],
)
def test_another_structure_is_a_failure_with_its_reason(
    serve: Serve, tmp_path: Path, word: str, reason: str
) -> None:
    running = serve()
    source = [row("g1", "en", f"one two three four {word}", "Fine."), row("g2", "en", "Hi", "Ho")]
    found, report = run(source, translator(running), tmp_path / "t.jsonl")
    assert [r.group for r in found] == ["g2"] and report.failures == {reason: 1}
    assert len(running.requests()) == 3 + 1  # three tries, and the other dialogue
    told = [r["messages"][-1]["content"] for r in running.requests()]
    assert sum(f"could not be used: {reason}" in prompt for prompt in told) == 2
    (lost,) = read_labelled(failed_path(tmp_path / "t.jsonl"))
    assert lost.extra["failure"] == reason and lost.extra["tries"] == 3 and lost.extra["to"] == "de"


def test_a_second_try_told_the_reason_can_succeed(serve: Serve, tmp_path: Path) -> None:
    found, report = run(
        [row("g1", "en", "DROP but HEALS", "Fine.")], translator(serve()), tmp_path / "t.jsonl"
    )
    assert found[0].extra["tries"] == 2 and not report.failures
    assert len(found[0].dialogue.turns) == 2


def test_what_the_backend_could_not_get_is_not_asked_again(serve: Serve, tmp_path: Path) -> None:
    running = serve()
    _, report = run([row("g", "en", "REFUSE this")], translator(running), tmp_path / "t.jsonl")
    assert len(running.requests()) == 1
    assert "breaks the rules" in str(report.failures)


def test_turn_by_turn_shows_the_dialogue_and_what_is_translated(
    serve: Serve, tmp_path: Path
) -> None:
    running = serve()
    texts = ("Hi there", "Ho there", "So long")
    run([row("g", "en", *texts)], translator(running, style="turns"), tmp_path / "t.jsonl")
    first, second, third = (r["messages"][-1]["content"] for r in running.requests())
    assert "So far" not in first and "The turn: user: Hi there" in first
    assert "So far, in German: user: [German] Hi there" in second
    assert "assistant: [German] Ho there" in third and "user: So long" in first
    schema = running.requests()[0]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["translation"]


def test_the_schema_names_each_turn_and_its_role(serve: Serve, tmp_path: Path) -> None:
    running = serve()
    run([row("g", "en", "a", "b", "c")], translator(running), tmp_path / "t.jsonl")
    schema = running.requests()[0]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["1_user", "2_assistant", "3_user"]
    assert schema["additionalProperties"] is False


def test_other_languages_and_bad_targets(serve: Serve, tmp_path: Path) -> None:
    rows = [row("g", "fr", "Salut"), row("g", "en", "Hi")]
    _, report = run(rows, translator(serve()), tmp_path / "t.jsonl")
    assert report.skipped == 1 and report.written == 1
    for langs in ([], ["de", "de"], ["en"], ["tlh"]):
        with pytest.raises(ConfigError):
            list(translations_of(rows, langs, TranslateReport()))


def test_a_stopped_run_resumes_and_asks_nothing_twice(serve: Serve, tmp_path: Path) -> None:
    running, out = serve(), tmp_path / "t.jsonl"
    rows = [row(f"g{i}", "en", f"Hi {i}", "Ho") for i in range(6)]
    whole, _ = run(rows, translator(running), tmp_path / "whole.jsonl")
    run(rows[:4], translator(running), out)
    text = out.read_text()
    out.write_text(text[: len(text) - 20])  # a kill in the middle of the fourth line
    before = len(running.requests())
    found, report = run(rows, translator(running, at_once=2), out)
    assert found == whole and out.read_text() == (tmp_path / "whole.jsonl").read_text()
    assert (report.earlier, report.written) == (3, 3)
    assert len(running.requests()) - before == 3


def test_a_file_of_another_translator_is_left_alone(serve: Serve, tmp_path: Path) -> None:
    running, out = serve(), tmp_path / "t.jsonl"
    run([row("g", "en", "Hi")], translator(running), out)
    text = out.read_text()
    with pytest.raises(MedalError, match="holds translations by"):
        run([row("g", "en", "Hi")], translator(running, temperature=0.5), out)
    assert out.read_text() == text


def test_a_compressed_file_is_resumed_too(serve: Serve, tmp_path: Path) -> None:
    running, out = serve(), tmp_path / "t.jsonl.gz"
    rows = [row(f"g{i}", "en", f"Hi {i}") for i in range(3)]
    run(rows[:2], translator(running), out)
    found, report = run(rows, translator(running), out)
    assert [r.group for r in found] == ["g0", "g1", "g2"] and len(running.requests()) == 3
    assert (report.earlier, report.written) == (2, 1)


def test_killed_with_sigkill_and_resumed(serve: Serve, tmp_path: Path) -> None:
    running = serve(delay=0.15)
    rows = [row(f"g{i}", "en", f"Hi {i}", "Ho") for i in range(16)]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_records(source, rows)
    settings = [f"llm={json.dumps({**running.llm, 'max_in_flight': 2})}", "at_once=2"]
    command = ["data", "translate", str(source), *settings, "--to", "de", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "medal_judges", *command], env=dict(os.environ)
    )
    deadline = time.time() + 60
    while time.time() < deadline and (not out.exists() or out.read_text().count("\n") < 4):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = [r.id for r in read_labelled(out)]
    assert 4 <= len(kept) < 16
    asked = len(running.requests())
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert [r.group for r in read_labelled(out)] == [r.group for r in rows]
    assert len(running.requests()) - asked == 16 - len(kept)
    assert f"{len(kept)} were there before" in result.output


def test_command_filters_estimates_and_limits(serve: Serve, tmp_path: Path) -> None:
    running = serve()
    source = tmp_path / "in.jsonl"
    write_records(source, [row("g", "en", "Hi", "Ho", bot=bot) for bot in ("bot", "other")])
    command = [
        "data",
        "translate",
        str(source),
        f"llm={json.dumps(running.llm)}",
        "--to",
        "de",
        "--to",
        "fr",
    ]
    command += ["--out", str(tmp_path / "out.jsonl"), "--chatbot", "other"]
    dry = CliRunner().invoke(app, [*command, "--dry-run"])
    assert dry.exit_code == 0 and "2 dialogues: 2 requests" in dry.output, dry.output
    turns = CliRunner().invoke(app, [*command, "--dry-run", "style=turns"])
    assert "2 dialogues: 4 requests" in turns.output and not running.requests()
    prices = tmp_path / "prices.yaml"
    text = "{date: 2026-11-01, source: us, models: {gpt-4.1: {input: 2, output: 8}}}"
    prices.write_text(text.replace("2026-11-01", "'2026-11-01'"))
    done = CliRunner().invoke(app, [*command, "--max-cost", "1", f"llm.prices={prices}"])
    assert done.exit_code == 0 and "2 dialogues written" in done.output, done.output
    assert "2 requests, 100 tokens in and 40 out, $0.0005" in done.output
    assert {r.dialogue.chatbot for r in read_labelled(tmp_path / "out.jsonl")} == {"other"}
    less = [*command, "--max-cost", "0.0001", f"llm.prices={prices}", "--overwrite"]
    assert isinstance(CliRunner().invoke(app, less).exception, CostLimitError)
    assert len(list(read_labelled(tmp_path / "out.jsonl"))) == 2  # nothing took its place
    other = [*command, "llm=embedded:smollm2", "--max-cost", "1"]
    assert isinstance(CliRunner().invoke(app, other).exception, ConfigError)
