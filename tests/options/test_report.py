"""The options of ``medal report``."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .files import COUNT, RECORDS, Files, read, write
from .table import medal, row, works


def page(out: Path) -> str:
    return (out / "report.html").read_text(encoding="utf-8")


def table(out: Path, name: str) -> list[list[str]]:
    """The rows below the heading."""
    with (out / "tables" / f"{name}.csv").open(encoding="utf-8") as stream:
        return list(csv.reader(stream))[1:]


def interval(text: str, dimension: str) -> str:
    """The figure of a dimension, with its interval."""
    found = re.search(rf"{dimension} is (\d.*?\])", text)
    assert found is not None, text
    return found[1]


@row("report", "--chats", "--out")
def test_the_page(files: Files, tmp_path: Path) -> None:
    works("report", files.scores, "--out", tmp_path / "plain")
    assert "What about" not in page(tmp_path / "plain")
    words = ["report", files.scores, "--chats", files.chats]
    works(*words, "--out", tmp_path / "all")
    shown = set(re.findall(r"What about \w+ \d+", page(tmp_path / "all")))
    assert len(shown) == 20
    assert len(table(tmp_path / "all", "worst")) == 20


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_chats_are_read_with_the_options_of_the_scores(
    ending: str, tmp_path: Path
) -> None:
    lines = ["ticket,day,who,what"]
    for number in range(12):
        lines.append(f"t{number},{number % 3},Kunde,Question {number}?")
        lines.append(f"t{number},{number % 3},7,Answer {number}.")
    chats, scores = tmp_path / "log.txt", tmp_path / f"scores.{ending}"
    chats.write_text("\n".join(lines))
    columns = tmp_path / "columns.yaml"
    columns.write_text("{id: ticket, role: who, content: what, roles: {Kunde: user}}")
    options = ["--format", "csv+turns", "--columns", columns, "--role", "*=assistant"]
    score = ["score", chats, "--judge", "length", "--out", scores]
    works(*score, *options)
    columns.unlink()  # the scores hold what it said
    words = ["report", scores, "--chats", chats, "--by", "day"]
    out = works(*words, "--out", tmp_path / "page").out
    assert " day " in out and "Question 11?" in page(tmp_path / "page")
    # What the user types comes first.
    typed = medal(*words, *options[:2], "--column", "id=ticket")
    assert typed.code != 0 and " day " not in typed.out
    # A run that goes on says it too, also if its first chat has changed.
    chats.write_text(
        "\n".join([*lines, "t12,0,Kunde,Hi", "t12,0,7,Hello"]).replace(
            "Answer 0", "Yes"
        )
    )
    columns.write_text("{id: ticket, role: who, content: what, roles: {Kunde: user}}")
    works(*score, *options)
    assert "13 conversations" in works(*words).out


@row("report", "--by", "--over")
def test_groups(files: Files, tmp_path: Path) -> None:
    words = [
        "report",
        files.scores,
        "--by",
        "user",
        "--over",
        "day:week",
        "--out",
        tmp_path,
    ]
    assert "From the others" in works(*words).out
    groups = {line[1] for line in table(tmp_path, "groups") if line[0] == "user"}
    assert groups == {f"u{number}" for number in range(COUNT // 3)}
    weeks = {line[0] for line in table(tmp_path, "time")}
    assert weeks == {
        "2026-10-26",
        "2026-11-02",
        "2026-11-09",
        "2026-11-16",
        "2026-11-23",
    }


@row("report", "--cluster")
def test_cluster(files: Files) -> None:
    alone = interval(works("report", files.scores).out, "overall")
    clustered = interval(
        works("report", files.scores, "--cluster", "user").out, "overall"
    )
    assert alone.split()[0] == clustered.split()[0] and alone != clustered


@row("report", "--human", "--label")
def test_human(files: Files, tmp_path: Path) -> None:
    labelled = [
        {**record, "stars": 5 - number % 2} for number, record in enumerate(RECORDS)
    ]
    for record in labelled:
        del record["labels"], record["scales"]
    human = write(tmp_path / "human.jsonl", labelled)
    words = ["report", files.scores, "--human", human, "--label", "stars=overall:1..5"]
    assert interval(works(*words).out, "overall").startswith("4.50 ")
    assert not interval(works("report", files.scores).out, "overall").startswith(
        "4.50 "
    )


@row("report", "--dimension")
def test_dimension(files: Files) -> None:
    assert "unsafe" in works("report", files.scores).out
    done = works("report", files.scores, "--dimension", "overall")
    assert "overall" in done.out and "unsafe" not in done.out


@row(
    "report",
    "--fail-under",
    "--fail-over",
    "--junit",
    "--min-coverage",
)
def test_gates(files: Files, tmp_path: Path) -> None:
    words = ["report", files.scores, "--junit", tmp_path / "gates.xml"]

    def verdicts(*gates: str) -> tuple[int, list[str]]:
        done = medal(*words, *gates)
        suite = ElementTree.parse(tmp_path / "gates.xml")
        cases = list(suite.iter("testcase"))
        failed = [
            case.attrib["name"] for case in cases if case.find("failure") is not None
        ]
        return done.code, failed

    assert verdicts("--fail-under", "overall=2", "--fail-over", "unsafe=0.9") == (0, [])
    code, failed = verdicts("--fail-under", "overall=4.5", "--fail-over", "overall=2")
    assert code == 1 and failed == ["--fail-under overall=4.5", "--fail-over overall=2"]
    mean = interval(works("report", files.scores).out, "overall").split()[0]
    assert medal(*words, "--fail-under", f"overall={mean}").code == 4
    first, *others = read(files.scores)
    failed_row = {
        **first,
        "scores": dict.fromkeys(first["scores"]),
        "failure": "no answer",
    }
    scores = write(tmp_path / "scores.jsonl", [failed_row, *others])
    gate = ["report", scores, "--fail-under", "overall=2", "--min-coverage"]
    assert (medal(*gate, 0.98).code, medal(*gate, 0.9).code) == (3, 0)


@row("report", "--bad")
def test_bad(files: Files) -> None:
    words = ["report", files.scores, "--fail-over", "bad=0.5"]
    assert "needs" not in medal(*words, "--bad", "overall=2").err
    assert medal(*words, "--bad", "overall=2").code == 0
    assert medal(*words, "--bad", "overall=4.9").code == 1
    assert (
        "overall below 4.9" in works("report", files.scores, "--bad", "overall=4.9").out
    )
    done = medal(*words)
    assert done.code == 2 and "--bad overall=1.5 --fail-over bad=0.1" in done.err


def test_junit_needs_a_gate(files: Files) -> None:
    for words in (["report", files.scores], ["compare", files.scores, files.scores2]):
        done = medal(*words, "--junit", "gates.xml")
        assert done.code == 2 and "--junit needs a gate" in done.err
