"""medal report as it is typed: exit codes, what is printed, files that are read twice."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

import pytest

from ...forked import medal

pytestmark = pytest.mark.usefixtures("no_figure_files")


def report(*arguments: str | Path) -> CompletedProcess[str]:
    return medal("report", *arguments)


def test_a_gate_that_fails_exits_with_1_and_shows_the_figures(
    log: tuple[Path, Path],
) -> None:
    scores, chats = log
    gates = ("--fail-under", "overall=4", "--fail-over", "unsafe=0.05")
    done = report(scores, "--chats", chats, *gates)
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("gate ")]
    assert lines[0].endswith("at least 4.00: failed")
    assert lines[1].endswith("at most 5.0%: passed")


def test_an_undecided_gate_has_a_status_of_its_own(
    log: tuple[Path, Path], tmp_path: Path
) -> None:
    few = tmp_path / "few.jsonl"
    lines = log[0].read_text().splitlines()
    judged = [
        line for line in lines if json.loads(line)["scores"]["overall"] is not None
    ][:30]
    few.write_text("\n".join(judged) + "\n")
    values = [json.loads(line)["scores"]["overall"] for line in judged]
    gate = ("--fail-under", f"overall={sum(values) / 30:.2f}")
    done = report(few, *gate)
    assert done.returncode == 4, done.stderr
    assert "undecided" in done.stdout
    assert report(few, *gate, "--fail-under", "overall=5").returncode == 1


def test_several_files_are_one_report_with_its_gates_as_junit(
    log: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = log[0].read_text().splitlines(keepends=True)
    folder = tmp_path / "weeks"
    folder.mkdir()
    (folder / "w1.jsonl").write_text("".join(lines[:60]))
    (folder / "w2.jsonl").write_text("".join(lines[60:]))
    problem = '{"file": "a", "line": 1, "problem": "b"}\n'
    (folder / "w1.skipped.jsonl").write_text(problem * 5)
    gate = ["--fail-under", "overall=4", "--min-coverage", "0", "--junit"]
    files = sorted(folder.glob("w?.jsonl"))
    both = report(*files, *gate, tmp_path / "gates.xml")
    assert both.returncode == 1 and "Unreadable lines of the input: 5." in both.stdout
    case = ElementTree.parse(tmp_path / "gates.xml").getroot()[0]
    assert case.get("classname") == "medal report.w1.jsonl.w2.jsonl"
    assert case.get("name") == "--fail-under overall=4" and case[0].tag == "failure"
    one = report(log[0], *gate, tmp_path / "one.xml")
    assert one.stdout.splitlines()[:4] == both.stdout.splitlines()[:4]
    # Issue 53, point 11: two reports of one pipeline have different cases.
    case = ElementTree.parse(tmp_path / "one.xml").getroot()[0]
    assert case.get("classname") == "medal report.scores.jsonl"
    (folder / "w3.jsonl").write_text(lines[0])
    assert "is in" in report(*files, folder / "w3.jsonl").stderr


@pytest.mark.parametrize("name", ["s.jsonl", "w.1.jsonl", "s.parquet"])
def test_unreadable_lines_are_reported_whatever_the_files_ending(
    tmp_path: Path, name: str
) -> None:
    """Issue 53, point 10."""
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    chats = tmp_path / "chats.jsonl"
    lines = [json.dumps({"id": f"d{i}", "messages": turns}) for i in range(6)]
    chats.write_text("\n".join([*lines, "{broken", ""]))
    medal("score", chats, "--judge", "length", "--out", tmp_path / name)
    assert "Unreadable lines of the input: 1." in report(tmp_path / name).stdout


def test_a_file_of_chats_is_told_from_scores(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    chats = tmp_path / "chats.jsonl"
    chats.write_text(json.dumps({"id": "a", "dialogue": turns}) + "\n")
    done = report(chats)
    assert done.returncode == 2 and f"medal score {chats} --out" in done.stderr
