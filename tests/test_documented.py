"""Every ``medal`` command of the documents and of the configs' comments is one that runs."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app, load_command
from medal_judges.config import load_config

from .walks import ROOT, WALKS, steps

# a config
LOADS = {"benchmark", "train", "generate", "data translate"}


class Loaded(Exception):
    """The command has its config; the rest would take hours."""


def documented() -> Iterator[tuple[str, list[str], bool]]:
    """(file and command, its words, whether it is whole: not inside a sentence or a walk)."""
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    for path in [*pages, *(ROOT / "configs").rglob("*.yaml")]:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        walked = "\n".join(step.shell for step in steps(text))
        found = [
            (c, True)
            for c in re.findall(r"^(?: {4}|#  +)medal (.+)$", text, re.MULTILINE)
        ]
        found += [(c, False) for c in re.findall(r"^medal (.+)$", walked, re.MULTILINE)]
        found += [(c, False) for c in re.findall(r"`medal ([a-z][^`\n]*)`", text)]
        for command, whole in found:
            words = shlex.split(command.replace("...", "x"), comments=True)
            ends = [
                i for i, word in enumerate(words) if re.match(r"[0-9]?>|[|;&<]", word)
            ]
            words = [
                word.rstrip(";,") for word in words[: min(ends, default=len(words))]
            ]
            yield f"{path.name}: {command}", words, whole and "$" not in command


def test_every_documented_command_parses_and_its_config_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(*given: Any, **how: Any) -> None:
        load_config(*given, **how)
        raise Loaded

    monkeypatch.chdir(tmp_path)
    # config comes last: a module that is first imported after it would keep the patch.
    homes = (
        "eval.benchmark.run",
        "training.run",
        "cli.generate",
        "cli.data_translate",
        "config",
    )
    for module in homes:
        monkeypatch.setattr(f"medal_judges.{module}.load_config", loaded)
    wrong, count = [], 0
    for where, words, whole in documented():
        known: Any = load_command(words[0])
        name, rest = words[0], words[1:]
        try:
            if rest and hasattr(known, "commands"):
                known, name, rest = (
                    known.commands[rest[0]],
                    f"{name} {rest[0]}",
                    rest[1:],
                )
            known.make_context(name, list(rest))
        except Exception as error:  # a sentence may leave arguments out
            if whole or type(error).__name__ in ("KeyError", "NoSuchOption"):
                wrong.append(f"{where}: {error!r}")
        if whole and name == "configs copy":  # a later command may load the copy
            CliRunner().invoke(app, words)
        if whole and name in LOADS:
            count += 1
            failure = CliRunner().invoke(app, words).exception
            wrong += [] if isinstance(failure, Loaded) else [f"{where}: {failure!r}"]
    assert not wrong, "\n".join(wrong)
    assert count > 15


@pytest.mark.slow
def test_documented_commands_with_a_dry_run_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "runs/medal_full").mkdir(parents=True)
    shutil.copy(WALKS / "labelled.jsonl", "chats.jsonl")
    shutil.copy(WALKS / "v1.jsonl", "runs/medal_full/dialogues.jsonl")
    shutil.copy(ROOT / "configs/prompts/medal.yaml", "mine_prompt.yaml")
    shutil.copy(ROOT / "configs/rubrics/medal.yaml", "mine.yaml")
    ran = 0
    for where, words, whole in documented():
        if whole and words[0] == "score" and "openai" in " ".join(words):
            done = CliRunner().invoke(app, [*words, *({"--dry-run"} - {*words})])
            assert done.exit_code == 0 or "TOKENS" in where, (where, done.exception)
            ran += 1
    assert ran > 3
