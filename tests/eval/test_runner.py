"""medal benchmark from end to end, with a small judge of its own and files written here."""

import json
import os
from pathlib import Path

import pytest

from medal_judges.errors import (
    ConfigError,
    CoverageError,
    DataError,
    MedalError,
)
from medal_judges.eval.benchmark.config import SetConfig
from medal_judges.eval.benchmark.sets import judgements_from_labels, load_set
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.storage.jsonl import write_records
from medal_judges.storage.judgements import read_judgements, write_judgements

from .benchmark_case import CountingJudge, medal, results, write_set


def test_from_files_to_page(folder: Path) -> None:
    done = medal()
    assert done.exit_code == 0, done.exception
    assert done.stdout.strip().splitlines()[-1] == "out/report.html"
    assert " scored)." in done.stdout
    overall, repeats = results(folder)["rows"]
    assert overall["metrics"]["spearman"]["value"] > 0.9
    assert "the same whichever" in overall["metrics"]["spearman"]["reason"]  # exactly 1
    assert overall["metrics"]["pearson"]["low"] is not None
    assert (repeats["kind"], repeats["dimension"]) == ("binary", "repeats")
    assert repeats["metrics"]["f1_present"]["value"] == pytest.approx(
        overall["metrics"]["pearson"]["value"], abs=0.5
    )
    assert overall["signature"].startswith("judge:counting|revision:1|data:little@")
    assert "|dimension:overall" in overall["signature"]
    page = (folder / "out/report.html").read_text("utf-8")
    assert "counting" in page
    assert str(folder) not in page


def test_the_order_of_chatbots_stands_beside_the_figures(folder: Path) -> None:
    write_set(folder / "set.jsonl", rows=120)
    assert medal().exit_code == 0
    overall, repeats = results(folder)["systems"]
    assert (overall["judge"], overall["dimension"], overall["systems"]) == (
        "counting",
        "overall",
        6,
    )
    assert 0.5 < overall["pairwise_accuracy"]["value"] <= 1
    assert overall["pairwise_accuracy"]["low"] is not None
    assert repeats["dimension"] == "repeats"
    page = (folder / "out/report.html").read_text("utf-8")
    assert "Chatbots in order" in page


def test_judged_once_and_again_only_where_judge_or_data_changed(folder: Path) -> None:
    medal()
    assert CountingJudge.scored == 24
    medal("disagreements=3")
    assert CountingJudge.scored == 24
    (folder / "judge.yaml").write_text("family: counting\ndimensions: 2\nrevision: 2\n")
    medal()
    assert CountingJudge.scored == 48
    write_set(folder / "set.jsonl", rows=23)
    medal()
    assert CountingJudge.scored == 48  # the rows that are left are scored already


def test_a_stopped_run_goes_on(folder: Path) -> None:
    medal()
    file = folder / "out/predictions/counting/little.jsonl"
    complete = list(read_judgements(file))
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:10]) + lines[10][:20], encoding="utf-8")
    before = CountingJudge.scored
    assert medal().exit_code == 0
    assert list(read_judgements(file)) == complete
    assert CountingJudge.scored - before < 24


def test_under_the_floor_everything_is_written_and_the_code_is_3(folder: Path) -> None:
    (folder / "judge.yaml").write_text("family: counting\nsilent: 5\n")
    done = medal()
    assert isinstance(done.exception, CoverageError)
    assert done.exception.exit_code == 3
    assert "79.2%" in str(done.exception)
    assert (folder / "out/report.html").is_file()
    (row,) = results(folder)["rows"]
    assert (row["scored"], row["n"]) == (19, 24)
    line = next(line for line in done.stdout.splitlines() if "79.2%" in line)
    # no figure but the ceiling
    assert "0." not in line.split("79.2%")[1].rsplit("│", 2)[0]
    assert medal("min_coverage=0.7").exit_code == 0


