"""The end of a run: test sets scored, golden scores of large nets."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from medal_judges import Judge, benchmark, train
from medal_judges.cli import app
from medal_judges.data_prep.sources.registry import load_rows

from ..talks import write_rated


def write_rows(
    path: Path, count: int, seed: int, langs: tuple[str, ...] = ("en",)
) -> str:
    """Dialogues rated the lower the longer the answers are, with noise."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(count):
        words = int(rng.integers(1, 30))
        answer = " ".join(rng.choice(["film", "river", "bread", "city"], words))
        rating = float(np.clip(5 - words / 8 + rng.normal(), 1, 5))
        texts = f"{path.stem} {number}?", f"{answer} {number}."
        rows.append((texts, {"overall": rating, "repetitive": int(rating < 3)}))
    return write_rated(path, rows, langs)


def config_at(folder: Path) -> Path:
    """A run of a linear judge with validation and test rows."""
    settings = {
        "name": "words",
        "output_dir": str(folder / "run"),
        "rubric": "medal",
        "model": {
            "family": "linear",
            "vectors": False,
            "features": ["assistant.log_words"],
        },
        "train": [{"source": write_rows(folder / "train.jsonl", 60, 0)}],
        "validation": [{"source": write_rows(folder / "validation.jsonl", 40, 1)}],
        "test": [{"source": write_rows(folder / "test.jsonl", 50, 2, ("zh", "ja"))}],
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def test_a_run_ends_with_its_agreement_on_held_out_rows(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["train", "--config", str(config_at(tmp_path))])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "run"
    records = json.loads((folder / "agreement.json").read_text(encoding="utf-8"))
    found = {(r["part"], r["dimension"], r["lang"]): r for r in records}
    assert {"all", "zh", "ja"} == {lang for part, _, lang in found if part == "test"}
    # The numbers are what medal benchmark says of the judge on the same rows.
    data = {
        "name": "x",
        "source": str(tmp_path / "test.jsonl"),
        "dimensions": ["overall"],
    }
    changes = ["judges=[]", f"sets=[{json.dumps(data)}]", f"output_dir={tmp_path}/b"]
    (row,) = benchmark("quickstart", changes, judges=[f"mine={folder}"]).rows
    estimate = row.metrics["spearman"]
    record = found["test", "overall", "all"]
    measured = [record["value"], record["low"], record["high"]]
    wanted = [estimate.value, estimate.low, estimate.high]
    assert measured == pytest.approx(wanted, abs=1e-12)
    rows = list(load_rows(data["source"]))
    issue = [row.labels["repetitive"][0] for row in rows]
    judged = Judge.from_pretrained(folder).score([row.dialogue for row in rows])
    scores = [one.scores["repetitive"] for one in judged]
    area = found["test", "repetitive", "all"]["value"]
    assert area == pytest.approx(roc_auc_score(issue, scores))
    # the table that people see, and the card
    flat = re.sub(r"\s+", " ", done.output)
    assert (
        f"{record['value']:.2f} [{record['low']:.2f}" in flat and "test.jsonl" in flat
    )
    card = (folder / "README.md").read_text(encoding="utf-8")
    section = card.split("### Test sets")[1].split("\n## ")[0]
    chinese = found["test", "overall", "zh"]
    assert (
        f"| zh | {chinese['n']} |" in section and f"{chinese['value']:.2f}" in section
    )


def test_a_benchmark_says_what_a_judge_was_trained_on(
    tmp_path: Path,
) -> None:
    source = write_rows(tmp_path / "rows.jsonl", 80, 0)
    split = {"test": 0.3}
    changes = ["rubric=medal", f"train=[{json.dumps({'source': source})}]"]
    folder = train(
        "baseline_length",
        [*changes, f"split={json.dumps(split)}", f"output_dir={tmp_path}/j"],
    )
    entries = json.loads((folder / "data.json").read_text())
    sizes = {entry["part"]: entry["rows"] for entry in entries}

    data = {"name": "all", "source": source, "dimensions": ["overall"]}
    where = [f"sets=[{json.dumps(data)}]", f"output_dir={tmp_path}/all"]
    found = benchmark(
        "quickstart",
        ["judges=[]", *where],
        judges=[f"mine={folder}"],
    )
    assert found.rows[0].n == 80
    (note,) = [text for name, text in found.facts if name == "Note"]
    assert note.startswith(
        f"judge mine was trained on {sizes['train']} of 80 chats of all"
    )
