"""Bad rows: what is left out is uncovered, counted against the floor, and listed whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from medal_judges.errors import CoverageError

from ..conftest import medal

JUDGE = "configs/judges/repetition.yaml"
BAD = '{"id": "broken", "dialogue": [{"role": "bot", "content": "x"}]}'


def lines(count: int, bad: int) -> str:
    """``count`` lines, the last ``bad`` of them broken."""
    turns = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello you"},
    ]
    good = [json.dumps({"id": f"d{n}", "dialogue": turns}) for n in range(count - bad)]
    return "\n".join([*good, *[BAD] * bad]) + "\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_lines_left_out_are_uncovered_and_all_listed(tmp_path: Path, name: str) -> None:
    source, out = written(tmp_path, name, lines(500, 40)), tmp_path / "out.jsonl"
    asked = ("score", source, "--judge", JUDGE, "--out", out)
    for again in range(2):  # the second run has nothing left to judge and says the same
        done = medal(*asked)
        assert (
            isinstance(done.exception, CoverageError) and done.exception.exit_code == 3
        ), again
        assert "coverage 92.0%" in done.stderr and "40 bad rows left out" in done.stderr
        assert "40 x bad line left out" in str(done.exception)
        listed = (tmp_path / "out.skipped.jsonl").read_text().splitlines()
        assert [json.loads(line)["line"] for line in listed] == list(range(461, 501))
        assert all(
            "dialogue[0].role" in line and str(source) in line for line in listed
        )
    assert medal(*asked, "--min-coverage", 0.9).exit_code == 0
