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
from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.base.golden import check_golden
from medal_judges.training.checkpoints import RunIdentity, checkpoint_to_resume

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
        "threads": 1,
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
    assert "checked in a fresh process" in again.output, again.output
    assert "resuming from" in caplog.text and "checkpoint-7" in caplog.text
    assert_same_scores(whole, broken)
    states = [
        json.loads((f / "trainer_state.json").read_text()) for f in (whole, broken)
    ]
    assert [state["global_step"] for state in states] == [40, 40]
    assert json.loads((whole / "validation.json").read_text())["auc/repetitive"] > 0.9


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
    assert "other settings or data" in told and "--overwrite" in told
    batch = "args.per_device_train_batch_size=4"
    told = refused(config, short, *SHORT, batch)
    assert (
        "8 examples a step" in told
        and "has 4 on" in told
        and "gradient_accumulation_steps" in told
    )
    assert steps_of(short) == before == [7, 10]


def test_a_checkpoint_that_was_half_written_is_passed_over(
    config: Path, short: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(short, tmp_path / "run"))
    (folder / "checkpoints" / "checkpoint-10" / "trainer_state.json").unlink()
    done = CliRunner().invoke(app, train(config, folder, *SHORT))
    assert done.exit_code == 0, done.output
    assert_same_scores(folder, short)


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("model.safetensors", 0),
        ("model.safetensors", -1),
        ("optimizer.pt", 0),
        ("optimizer.pt", -1),
        ("trainer_state.json", 9),
    ],
)
def test_a_cut_checkpoint_is_named_and_the_one_before_it_is_used(
    short: Path, tmp_path: Path, name: str, cut: int
) -> None:
    folder = Path(shutil.copytree(short, tmp_path / "run")) / "checkpoints"
    file = folder / "checkpoint-10" / name
    file.write_bytes(file.read_bytes()[:cut])
    identity = RunIdentity(**json.loads((folder / "run.json").read_text()))
    assert checkpoint_to_resume(folder, identity) == str(folder / "checkpoint-7")
    (folder / "checkpoint-7" / "rng_state.pth").write_bytes(b"")
    with pytest.raises(ConfigError, match="can be read"):
        checkpoint_to_resume(folder, identity)


@pytest.mark.slow
def test_a_run_goes_on_from_the_checkpoint_before_a_cut_one(
    config: Path, short: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(shutil.copytree(short, tmp_path / "run"))
    (folder / "checkpoints" / "checkpoint-10" / "model.safetensors").write_bytes(b"")
    done = CliRunner().invoke(app, train(config, folder, *SHORT))
    assert done.exit_code == 0, done.output
    assert "checkpoint-10 is damaged" in caplog.text
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


@pytest.mark.slow
def test_early_stopping_counts_on_after_a_stop(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    patient = train(
        config, folder, "early_stopping_patience=2", "args.num_train_epochs=20"
    )
    assert CliRunner().invoke(app, patient).exit_code == 0
    state = json.loads((folder / "trainer_state.json").read_text())
    assert (
        state["global_step"] < 200
        and state["global_step"] == state["best_global_step"] + 14
    )
    wanted = golden(folder)
    shutil.rmtree(folder / "checkpoints" / f"checkpoint-{state['global_step']}")
    assert CliRunner().invoke(app, patient).exit_code == 0
    again = json.loads((folder / "trainer_state.json").read_text())
    assert again["global_step"] == state["global_step"]
    for found, before in zip(golden(folder), wanted, strict=True):
        assert found == pytest.approx(before, abs=1e-5)


def test_a_tampered_judge_does_not_pass(short: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from medal_judges.errors import JudgeLoadError

    folder = Path(shutil.copytree(short, tmp_path / "run"))
    assert check_golden(folder) <= 1e-5
    weights = load_file(folder / "model.safetensors")
    name = "classifier.bias"
    changed = weights | {name: weights[name] + 0.1}
    save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(JudgeLoadError, match=r"golden\.json"):
        check_golden(folder)


def test_a_wrong_metric_is_told_before_training(config: Path, tmp_path: Path) -> None:
    error = refused(config, tmp_path / "run", "args.metric_for_best_model=auc/overall")
    assert "'auc/overall' is not a figure" in error and "auc/repetitive" in error
    assert not list(tmp_path.glob("run/checkpoints/checkpoint-*"))


def test_losses_and_figures_are_logged(short: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = short.rglob("*tfevents*")
    log = EventAccumulator(str(events)).Reload()
    assert "eval/auc/repetitive" in log.Tags()["scalars"]
    assert [e.step for e in log.Scalars("eval/loss")] == [7, 10]
    assert [e.step for e in log.Scalars("train/loss")] == [4, 8]


def test_a_tracker_that_is_not_here_is_named(config: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, train(config, tmp_path / "run", "args.report_to=tensorbord")
    )
    assert done.exit_code != 0 and "tensorbord" in str(done.exception) + done.output
