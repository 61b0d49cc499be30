"""The help of every command and subcommand, in one process and without any file of a checkout."""

from __future__ import annotations

from typer.testing import CliRunner

from medal_judges.cli import COMMANDS, app, load_command

for name in COMMANDS:
    inner = getattr(load_command(name), "commands", {})
    for words in ((name,), *((name, each) for each in inner)):
        done = CliRunner().invoke(app, [*words, "--help"])
        assert done.exit_code == 0, (words, done.output, done.exception)
        print("medal", *words, "--help")
