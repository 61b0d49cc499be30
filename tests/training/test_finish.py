"""The end of a run: figures beside baselines, test sets scored, golden scores of large nets."""

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
from medal_judges.data_prep.sources.registry import load_spec

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
    """A run of a measure that says nothing here, with validation and test rows."""
    settings = {
        "name": "words",
        "output_dir": str(folder / "run"),
        "rubric": "medal",
        "model": {
            "family": "linear",
            "vectors": False,
            "features": ["assistant.question"],
        },
        "train": [{"source": write_rows(folder / "train.jsonl", 60, 0)}],
        "validation": [{"source": write_rows(folder / "validation.jsonl", 40, 1)}],
        "test": [{"source": write_rows(folder / "test.jsonl", 50, 2, ("zh", "ja"))}],
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def test_a_run_ends_with_its_figures_beside_the_baselines(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["train", "--config", str(config_at(tmp_path))])
    assert done.exit_code == 0, done.output
    records = json.loads(
        (tmp_path / "run" / "agreement.json").read_text(encoding="utf-8")
    )
    found = {(r["part"], r["dimension"], r["lang"]): r for r in records}
    assert {"all", "zh", "ja"} == {lang for part, _, lang in found if part == "test"}
    # The baselines are what medal benchmark says of the judges of these names on the same rows.
    data = {
        "name": "x",
        "source": str(tmp_path / "test.jsonl"),
        "dimensions": ["overall"],
    }
    changes = [
        "judges=[]",
        f"sets=[{json.dumps(data)}]",
        f"output_dir={tmp_path}/b",
    ]
    figures = benchmark("quickstart", changes, judges=["length", "repetition"])
    wanted = {
        row.judge: (e := row.metrics["spearman"]) and e.value for row in figures.rows
    }
    assert found["test", "overall", "all"]["baselines"] == pytest.approx(
        wanted, abs=1e-12
    )
    assert wanted["length"] < -0.5  # shorter is better here: no sign is chosen
    rows = list(load_spec(data["source"]))
    issue, words = (
        [r.labels["repetitive"][0] for r in rows],
        Judge.from_pretrained("length"),
    )
    scores = [
        judged.scores["repetitive"]
        for judged in words.score([r.dialogue for r in rows])
    ]
    plain = found["test", "repetitive", "all"]["baselines"]
    assert plain["length"] == pytest.approx(roc_auc_score(issue, scores))
    # the table that people see, and the card
    flat = re.sub(r"\s+", " ", done.output)
    for part in ("validation", "test"):
        value = found[part, "overall", "all" if part == "test" else "en"]["baselines"][
            "length"
        ]
        assert f"{value:.2f}" in flat and part in flat
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    section = card.split("### Test sets")[1].split("\n## ")[0]
    assert f"| {found['test', 'overall', 'zh']['baselines']['length']:.2f} |" in section
    assert "test.jsonl" in section and "| length |" in section


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
