"""Names out of files never command the terminal: escape sequences are spelled out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RED = "\x1b[31m"
ROW = {
    "id": f"a{RED}",
    "lang": "en",
    "dialogue": [
        {"role": "user", "content": f"hi {RED}"},
        {"role": "assistant", "content": f"hello {RED}"},
    ],
    "models": {"assistant": f"bot{RED}"},
    "labels": {f"overall{RED}": [3]},
}
LANG = {**ROW, "lang": f"{RED}de"}
TURN = {**ROW, "dialogue": [{"role": f"user{RED}", "content": "hi"}]}


@pytest.mark.parametrize("row", [ROW, LANG, TURN], ids=["names", "lang", "role"])
def test_no_command_prints_an_escape_sequence_of_a_file(
    row: dict[str, object], tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    commands = (
        ("score", str(path), "--judge", "length", "--out", str(tmp_path / "scores.jsonl")),
        ("data", "audit", str(path)),
        ("data", "stats", str(path), "--out", str(tmp_path / "stats")),
        ("agreement", str(path), "--out", str(tmp_path / "agreement")),
    )
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "medal_judges", *command], capture_output=True, text=True
        )
        assert (done.returncode == 0) == (row is ROW), done.stderr
        printed = done.stdout + done.stderr
        assert printed and "\x1b" not in printed
    if row is ROW:
        assert "\\x1b[31m" in printed
