"""The checks of a GPU work: each in its small form, and what runs them, on this machine."""

import os
import runpy
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
import torch
from gpu import encoder, language
from gpu.checks import CHECKS
from gpu.driver import SCRIPT
from gpu.measure import (
    Outcome,
    Setting,
    forward_flops,
    outcome,
)
from gpu.models import ARCHITECTURES, dialogues, layers_that_fit

from medal_judges.storage.jsonl import Journal

from .forked import Forked

no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="for machines without a GPU"
)


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


@no_gpu
def test_without_a_gpu_one_sentence_says_so() -> None:
    def check() -> None:
        sys.argv = [str(SCRIPT)]
        runpy.run_path(str(SCRIPT), run_name="__main__")

    process = Forked(check)
    out, err = process.communicate()
    assert process.returncode == 2 and out == ""
    assert err.startswith("gpu-check: there is no GPU here")
    assert len(err.strip().splitlines()) == 1


def test_operations_are_those_of_the_weights() -> None:
    from transformers import AutoModel

    for about in ARCHITECTURES.values():
        config = about.config(about.small)
        with torch.device("meta"):
            network = AutoModel.from_config(config)
        linear = sum(
            m.weight.numel()
            for m in network.modules()
            if isinstance(m, torch.nn.Linear)
        )
        weights = forward_flops(config, 1) - forward_flops(config, 0)
        assert forward_flops(config, 0) == pytest.approx(2 * linear)
        assert weights > 0  # attention grows with the sequence


def test_the_shapes_are_those_of_the_released_models() -> None:
    from transformers import AutoModel

    billions = {
        "ModernBERT-base": 0.149,
        "ModernBERT-large": 0.395,
        "mmBERT-base": 0.307,
    }
    for name, size in (billions | {"Qwen3-4B": 4.02}).items():
        about = ARCHITECTURES[name]
        with torch.device("meta"):
            network = AutoModel.from_config(about.config(about.sizes))
        count = sum(parameter.numel() for parameter in network.parameters()) / 1e9
        assert count == pytest.approx(size, rel=0.02), name
    whole = ARCHITECTURES["Qwen3-4B"].sizes
    assert layers_that_fit(whole, 139 * 2**30) == 36
    assert 2 < layers_that_fit(whole, 40 * 2**30) < 36
    assert len({len(d.turns) for d in dialogues(8, (20, 400))}) > 2
