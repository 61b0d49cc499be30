"""medal compare on files as people have them: systems, contexts, labels, and what goes wrong."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scales import stating
from typer.testing import CliRunner

from medal_judges import CompareOptions, MedalError
from medal_judges import compare as compare_systems
from medal_judges.cli import app
from medal_judges.eval.comparison.results import SystemComparison, gate_verdicts
from medal_judges.records.dimension import Dimension

JUDGE = "judge:test|revision:1"
Write = Callable[[str, Sequence[Mapping[str, object]]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, rows: Sequence[Mapping[str, object]]) -> Path:
        path = tmp_path / name
        path.write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        )
        return path

    return written


def scores(
    values: Sequence[float | None],
    prefix: str = "d",
    judge: str = JUDGE,
    name: str = "overall",
) -> list[dict[str, object]]:
    rows = [
        {"id": f"{prefix}{i}", "turn": None, "judge": judge, "scores": {name: value}}
        | ({} if value is not None else {"failure": "no answer"})
        for i, value in enumerate(values)
    ]
    return stating(rows)


def chat(
    id: str, opening: str, answer: str, lang: str = "en", **more: object
) -> dict[str, object]:
    said = [
        {"role": "user", "content": opening},
        {"role": "assistant", "content": answer},
    ]
    return {"id": id, "lang": lang, "dialogue": said, **more}


def labels(values: Mapping[str, float], **more: object) -> list[dict[str, object]]:
    return [
        chat(id, "Hi", "Ho")
        | {"labels": {"overall": [value]}, "scales": {"overall": [1, 5]}}
        | more
        for id, value in values.items()
    ]


def draw(count: int, mean: float, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(v) for v in np.clip(rng.normal(mean, 0.6, count), 1, 5)]


def compare(
    files: Mapping[str, Path] | Sequence[Path | str] | Path, **options: Any
) -> SystemComparison:
    if isinstance(files, Path):
        files = [files]
    named = (
        [f"{name}={path}" for name, path in files.items()]
        if isinstance(files, Mapping)
        else [str(path) for path in files]
    )
    if "human" in options:
        given = options["human"]
        options["human"] = [
            str(path) for path in (given if isinstance(given, list) else [given])
        ]
    return compare_systems(CompareOptions(files=named, **options))


def test_the_same_ids_are_paired_and_others_not(write: Write) -> None:
    hard = np.array(draw(80, 3, 0))
    old = write("old.jsonl", scores(list(np.clip(hard, 1, 4.9))))
    new = write("new.jsonl", scores(list(np.clip(hard, 1, 4.9) + 0.1)))
    found = compare([old, new])
    assert found.systems == ["old", "new"]
    pair = found.on("overall").pairs[0]
    assert pair.difference.pairing == "paired" and pair.difference.shared == 80
    assert pair.difference.losses == 80
    other = write("other.jsonl", scores(draw(80, 3.1, 2), prefix="x"))
    apart = compare({"a": old, "b": other}).on("overall").pairs[0]
    assert apart.difference.pairing == "unpaired" and not apart.is_apart


def test_chats_are_scored_and_kept(write: Write, tmp_path: Path) -> None:
    files = []
    for name, length in (("old", 3), ("new", 9)):
        rows = [
            chat(f"q{i}", f"Question {i}?", "yes " * (length + i % 5))
            for i in range(30)
        ]
        files.append(write(f"{name}.jsonl", rows))
    out = tmp_path / "out"
    found = compare(files, dimensions=["overall"], judge="length", out=out)
    pair = found.on("overall").pairs[0]
    assert pair.difference.pairing == "paired" and pair.difference.shared == 30
    assert pair.is_apart and "new is better than old" in found.verdicts()[0]
    kept = (out / "scores" / "old.jsonl").read_text()
    # A run that was stopped goes on.
    (out / "scores" / "old.jsonl").write_text("".join(kept.splitlines(True)[:7]))
    again = compare(files, dimensions=["overall"], judge="length", out=out)
    assert again.on("overall").pairs[0].difference == pair.difference
    assert (out / "scores" / "old.jsonl").read_text() == kept
    boxed = compare(files)  # the judge in the package
    assert boxed.judge.startswith("judge:boxed")


def test_one_file_by_chatbot_and_by_a_column(write: Write) -> None:
    rows = [
        chat(f"{bot}{i}", f"{bot} {i}", "word " * (i % 5 + 4 * (bot == "b")))
        | {
            "models": {"assistant": bot},
            "meta": {"version": {"a": "1.0", "b": "2.0"}[bot]},
        }
        for bot in "ab"
        for i in range(20)
    ]
    file = write("all.jsonl", rows)
    options = {"by": "chatbot", "dimensions": ["overall"]}
    assert compare(file, **options, judge="length").systems == ["a", "b"]
    by_version = {"by": "version", "dimensions": ["overall"]}
    found = compare([file], **by_version, judge="length")
    assert found.systems == ["1.0", "2.0"] and found.on("overall").pairs[0].is_apart
    with pytest.raises(MedalError, match="no column 'user'"):
        compare(file, by="user", judge="length")
    one = write("one.jsonl", rows[:20])
    with pytest.raises(MedalError, match="nothing to compare"):
        compare(one, **options, judge="length")


def test_labels_of_people_lead_where_the_judge_favours_a_system(write: Write) -> None:
    rng = np.random.default_rng(7)
    human = {s: np.clip(np.round(rng.normal(3, 1, 200)), 1, 5) for s in "ab"}
    files = {
        s: write(
            f"{s}.jsonl",
            scores(
                [
                    float(np.clip(value, 1, 5))
                    for value in values + rng.normal(0, 0.5, 200) + (s == "a")
                ],
                s,
            ),
        )
        for s, values in human.items()
    }
    given = write(
        "people.jsonl",
        labels({f"{s}{i}": float(human[s][i]) for s in "ab" for i in range(40)}),
    )
    plain, corrected = compare(files), compare(files, human=given)
    assert (
        plain.on("overall").pairs[0].is_apart and plain.on("overall").basis == "judge"
    )
    assert any("By the judge alone" in note for note in plain.notes)
    result = corrected.on("overall")
    assert result.basis == "people" and not result.pairs[0].is_apart
    assert [s.labelled for s in result.systems] == [40, 40]
    assert "by human labels" in corrected.verdicts()[0]
    for system in result.systems:
        truth = float(human[system.system].mean())
        estimate = system.best
        assert estimate.low is not None and estimate.high is not None
        assert (
            estimate.low < truth < estimate.high and estimate.high - estimate.low < 0.6
        )


def test_several_systems_stand_with_the_best_first(write: Write) -> None:
    means = {"a": 4.2, "b": 4.15, "c": 3.0, "d": 1.8}
    files = {
        s: write(f"{s}.jsonl", scores(draw(120, m, k), s))
        for k, (s, m) in enumerate(means.items())
    }
    found = compare(files)
    result = found.on("overall")
    assert found.comparisons == 6 and len(result.pairs) == 6
    order = [s.system for s in result.systems]
    assert order[2:] == ["c", "d"] and set(order[:2]) == {"a", "b"}
    assert "the best cannot be told apart" in found.verdicts()[0]


def test_the_command_writes_page_tables_and_record(
    write: Write, tmp_path: Path
) -> None:
    for k, name in enumerate(("v1", "v2")):
        write(f"{name}.jsonl", scores(draw(60, 3 + 0.6 * k, k)))
    out = tmp_path / "out"
    files = [f"old one={tmp_path / 'v1.jsonl'}", str(tmp_path / "v2.jsonl")]
    done = CliRunner().invoke(
        app, ["compare", *files, "--out", str(out)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert "overall: v2 is better than old one by" in done.output
    page = (out / "compare.html").read_text()
    assert "old one" in page and "prefers-color-scheme" in page
    record = json.loads((out / "compare.json").read_text())
    assert record["systems"] == ["old one", "v2"] and record["verdicts"]
    with open(out / "tables" / "differences-overall.csv", newline="") as stream:
        (line,) = csv.DictReader(stream)
    assert (line["First"], line["Second"]) == ("old one", "v2") and float(
        line["p"]
    ) < 0.05
    with open(out / "tables" / "systems-overall.csv", newline="") as stream:
        systems = list(csv.DictReader(stream))
    assert [row["System"] for row in systems] == ["v2", "old one"]


@pytest.mark.parametrize(
    ("by", "margin", "code", "verdict"),
    [(-1.0, "0", 1, "failed"), (-1.0, "2", 0, "passed"), (1.0, "0", 0, "passed")],
)
def test_a_gate_for_a_system_that_is_worse(
    write: Write, tmp_path: Path, by: float, margin: str, code: int, verdict: str
) -> None:
    values = {"old": draw(40, 3.0, 1), "new": draw(40, 3.0 + by, 2)}
    files = [str(write(f"{name}.jsonl", scores(v))) for name, v in values.items()]
    options = ["--fail-if-worse", margin, "--junit", str(tmp_path / "gates.xml")]
    done = CliRunner().invoke(app, ["compare", *files, *options])
    assert done.exit_code == code and f"margin {margin}.00: {verdict}" in done.output, (
        done.output
    )
    assert ('failures="1"' in (tmp_path / "gates.xml").read_text()) == (code == 1)


@pytest.mark.parametrize("noise", ["both ways", "17 others"])
def test_the_same_chats_in_other_batches_pass_a_gate(
    write: Write, tmp_path: Path, noise: str
) -> None:
    rng = np.random.default_rng(3)
    first = draw(60, 3.0, 1)
    moved = {"none": 0.0, "one way": 2e-6}.get(noise, rng.uniform(-2e-6, 2e-6, 60))
    second = [
        *(np.array(first) + moved),
        *(draw(17, 3.0, 2) if noise == "17 others" else []),
    ]
    files = [
        str(write("old.jsonl", scores(first))),
        str(write("new.jsonl", scores(second))),
    ]
    page = tmp_path / "page"
    command = [
        "compare",
        *files,
        "--fail-if-worse",
        "0",
        "--out",
        str(page),
    ]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "the scores of new and old do not differ, margin 0.00: passed" in done.output
    record = json.loads((page / "compare.json").read_text())
    (pair,) = record["results"][0]["pairs"]
    assert (pair["wins"], pair["ties"], pair["losses"]) == (0, 60, 0)
    assert pair["difference"]["p_value"] == pytest.approx(1)


def test_a_gate_decides_as_the_table_does(write: Write, tmp_path: Path) -> None:
    """Nine dimensions: what one comparison alone would show is not shown among nine, and the gate
    has the interval of the table."""
    rng = np.random.default_rng(8)
    names = [f"d{k}" for k in range(9)]
    files = []
    for system, drop in (("old", 0.0), ("new", 0.5)):
        rows = [
            row
            | {
                "scores": {
                    name: float(np.clip(rng.normal(3 - drop * (name == "d0")), 1, 5))
                    for name in names
                }
            }
            for row in scores([3.0] * 60, system)
        ]
        dimensions = [Dimension(name, "continuous", 1, 5) for name in names]
        files.append(write(f"{system}.jsonl", stating(rows, dimensions)))
    found = compare(files)
    words = ["compare", *map(str, files), "--fail-if-worse", "0"]
    lines = CliRunner().invoke(app, words).output.splitlines()
    assert len(lines) <= 12 and max(map(len, lines)) <= 100
    for result in found.results:
        estimate, pair = result.pairs[0].estimate, result.pairs[0]
        assert estimate.low is not None and estimate.high is not None
        assert estimate.p_value is not None
        assert (
            pair.is_apart
            == (estimate.p_value < 0.05)
            == (estimate.low > 0 or estimate.high < 0)
        )
    means = [result for result in found.results if result.bad is None]
    gates = CompareOptions(files=["a"], fail_if_worse=0.0)
    for (_, verdict, text), result in zip(
        gate_verdicts(found, gates), means, strict=True
    ):
        low = result.pairs[0].estimate.low or 0.0
        assert (verdict == "failed") == result.pairs[0].is_apart == (low > 0), text


def test_files_without_a_chat_are_an_error_that_shows_the_first_row(
    write: Write,
) -> None:
    files = [str(write(name, [{"id": "a", "fluency": 80}])) for name in "ab"]
    answer = CliRunner().invoke(app, ["compare", *files], catch_exceptions=True)
    assert "all 2 rows are bad" in str(answer.exception)