def test_predictions_made_elsewhere(folder: Path) -> None:
    medal()
    (folder / "bench.yaml").write_text(
        (folder / "bench.yaml").read_text()
        + "  - {name: theirs, predictions: {little: theirs.jsonl}}\n"
    )
    made = list(read_judgements(folder / "out/predictions/counting/little.jsonl"))
    scale = (Dimension("overall", "continuous", -5, 0, good="low"),)
    flipped = [
        Judgement(
            j.id,
            "judge:theirs",
            {"overall": -(j.scores["overall"] or 0)},
            dimensions=scale,
        )
        for j in made
    ]
    write_judgements(folder / "theirs.jsonl", flipped)
    assert medal().exit_code == 0
    theirs = next(row for row in results(folder)["rows"] if row["judge"] == "theirs")
    assert theirs["metrics"]["spearman"]["value"] < -0.9
    stranger = Judgement("stranger", "j", {"overall": 1.0}, dimensions=scale)
    write_judgements(folder / "theirs.jsonl", [*flipped, stranger])
    failed = medal()
    assert isinstance(failed.exception, MedalError)
    assert "stranger" in str(failed.exception)


def theirs(folder: Path) -> None:
    """Judgements of the same rows under other names, in theirs.jsonl."""
    medal()
    made = read_judgements(folder / "out/predictions/counting/little.jsonl")
    renamed = (
        Judgement(
            j.id,
            "judge:theirs",
            {"quality": j.scores["overall"], "says it again": j.scores["repetitive"]},
            dimensions=(
                Dimension("quality", "continuous", 1, 5),
                Dimension("says it again", "binary", 0, 1, good="low"),
            ),
        )
        for j in made
    )
    write_judgements(folder / "theirs.jsonl", renamed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("min_coverag=1", "Did you mean 'min_coverage'"),
        ("judges=[{name: a, predictions: {nowhere: b}}]", "'nowhere'"),
        ("judges=[]", "no judge to benchmark"),
    ],
)
def test_wrong_settings_say_what_is_wrong(
    folder: Path, change: str, message: str
) -> None:
    error = medal(change).exception
    assert isinstance(error, ConfigError)
    assert message in str(error)


@pytest.mark.skipif(
    not os.environ.get("MEDAL_JUDGES_DATA"),
    reason="MEDAL_JUDGES_DATA names no folder of ratings",
)
def test_published_labels_are_those_of_the_turns() -> None:
    view, names = "abceval_issues_by_dialogue", ["repetitive", "irrelevant"]
    settings = {"source": "abceval", "view": view, "dimensions": names}
    config = SetConfig(name="abceval", **settings)  # type: ignore[arg-type]
    loaded = load_set(config)
    assert not isinstance(loaded, str)
    found = judgements_from_labels(config, loaded.rows, "gpt").judgements
    assert len(found) == 54
    assert {str(j.scores[name]) for j in found for name in names} == {"0.0", "1.0"}


def predictions(folder: Path, name: str, **more: str) -> None:
    text = (folder / "bench.yaml").read_text()
    fields = {"name": "mine", "predictions": f"{{little: {name}}}"} | more
    line = ", ".join(f"{key}: {value}" for key, value in fields.items())
    (folder / "bench.yaml").write_text(f"{text}  - {{{line}}}\n")


def test_a_table_of_somebodys_own_metric_is_read(folder: Path) -> None:
    lines = ["id,bleu"] + [f"row-{i},{i / 10}" for i in range(24)]
    (folder / "mine.csv").write_text("\n".join(lines))
    predictions(folder, "mine.csv", dimensions="{overall: bleu}")
    assert medal().exit_code == 0
    found = {(row["judge"], row["dimension"]): row for row in results(folder)["rows"]}
    mine = found["mine", "overall"]
    assert (mine["scored"], mine["judge_dimension"]) == (24, "bleu")
    notes = [text for name, text in results(folder)["facts"] if name == "Note"]
    assert any("bleu is 0, outside its scale" in note for note in notes)
    for text in ("name,bleu\na,1\n", "id\nrow-0\n", "id,bleu\nrow-0,good\n"):
        (folder / "mine.csv").write_text(text)
        error = medal().exception
        assert isinstance(error, DataError) and error.path.endswith("mine.csv")
    (folder / "mine.csv").unlink()
    assert isinstance(medal().exception, DataError)


def test_turns_after_the_last_answer_are_not_judged(folder: Path) -> None:
    lines = (folder / "set.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows[::2]:
        row["dialogue"].append({"role": "user", "content": "Bye!!!"})
    rows[1]["dialogue"] = rows[1]["dialogue"][:1]  # no answer to judge
    write_records(folder / "set.jsonl", rows)
    assert medal("sets.0.level=last", "min_coverage=0").exit_code == 0
    overall = [r for r in results(folder)["rows"] if r["dimension"] == "overall"]
    assert [(row["n"], row["scored"]) for row in overall] == [(24, 23)]
