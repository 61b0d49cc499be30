"""A training killed half-way and resumed ends at the same judge as an unbroken one."""

import json
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.errors import MedalError
from medal_judges.models.base.golden import check_golden

from ..conftest import WORDS
from ..forked import medal, start
from ..talks import write_rated


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
    """A run of 10 epochs of 10 steps with dropout, shuffling and a checkpoint every 7 steps."""
    tmp_path = tmp_path_factory.mktemp("run")
    settings = {
        "name": "tiny",
        "output_dir": str(tmp_path / "unset"),
        "rubric": "medal",
        "seed": 3,
        "model": {
            "family": "turns",
            "base": str(tiny_bert),
            "shape": "flat",
            "max_tokens": 128,
            "width": 16,
            "layers": 1,
            "attention_heads": 2,
            "features": [],
            "heads": {"overall": {"kind": "ordinal"}},
        },
        "train": [{"source": write_rows(tmp_path / "train.jsonl", 80, seed=1)}],
        "validation": [{"source": write_rows(tmp_path / "validation.jsonl", 30, seed=2)}],
        "optim": {"epochs": 10, "batch_size": 8, "lr": 0.003, "body_lr": 0.001},
        "stop": {"metric": "auc/repetitive", "patience": 100},
        "checkpoint_steps": 7,
        "threads": 1,
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def short(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("short") / "run"
    more = ("optim.epochs=1", "log_with=tensorboard", "log_steps=4")
    done = CliRunner().invoke(app, train(config, folder, *more))
    assert done.exit_code == 0, done.output
    return folder


def train(config: Path, folder: Path, *more: str) -> list[str]:
    return ["train", "--config", str(config), f"output_dir={folder}", *more]


def refused(config: Path, folder: Path, *more: str) -> str:
    """The error of a run that is refused, on one line."""
    done = CliRunner().invoke(app, train(config, folder, *more))
    assert isinstance(done.exception, MedalError), done.output
    assert "0/100" not in done.output  # no bar before the error
    return " ".join(str(done.exception).split())


def golden(folder: Path) -> list[dict[str, float]]:
    scores: list[dict[str, float]] = json.loads((folder / "golden.json").read_text())["scores"]
    return scores


def kill_after_first_checkpoint(config: Path, folder: Path) -> None:
    """Start the run as a process of its own and end it with SIGKILL in mid-epoch."""
    run = start(*train(config, folder))
    deadline = time.monotonic() + 120
    while not list(folder.glob("checkpoints/step-*/progress.json")):
        assert run.poll() is None, "the run ended before its first checkpoint"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.3)
    run.kill()
    assert run.wait() == -signal.SIGKILL


def test_killed_and_resumed_equals_unbroken(config: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    kill_after_first_checkpoint(config, broken)
    assert CliRunner().invoke(app, train(config, whole)).exit_code == 0
    assert not (broken / "golden.json").exists()
    resumed = CliRunner().invoke(app, train(config, broken, "--resume"))
    assert "checked in a fresh process" in resumed.output
    largest = max(
        abs(a[name] - b[name])
        for a, b in zip(golden(whole), golden(broken), strict=True)
        for name in a
    )
    assert largest < 1e-5
    history = [(folder / "history.jsonl").read_text() for folder in (whole, broken)]
    assert [json.loads(h.splitlines()[-1])["step"] for h in history] == [100, 100]
    assert len(history[0].splitlines()) == len(history[1].splitlines())
    # and it learnt something: what the assistant speaks of is the whole difference
    assert json.loads((whole / "validation.json").read_text())["auc/repetitive"] > 0.9


def test_resume_refuses_another_run(config: Path, short: Path) -> None:
    again = refused(config, short, "optim.epochs=1", "seed=4", "--resume")
    assert "other settings or data" in again


@pytest.mark.slow
def test_early_stopping_counts_on_after_a_stop(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    patient = train(config, folder, "stop.patience=3")
    assert medal(*patient).returncode == 0
    wanted = {name: (folder / name).read_text() for name in ("history.jsonl", "golden.json")}
    earlier, last = sorted(folder.glob("checkpoints/step-*"))
    written = [json.loads((p / "progress.json").read_text()) for p in (earlier, last)]
    state, end = (found["progress"] for found in written)
    assert (state["waited"], state["stopped"]) == (2, False)
    assert (end["waited"], end["stopped"]) == (3, True) and end["step"] < 100
    shutil.rmtree(last)  # as if it had been killed after the second validation without a gain
    assert medal(*patient, "--resume").returncode == 0
    assert json.loads((last / "progress.json").read_text()) == written[1]
    assert (folder / "history.jsonl").read_text() == wanted["history.jsonl"]
    found, before = golden(folder), json.loads(wanted["golden.json"])["scores"]
    for a, b in zip(found, before, strict=True):
        assert a == pytest.approx(b, abs=1e-5)


def test_a_tampered_judge_does_not_pass(short: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from medal_judges.errors import JudgeLoadError

    folder = Path(shutil.copytree(short, tmp_path / "run"))
    assert check_golden(folder) <= 1e-5
    weights = load_file(folder / "model.safetensors")
    name = "nets.0.heads.overall.bias"
    save_file(weights | {name: weights[name] + 0.1}, folder / "model.safetensors")
    with pytest.raises(JudgeLoadError, match=r"golden\.json"):
        check_golden(folder)


def test_a_wrong_metric_is_told_before_training(config: Path, tmp_path: Path) -> None:
    error = refused(config, tmp_path / "run", "stop.metric=auc/overall")
    assert "'auc/overall' is not a figure" in error and "auc/repetitive" in error
    assert not list(tmp_path.glob("run/checkpoints/*"))


def test_a_loss_that_is_not_finite_stops_the_run(config: Path, short: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(short, tmp_path / "run"))
    earlier, last = sorted(folder.glob("checkpoints/step-*"))
    shutil.rmtree(last)
    weights = load_file(earlier / "model.safetensors")
    name = next(n for n in weights if n.endswith("heads.overall.bias"))
    save_file(weights | {name: weights[name] * float("nan")}, earlier / "model.safetensors")
    error = refused(config, folder, "optim.epochs=1", "--resume")
    assert "the loss of step 8 is nan" in error and "optim.lr" in error and str(earlier) in error
    assert list(folder.glob("checkpoints/step-*")) == [earlier]


def test_losses_figures_and_settings_are_logged(short: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    (place,) = (short / "logs").iterdir()
    (events,) = place.glob("*tfevents*")
    log = EventAccumulator(str(events)).Reload()
    assert "validation/auc_repetitive" in log.Tags()["scalars"]
    assert [e.step for e in log.Scalars("validation/loss")] == [7, 10]
    assert [e.step for e in log.Scalars("train/loss")] == [4, 8, 10]
    assert len(log.Scalars("final/loss")) == 1 and log.Scalars("train/lr")[-1].value == 0
    (told,) = place.glob("*/*tfevents*")
    settings = EventAccumulator(str(told)).Reload().SummaryMetadata("_hparams_/session_start_info")
    read = HParamsPluginData.FromString(settings.plugin_data.content).session_start_info.hparams
    assert read["optim.epochs"].number_value == 1 and read["model.family"].string_value == "turns"


@pytest.mark.parametrize(
    ("tracker", "error"),
    [("tensorbord", "did you mean 'tensorboard'?"), ("comet_ml", "is not installed")],
)
def test_a_tracker_that_is_not_here_is_named(
    config: Path, tmp_path: Path, tracker: str, error: str
) -> None:
    assert error in refused(config, tmp_path / "run", f"log_with=[{tracker}]")
