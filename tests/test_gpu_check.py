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
from gpu.driver import SCRIPT, device_name, run_all, run_check, versions
from gpu.measure import (
    Agreement,
    Outcome,
    Row,
    Setting,
    attempt,
    forward_flops,
    outcome,
)
from gpu.models import ARCHITECTURES, dialogues, layers_that_fit
from gpu.report import tables

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


def kept_outcome(check: str, row: Row) -> Outcome:
    """A line of this machine's journal."""
    state = row.state
    return Outcome(
        check, "small", device_name(), versions(), "2026-01-01", 1.0, state, "", [row]
    )


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


def test_a_check_over_its_limit_is_ended(small: Setting) -> None:
    found = run_check("agreement", small, device_name(), 0.3)
    assert (
        found.state == "failed" and found.said == "ended after 0 s" and found.rows == []
    )


def test_what_is_done_is_not_done_again_and_the_status_tells(
    small: Setting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).append([kept_outcome("agreement", Row("x"))])
    assert run_all(["agreement"], small, path, 0) == 0
    assert "agreement: done before" in capsys.readouterr().out
    assert run_all(["agreement", "lora"], small, path, 0) == 3
    assert "the time was up before lora" in capsys.readouterr().out
    wrong = Agreement("from the CPU's", 0.2, 1e-4).row()
    Journal(path).append([kept_outcome("lora", wrong)])
    assert run_all(["agreement", "lora"], small, path, 0) == 1
    assert run_all(["agreement"], small, path, 0, fresh=True) == 3
    other = kept_outcome("qlora", Row("x")).to_record() | {"device": "another GPU"}
    Journal(path).append([other])
    # done on another device is not done here
    assert run_all(["qlora"], small, path, 0) == 3
    assert len(lines(path)) == 3


def test_a_row_says_why_it_was_not_run() -> None:
    def full() -> Row:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    def broken() -> Row:
        raise ValueError("shapes do not match")

    assert attempt("a", full) == Row("a", "not run", said="out of memory")
    missing = attempt("b", full, ("no_such_package",))
    assert missing == Row("b", "not run", said="package missing: no_such_package")
    failed = attempt("c", broken)
    assert failed.state == "failed" and "shapes do not match" in failed.said
    assert Agreement("x", float("nan"), 1.0).row().state == "failed"


def test_the_document_holds_the_newest_rows_and_says_what_was_not_run(
    tmp_path: Path,
) -> None:
    row = Row(
        "plain", tokens_per_s=12345.6, share=0.414, memory_gib=71.26, said="a | b"
    )
    record = kept_outcome("lora", row).to_record() | {"form": "full", "device": "A GPU"}
    older = record | {"rows": []}
    path = tmp_path / "journal.jsonl"
    Journal(path).append(
        [older, record, kept_outcome("prefix", Row("tree")).to_record()]
    )
    rows, runs = tables(CHECKS, lines(path))
    assert [
        "LoRA on Qwen3-4B (`lora`)",
        "plain",
        "12,346",
        "41%",
        "71.3",
        "a / b",
    ] in rows
    # its row is of a CPU's small form
    of_cpu = [row for row in rows if "`prefix`" in row[0]]
    assert of_cpu == [
        ["Follow-ups on Qwen3-4B, bf16 (`prefix`)", "", "", "", "", "not run"]
    ]
    assert len(rows) == 1 + len(CHECKS) and {len(row) for row in rows} == {6}
    ((day, device, told, names),) = runs[1:]
    assert (day, device, names) == ("2026-01-01", "A GPU", "lora") and "torch" in told
    assert tables(CHECKS, [])[1][1][1] == "no run on a GPU yet"


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
