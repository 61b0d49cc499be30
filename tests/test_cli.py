"""The command as it is started: help, version, errors without a traceback."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from medal_judges import __version__
from medal_judges.cli import COMMANDS, app


def module(*arguments: str, name: str = "medal_judges") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_package_runs_as_a_module() -> None:
    for name in ("medal_judges", "medal_judges.cli"):
        assert module("--version", name=name).stdout == f"medal-judges {__version__}\n"
    helped = module("--help")
    assert helped.returncode == 0
    for command in ("train", "score", "benchmark", "calibrate", "data"):
        assert command in helped.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_an_example_and_no_emoji_for_a_colon(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0, done.exception
    assert not re.search("[\U0001f100-\U0001faff]", done.output)  # rich makes one of `hf:ID:split`
    assert COMMANDS[name].example.startswith(f"medal {name}")


def test_no_help_loses_a_word_in_brackets_to_markup() -> None:
    def helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
        for parameter in command.params:
            yield name, getattr(parameter, "help", None) or ""
        for own, inner in getattr(command, "commands", {}).items():
            yield from helps(inner, f"{name} {own}")

    group: Any = get_command(app)
    commands = {name: group.get_command(None, name) for name in COMMANDS}
    real = {n: c.make_context(n, [], resilient_parsing=True).command for n, c in commands.items()}
    told = [pair for name, command in real.items() for pair in helps(command, name)]
    assert len(told) > 200
    for name, text in told:
        assert Text.from_markup(text).plain == text.replace("\\[", "["), name


@pytest.mark.parametrize("extra", [(), ("--debug",)])
def test_an_error_is_a_message_and_a_traceback_only_on_request(extra: tuple[str, ...]) -> None:
    done = module("score", "nowhere.jsonl", "--judge", "length", *extra)
    assert done.returncode != 0 and "no such file" in done.stderr
    assert ("Traceback" in done.stderr) == bool(extra)


@pytest.mark.parametrize("extra", [(), ("--debug",)])
def test_a_path_that_cannot_be_written_is_a_message(tmp_path: Path, extra: tuple[str, ...]) -> None:
    file = tmp_path / "file.jsonl"
    file.write_text("")
    done = module("data", "seeds", "--n", "1", "--out", str(file / "inside.jsonl"), *extra)
    assert done.returncode != 0 and str(file) in done.stderr
    assert ("Traceback" in done.stderr) == bool(extra)
    assert extra or done.stderr.startswith("error: ")
