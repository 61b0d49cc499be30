"""The checks of a GPU work: each in its small form, and what runs them, on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu import language
from gpu.check import CHECKS, SCRIPT
from gpu.measure import Setting


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """The small form, its models made once."""
    return Setting(tmp_path_factory.mktemp("models"), small=True)


# -- the checks -----------------------------------------------------------------------------------


def test_a_tree_reads_what_one_pass_each_reads(small: Setting) -> None:
    plain, tree = language.prefixes(small)
    assert (plain.state, tree.state) == ("done", "done")
    assert "mean nats from one pass each" in tree.said


@pytest.mark.slow  # a process and its imports for each check
def test_every_check_works_in_its_small_form(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    command = [sys.executable, str(SCRIPT), "--small", "--minutes", "60"]
    command += ["--results", str(results), "--models", str(tmp_path / "models")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(results.read_text("utf-8"))
    assert set(found) == set(CHECKS)
    for row in (row for each in found.values() for row in each["rows"]):
        excused = row["said"] == "needs a GPU" or "package missing" in row["said"]
        assert row["state"] == "done" or excused, row


# -- what runs them -------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
