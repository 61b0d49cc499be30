"""The papers' figures beside ours: what is measured, what is not and why, and the shipped files."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from medal_judges.config import load_config, read_yaml
from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.eval.benchmark.published import (
    PUBLISHED,
    check_published,
    is_same_model,
    read_published,
)
from medal_judges.models.base.saving import FAMILIES

from .benchmark_case import medal, results

SHIPPED = sorted(
    p.name
    for p in (files("medal_judges.configs") / "benchmark").iterdir()
    if p.suffix == ".yaml"
)


def add_published(
    folder: Path, judge: str = "published_as: medal", **extra: str
) -> None:
    """The benchmark's file with MEDAL's Table 6 beside its judge, whose set stands for MEDAL's."""
    text = (folder / "bench.yaml").read_text()
    text = text.replace("path: judge.yaml}", "path: judge.yaml, " + judge + "}")
    text = text.replace(
        "source: set.jsonl\n", "source: set.jsonl\n    published_as: medal\n"
    )
    (folder / "bench.yaml").write_text(
        text + "".join(f"{k}: {v}\n" for k, v in extra.items())
    )


def published_lines(folder: Path) -> list[dict[str, Any]]:
    table = next(t for t in results(folder)["tables"] if t["title"] == PUBLISHED)
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_each_printed_figure_stands_beside_that_of_its_own_model(folder: Path) -> None:
    rows = [
        json.loads(line) for line in (folder / "set.jsonl").read_text().splitlines()
    ]
    for row in rows:  # its labels came with the set
        row["machine_labels"] = {"overall": {"gpt-4.1": row["labels"]["overall"][0]}}
    (folder / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    more = "model: o3, published_as: medal"
    add_published(folder, judge=more, published="[medal]")
    done = medal("sets.0.published=[gpt-4.1]")
    assert done.exit_code == 0, done.exception
    lines = published_lines(folder)
    printed = {
        line["Their model"]: (line["Their ρ"], line["Their r"]) for line in lines
    }
    assert printed["o3"] == ("0.47", "0.49")  # MEDAL, Table 6: .4750 and .4914
    assert len(printed) == 12
    measured = {
        row["judge"]: row["metrics"]["spearman"]["value"]
        for row in results(folder)["rows"]
        if row["dimension"] == "overall"
    }
    ours = {
        line["Their model"]: line["Our ρ"]["value"] for line in lines if line["Our ρ"]
    }
    assert ours == pytest.approx(
        {"o3": measured["counting"], "GPT-4.1": measured["gpt-4.1 (published)"]}
    )
    others = {line["Our model"] for line in lines if not line["Our ρ"]}
    assert others == {"this model was not run"}
    assert PUBLISHED in (folder / "out/report.html").read_text("utf-8")
    assert "o3" in (folder / "out/report.html").read_text("utf-8")


def test_an_optional_judge_that_is_not_available_is_a_note_and_the_run_goes_on(
    folder: Path,
):
    more = "{name: absent, path: ./no_such_folder, optional: true, published_as: medal}"
    add_published(folder, judge="published_as: diet/fed", published="[medal]")
    text = (
        (folder / "bench.yaml")
        .read_text()
        .replace("judges:\n", f"judges:\n  - {more}\n", 1)
    )
    (folder / "bench.yaml").write_text(text)
    done = medal()
    assert done.exit_code == 0, done.exception
    assert "judge absent left out" in done.stdout
    assert {line["Our model"] for line in published_lines(folder)} == {
        "this model was not run"
    }
    notes = [value for label, value in results(folder)["facts"] if label == "Note"]
    (note,) = [value for value in notes if value.startswith("judge absent left out")]
    assert "no_such_folder" in note


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_benchmark_names_what_exists(name: str) -> None:
    config = load_config(BenchmarkConfig, f"benchmark/{name}")
    check_published(config)
    for judge in config.judges:
        if judge.path.startswith("configs/"):
            assert (
                files("medal_judges.configs") / judge.path.removeprefix("configs/")
            ).is_file()


@pytest.mark.parametrize("paper", ["diet", "oralis"])
def test_every_row_of_a_paper_that_we_can_run_is_a_judge_of_its_benchmarks(
    paper: str,
) -> None:
    asked = set()
    for name in SHIPPED:
        config = load_config(BenchmarkConfig, f"benchmark/{name}")
        if paper in config.published:
            for judge in config.judges:
                llm = judge.options.get("llm")
                if isinstance(llm, dict):
                    llm = llm["model"]
                asked.add((judge.published_as, llm))
    for figure in (figure for figure in read_published() if figure["paper"] == paper):
        if figure["model"] != "its own" and figure["judge"] != "usr":
            models = {llm for key, llm in asked if key == figure["key"]}
            named = [
                llm
                for llm in models
                if llm and is_same_model(llm, figure["models"][-1])
            ]
            assert None in models or named, figure


@pytest.mark.parametrize("name", SHIPPED)
def test_our_model_is_that_of_the_published_row(name: str) -> None:
    """A hybrid has many bases, so the config states the model; a trained judge has one."""
    for judge in load_config(BenchmarkConfig, f"benchmark/{name}").judges:
        if judge.published_as is None:
            continue
        model = judge.model
        if judge.path.startswith("configs/"):
            settings = read_yaml(judge.path.removeprefix("configs/"))
            if settings["family"] != "hybrid":
                continue  # its language model, which the user names
        else:
            model = _training(judge.path)["model"]["base"]
        rows = [row for row in read_published() if row["key"] == judge.published_as]
        assert model is not None, judge.name
        assert any(is_same_model(model, m) for row in rows for m in row["models"])


def test_one_benchmark_has_a_judge_of_every_family() -> None:
    config = load_config(BenchmarkConfig, "benchmark/every_family")
    families = set()
    for judge in config.judges:
        if judge.path.startswith("configs/"):
            text = (
                files("medal_judges.configs") / judge.path.removeprefix("configs/")
            ).read_text()
            families.add(yaml.safe_load(text)["family"])
        else:  # a folder that a shipped training configuration makes
            families.add(_training(judge.path)["model"]["family"])
    assert families == set(FAMILIES)


def _training(output_dir: str) -> dict[str, Any]:
    for path in (files("medal_judges.configs") / "train").iterdir():
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        if settings["output_dir"] == output_dir:
            return dict(settings)
    raise AssertionError(f"no training configuration writes {output_dir}")
