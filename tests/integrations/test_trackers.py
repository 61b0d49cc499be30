"""Training told to trackers that need no network: MLflow in a folder, Trackio in one of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ..talks import write_rated

pytestmark = pytest.mark.integrations("mlflow-skinny", "trackio", "accelerate")


def test_mlflow_and_trackio(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    sources = {}
    for part, count in (("train", 40), ("validation", 20)):
        texts = [
            (f"music {part} {n}?", " ".join(["river"] * (1 + n % 5)))
            for n in range(count)
        ]
        rows = [(each, {"overall": 1 + n % 5}) for n, each in enumerate(texts)]
        sources[part] = [{"source": write_rated(tmp_path / f"{part}.jsonl", rows)}]
    settings = sources | {
        "name": "words",
        "output_dir": str(tmp_path / "run"),
        "rubric": "overall",
        "model": {"family": "encoder", "base": str(tiny_bert), "max_tokens": 64},
        "args": {
            "num_train_epochs": 2,
            "per_device_train_batch_size": 8,
            "logging_steps": 2,
            "report_to": ["mlflow", "trackio"],
            "run_name": "words",
            "project": "words",
        },
    }
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    words = [sys.executable, "-m", "medal_judges", "train", "--config", str(config)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]

    import mlflow

    (run,) = mlflow.search_runs(search_all_experiments=True, output_format="list")
    assert run.data.params["num_train_epochs"] == "2.0"
    client = mlflow.MlflowClient()
    losses = client.get_metric_history(run.info.run_id, "loss")
    assert [each.step for each in losses] == [2, 4, 6, 8, 10]
    # In a folder a metric is a file: eval_spearman has no place beside eval_spearman/overall.
    assert {"eval_loss", "eval_spearman/overall"} <= set(run.data.metrics)
    assert run.info.status == "FINISHED"

    import sqlite3

    (database,) = (tmp_path / "trackio").glob("words.db")
    with sqlite3.connect(database) as store:
        rows = store.execute("select step, metrics from metrics order by id").fetchall()
    told = [name for _, metrics in rows for name in json.loads(metrics)]
    assert "train/loss" in told and "eval/loss" in told
