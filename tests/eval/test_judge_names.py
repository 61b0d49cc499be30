"""Judges with names of their own for a set's dimensions: a mapping per judge beside the set's."""

from __future__ import annotations

from pathlib import Path

import pytest

from medal_judges.errors import ConfigError
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records
from medal_judges.storage.judgements import read_judgements

from .benchmark_case import medal, results


def theirs(folder: Path) -> None:
    """Judgements of the same rows under other names, in theirs.jsonl."""
    medal()
    made = read_judgements(folder / "out/predictions/counting/little.jsonl")
    renamed = (
        Judgement(
            j.id,
            "judge:theirs",
            {"quality": j.scores["overall"], "says it again": j.scores["repetitive"]},
        )
        for j in made
    )
    write_records(folder / "theirs.jsonl", renamed)


def with_mapping(folder: Path, mapping: str) -> None:
    text = (folder / "bench.yaml").read_text()
    more = f"predictions: [{{name: theirs, set: little, path: theirs.jsonl{mapping}}}]\n"
    (folder / "bench.yaml").write_text(text + more)


def test_a_judge_with_names_of_its_own_stands_beside_the_others(folder: Path) -> None:
    theirs(folder)
    with_mapping(folder, ', dimensions: {overall: quality, repeats: "says it again"}')
    done = medal()
    assert done.exit_code == 0, done.exception
    found = {(r["judge"], r["dimension"]): r for r in results(folder)["rows"]}
    for dimension, metric in (("overall", "spearman"), ("repeats", "f1_present")):
        mine, other = found["counting", dimension], found["theirs", dimension]
        assert mine["metrics"][metric] == other["metrics"][metric]
        assert mine["metrics"][metric]["value"] is not None


def test_the_mapping_of_a_judge_that_runs_here(folder: Path) -> None:
    # the set asks `overall` of everybody; this judge answers with its `repetitive`
    more = "judges=[{name: other, path: judge.yaml, dimensions: {overall: repetitive}}]"
    assert medal(more).exit_code == 0
    overall, repeats = results(folder)["rows"]
    assert (overall["dimension"], repeats["dimension"]) == ("overall", "repeats")
    assert [p["score"] for p in overall["points"]] == [p["score"] for p in repeats["points"]]


def test_what_is_not_mapped_and_not_there_is_told(folder: Path) -> None:
    theirs(folder)
    with_mapping(folder, ", dimensions: {overall: quality}")
    done = medal()
    assert done.exit_code == 0
    assert "judge theirs has no repetitive: not shown on little" in done.stdout


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ("{overal: quality}", "maps the dimension 'overal', which no set has"),
        ("{overall: qualty}", "has no dimension 'qualty'"),
    ],
)
def test_a_mapping_that_fits_nothing_is_refused(folder: Path, mapping: str, message: str) -> None:
    theirs(folder)
    with_mapping(folder, f", dimensions: {mapping}")
    error = medal().exception
    assert isinstance(error, ConfigError)
    assert message in str(error)
    assert "overall" in str(error) or "quality" in str(error)  # what there is


def test_injected_issues_follow_the_mapping(folder: Path) -> None:
    def injected(i: int, kind: str) -> LabelledDialogue:
        marks = "!" * {"planted": 3, "innocent": 1, "clean": 0}[kind]
        issue = None if kind == "clean" else "says again"
        about = {"issue": issue, "strength": 1, "turns": [1], "kind": kind, "pair": f"{i}"}
        return LabelledDialogue(
            Dialogue(f"{kind}-{i}", (Turn("user", "a"), Turn("assistant", "b" + marks))),
            {"says again": (float(kind == "planted"),)},
            {"says again": (0, 1)},
            group=str(i),
            extra={"planted": about},
        )

    kinds = ("planted", "innocent", "clean")
    write_records(folder / "planted.jsonl", (injected(i, k) for i in range(8) for k in kinds))
    text = (
        (folder / "bench.yaml")
        .read_text()
        .replace("path: judge.yaml}", "path: judge.yaml, dimensions: {says again: repetitive}}")
    )
    more = "injected: [{name: held-out, source: planted.jsonl}]\n"
    (folder / "bench.yaml").write_text(text + more)
    done = medal()
    assert done.exit_code == 0, done.exception
    table = results(folder)["tables"][-1]
    row = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert (row["Issue"], row["F1+ vs clean"]["value"]) == ("says again", 1)
