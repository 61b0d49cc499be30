"""A training killed half-way and typed again ends at the same judge as an unbroken one."""

import json
import pickle
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import read_yaml
from medal_judges.errors import MedalError
from medal_judges.training.checkpoints import checkpoint_to_resume

from ..conftest import WORDS
from ..forked import start
from ..talks import write_rated

SHORT = ("args.num_train_epochs=1",)


def write_rows(path: Path, count: int, seed: int) -> str:
    """Dialogues whose assistant speaks of the first half of the words (label 1) or the other."""
    rng, rows = random.Random(seed), []
    for number in range(count):
        label, texts = number % 2, []
        for _ in range(rng.randint(2, 5)):
            texts.append(" ".join(rng.sample(WORDS, 4)))
            texts.append(" ".join(rng.sample(WORDS[:6] if label else WORDS[6:], 5)))
        rows.append((texts, {"repetitive": label, "overall": 5 - 4 * label}))
    return write_rated(path, rows)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A run of 4 epochs of 10 steps with dropout, shuffling and a checkpoint every 7 steps."""
    tmp_path = tmp_path_factory.mktemp("run")
    settings = {
        "name": "tiny",
        "output_dir": str(tmp_path / "unset"),
        "rubric": "medal",
        "seed": 3,
        "model": {
            "family": "encoder",
            "base": str(tiny_bert),
            "max_tokens": 128,
            "heads": {"overall": {"kind": "ordinal"}},
        },
        "train": [{"source": write_rows(tmp_path / "train.jsonl", 80, seed=1)}],
        "validation": [
            {"source": write_rows(tmp_path / "validation.jsonl", 30, seed=2)}
        ],
        "args": {
            "num_train_epochs": 4,
            "per_device_train_batch_size": 8,
            "learning_rate": 1e-3,
            "eval_strategy": "steps",
            "eval_steps": 7,
            "logging_steps": 4,
            "metric_for_best_model": "auc/repetitive",
        },
        "early_stopping_patience": 100,
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def short(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("short") / "run"
    done = CliRunner().invoke(
        app, train(config, folder, *SHORT, "args.report_to=tensorboard")
    )
    assert done.exit_code == 0, done.output
    return folder


def train(config: Path, folder: Path, *more: str) -> list[str]:
    return ["train", "--config", str(config), f"output_dir={folder}", *more]


def refused(config: Path, folder: Path, *more: str) -> str:
    """The error of a run that is refused, on one line."""
    done = CliRunner().invoke(app, train(config, folder, *more))
    assert isinstance(done.exception, MedalError), done.output
    return " ".join(str(done.exception).split())


def golden(folder: Path) -> list[dict[str, float]]:
    scores: list[dict[str, float]] = json.loads((folder / "golden.json").read_text())[
        "scores"
    ]
    return scores


def assert_same_scores(folder: Path, other: Path) -> None:
    for found, wanted in zip(golden(folder), golden(other), strict=True):
        assert found == pytest.approx(wanted, abs=1e-5)


def steps_of(folder: Path) -> list[int]:
    """The steps of the checkpoints that are there."""
    return sorted(int(p.name[11:]) for p in folder.glob("checkpoints/checkpoint-*"))


def kill_after_first_checkpoint(config: Path, folder: Path) -> None:
    """Starts the run as a process of its own and ends it with SIGKILL in mid-epoch."""
    run = start(*train(config, folder))
    deadline = time.monotonic() + 240
    while not list(folder.glob("checkpoints/checkpoint-*/trainer_state.json")):
        assert run.poll() is None, "the run ended before its first checkpoint"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    run.kill()
    assert run.wait() == -signal.SIGKILL


def test_killed_and_typed_again_equals_unbroken(
    config: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    kill_after_first_checkpoint(config, broken)
    assert CliRunner().invoke(app, train(config, whole)).exit_code == 0
    assert not (broken / "golden.json").exists()
    again = CliRunner().invoke(app, train(config, broken))
    assert "saved and checked" in again.output, again.output
    assert "resuming from" in caplog.text and "checkpoint-7" in caplog.text
    assert_same_scores(whole, broken)
    states = [
        json.loads((f / "trainer_state.json").read_text()) for f in (whole, broken)
    ]
    assert [state["global_step"] for state in states] == [40, 40]
    agreement = json.loads((whole / "agreement.json").read_text())
    assert max(record["value"] or 0 for record in agreement) > 0.9


def test_a_finished_run_typed_again_takes_no_step_and_overwrite_starts_again(
    short: Path, config: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(short, tmp_path / "run"))
    written = {p: p.stat().st_mtime for p in folder.glob("checkpoints/checkpoint-*/*")}
    assert CliRunner().invoke(app, train(config, folder, *SHORT)).exit_code == 0
    assert {
        p: p.stat().st_mtime for p in folder.glob("checkpoints/checkpoint-*/*")
    } == written
    assert_same_scores(folder, short)
    assert (
        CliRunner().invoke(app, train(config, folder, *SHORT, "--overwrite")).exit_code
        == 0
    )
    assert {
        p: p.stat().st_mtime for p in folder.glob("checkpoints/checkpoint-*/*")
    } != written
    assert_same_scores(folder, short)


def test_checkpoints_of_another_run_are_neither_used_nor_deleted(
    config: Path, short: Path
) -> None:
    before = steps_of(short)
    told = refused(config, short, *SHORT, "seed=4")
    assert "seed: there 3, now 4" in told and "--overwrite" in told
    told = refused(config, short, *SHORT, "args.per_device_train_batch_size=4")
    assert "examples a step: there 8, now 4" in told
    assert steps_of(short) == before == [7, 10]


@pytest.mark.parametrize("changed", ["rubric", "rows", "base", "nothing"])
def test_what_decides_the_result_counts_by_its_content(
    config: Path, short: Path, tmp_path: Path, changed: str
) -> None:
    """Files of the same name with other bytes are another run; the same bytes under another name
    are the same run."""
    settings = yaml.safe_load(config.read_text())
    base = Path(shutil.copytree(settings["model"]["base"], tmp_path / "base"))
    rows = Path(shutil.copy(settings["train"][0]["source"], tmp_path / "rows.jsonl"))
    rubric = tmp_path / "medal.yaml"
    dimensions = read_yaml("rubrics/medal")["dimensions"]
    if changed == "rubric":
        dimensions = dimensions[::-1]
    if changed == "rows":
        rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))
    if changed == "base":
        (base / "special_tokens_map.json").write_text('{"pad_token": "[PAD]"}')
    rubric.write_text(yaml.safe_dump({"dimensions": dimensions}))
    folder = Path(shutil.copytree(short, tmp_path / "run"))
    more = [f"rubric={rubric}", f"model.base={base}", f"train=[{{source: {rows}}}]"]
    if changed == "nothing":
        done = CliRunner().invoke(app, train(config, folder, *SHORT, *more))
        assert done.exit_code == 0, done.exception
    else:
        name = {"rubric": "rubric", "rows": "train rows", "base": "model.base"}[changed]
        assert f" {name}: there" in refused(config, folder, *SHORT, *more)


def test_a_checkpoint_that_is_not_whole_is_passed_over(
    config: Path, short: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(shutil.copytree(short, tmp_path / "run"))
    state = folder / "checkpoints" / "checkpoint-10" / "trainer_state.json"
    state.write_bytes(state.read_bytes()[:9])
    record = json.loads((folder / "checkpoints" / "run.json").read_text())
    newest = checkpoint_to_resume(folder / "checkpoints", record)
    assert newest == folder / "checkpoints" / "checkpoint-7"
    state.unlink()
    done = CliRunner().invoke(app, train(config, folder, *SHORT))
    assert done.exit_code == 0 and "checkpoint-10 is not whole" in caplog.text
    assert_same_scores(folder, short)


class Bomb:
    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.witness,))


def test_a_pickle_in_a_checkpoint_is_not_run(
    config: Path, short: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(short, tmp_path / "run"))
    last = folder / "checkpoints" / "checkpoint-10"
    shutil.rmtree(last)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        path = folder / "checkpoints" / "checkpoint-7" / name
        assert path.is_file()
        path.write_bytes(pickle.dumps(Bomb(tmp_path / "witness")))
    done = CliRunner().invoke(app, train(config, folder, *SHORT))
    assert done.exit_code != 0 and not (tmp_path / "witness").exists()


def test_early_stopping_counts_on_after_a_stop(config: Path, tmp_path: Path) -> None:
    """Its counter is the checkpoint's: a run that stands still ends at the same step, killed in
    between or after its end."""
    folder, copies = tmp_path / "run", tmp_path / "copies"
    still = train(
        config,
        folder,
        "early_stopping_patience=3",
        "args.learning_rate=1e-12",
        "args.metric_for_best_model=spearman/overall",
        "args.save_total_limit=9",
    )
    assert CliRunner().invoke(app, still).exit_code == 0
    state = json.loads((folder / "trainer_state.json").read_text())
    assert (state["best_global_step"], state["global_step"]) == (7, 28)
    judge = json.loads((folder / "judge.json").read_text())
    assert judge["facts"]["step_of_the_weights"] == 7
    assert "28 optimiser steps, weights of step 7" in (folder / "README.md").read_text()
    shutil.copytree(folder, copies)
    for gone in (None, "28"):
        if gone:
            shutil.rmtree(folder / "checkpoints" / f"checkpoint-{gone}")
        assert CliRunner().invoke(app, still).exit_code == 0
        again = json.loads((folder / "trainer_state.json").read_text())
        assert again["global_step"] == 28
        assert_same_scores(folder, copies)
