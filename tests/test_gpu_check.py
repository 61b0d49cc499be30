"""The checks of a GPU work: each in its small form, and what runs them, on this machine."""

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from gpu import encoder, language
from gpu.checks import CHECKS
from gpu.driver import SCRIPT
from gpu.measure import (
    Outcome,
    Setting,
    outcome,
)

from medal_judges.storage.jsonl import Journal


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """The small form, its models made once."""
    return Setting(tmp_path_factory.mktemp("models"), small=True)


def lines(path: Path) -> list[Outcome]:
    return list(Journal(path).records(outcome))


# -- the checks -----------------------------------------------------------------------------------


def test_an_encoder_scores_and_so_does_its_bare_body(small: Setting) -> None:
    rows = list(islice(encoder.scoring(small, "ModernBERT-large"), 4))
    assert [row.state for row in rows] == ["done", "done", "not run", "done"]
    assert all(row.tokens_per_s for row in rows if row.state == "done")
    assert "from fp32" in rows[0].said and rows[2].said == "needs a GPU"


def test_a_tree_reads_what_one_pass_each_reads(small: Setting) -> None:
    plain, tree = language.prefixes(small)
    assert (plain.state, tree.state) == ("done", "done")
    assert "mean nats from one pass each" in tree.said


@pytest.mark.slow  # a process and its imports for each of seventeen checks
def test_every_check_works_in_its_small_form(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    command = [sys.executable, str(SCRIPT), "--small", "--minutes", "60"]
    command += ["--journal", str(journal), "--models", str(tmp_path / "models")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = {each.check: each for each in lines(journal)}
    assert set(found) == set(CHECKS)
    for row in (row for each in found.values() for row in each.rows):
        excused = row.said == "needs a GPU" or row.said.startswith("package missing")
        assert row.state == "done" or excused, row


# -- what runs them -------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
