"""The command as it is started: help, version, errors without a traceback."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from medal_judges import __version__
from medal_judges.cli import COMMANDS, app, load_command, main

from .forked import medal


def module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "medal_judges", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_package_runs_as_a_module() -> None:
    assert module("--version").stdout == f"medal-judges {__version__}\n"
    helped = module("--help")
    assert helped.returncode == 0
    for command in ("train", "score", "benchmark", "align", "data"):
        assert command in helped.stdout


def _commands() -> Iterator[tuple[str, Any]]:
    """(words, command) of every command and subcommand."""
    for name in COMMANDS:
        command = load_command(name)
        for word, each in {"": command, **getattr(command, "commands", {})}.items():
            yield f"{name} {word}".strip(), each


def test_help_shows_each_option_and_an_example() -> None:
    for words, command in _commands():
        text = CliRunner().invoke(app, [*words.split(), "--help"]).output
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("-") or option in text, (words, option)
        is_group = hasattr(command, "commands")
        assert is_group or f"Example: medal {words}" in " ".join(text.split()), words


def test_help_and_the_package_load_no_torch() -> None:
    code = """
import sys, medal_judges
from medal_judges.cli import app
try:
    app(["--help"])
except SystemExit:
    pass
assert not {"torch", "transformers", "pandas", "rich"} & set(sys.modules), sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("extra", [(), ("--debug",)])
def test_an_error_is_a_message_and_a_traceback_only_on_request(
    extra: tuple[str, ...], tmp_path: Path
) -> None:
    done = medal(*extra, "score", "nowhere.jsonl", "--judge", "length")
    assert done.returncode != 0 and "no such file" in done.stderr
    assert ("Traceback" in done.stderr) == bool(extra)
    (tmp_path / "file").write_text("")
    inside = tmp_path / "file" / "inside.jsonl"  # cannot be written
    done = medal(*extra, "data", "seeds", "--n", "1", "--out", inside)
    assert done.returncode != 0 and str(inside.parent) in done.stderr
    assert ("Traceback" in done.stderr) == bool(extra)


def test_a_disk_that_fills_while_weights_are_written_is_a_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    resource = pytest.importorskip("resource", reason="limits of POSIX")
    tensors = {"a": torch.zeros(100_000)}

    def fail() -> None:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            save_file(tensors, tmp_path / "model.safetensors")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, before)

    monkeypatch.setattr("medal_judges.cli.app", fail)
    monkeypatch.setattr("sys.argv", ["medal"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "Free some space and type the same command again" in capsys.readouterr().err
