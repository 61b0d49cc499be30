"""The options of ``medal compare``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .files import COUNT, RECORDS, Files, read, write
from .table import medal, row, works


def overall(*words: object) -> str:
    """What is printed about overall."""
    return works("compare", *words, "--dimension", "overall").out


def result(out: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((out / "compare.json").read_text())
    return loaded


@row("compare", "--by", "--dimension")
def test_by_and_dimension(files: Files) -> None:
    both = works("compare", files.scores, "--by", "chatbot").out
    assert re.search(r"^ one +two ", both, re.MULTILINE)
    assert "unsafe: systems" in both
    assert "unsafe: systems" not in overall(files.scores, "--by", "chatbot")


@row("compare", "--judge", "--device", "--dtype", "--out")
def test_the_judge(files: Files, tmp_path: Path) -> None:
    chats = [f"a={files.chats}", f"b={files.others}"]
    overall(*chats, "--judge", "length", "--out", tmp_path / "out")
    assert "judge:length|" in (tmp_path / "out" / "compare.html").read_text()
    assert len(read(tmp_path / "out" / "scores" / "a.jsonl")) == COUNT
    few = [
        f"a={write(tmp_path / 'a.jsonl', RECORDS[:3])}",
        f"b={write(tmp_path / 'b.jsonl', RECORDS[3:6])}",
    ]
    done = works("compare", *few, "--device", "cpu", "--dtype", "bf16")
    assert "judge:boxed|" in done.out and "dtype:bf16" in done.out
    done = medal("compare", *chats, "--device", "cuda:99")
    assert done.code == 2 and "no device 'cuda:99' here" in done.err
    for option, value in (
        ("--judge", "length"),
        ("--device", "cpu"),
        ("--dtype", "bf16"),
    ):
        done = medal("compare", files.scores, files.scores2, option, value)
        assert (
            done.code == 2
            and f"{option} is for chats, and all files hold scores" in done.err
        )


@row("compare", "--human")
def test_human(files: Files) -> None:
    scores = [f"a={files.scores}", f"b={files.scores2}"]
    assert "by the judge alone" in overall(*scores)
    corrected = overall(
        *scores, "--human", f"a={files.chats}", "--human", f"b={files.others}"
    )
    assert "by the judge alone" not in corrected


@row("compare", "--chats")
def test_chats(files: Files, tmp_path: Path) -> None:
    scores = [f"a={files.scores}", f"b={files.scores2}", "--out", tmp_path]
    page = tmp_path / "compare.html"
    overall(*scores)
    assert "What about" not in page.read_text()
    overall(*scores, "--chats", files.chats, "--chats", files.others)
    assert "What about" in page.read_text() and "I like" in page.read_text()


@row("compare", "--context", "--cluster")
def test_context_and_cluster(files: Files) -> None:
    scores = [f"a={files.scores}", f"b={files.scores2}"]
    alone = overall(*scores)
    assert "unpaired, 24 and 24" in alone
    assert f"paired, {COUNT // 3} contexts" in overall(*scores, "--context", "user")
    clustered = overall(*scores, "--cluster", "user")
    first, second = (
        re.search(r" a +3.44 \[(.*?)\]", text) for text in (alone, clustered)
    )
    assert first and second and first[1] != second[1]


@row("compare", "--rubric")
def test_rubric(tmp_path: Path) -> None:
    """A rubric says which end is good."""
    for name, low in (("a", 2), ("b", 5)):
        lines = [
            {"id": f"d{n}", "turn": None, "judge": "judge:t|revision:1"}
            for n in range(20)
        ]
        scores = [
            {**line, "scores": {"tone": low + (n * low) % 4}}
            for n, line in enumerate(lines)
        ]
        write(tmp_path / f"{name}.jsonl", scores)
    rubric = tmp_path / "rubric.yaml"
    for good, better in (("low", "a is better than b"), ("high", "b is better than a")):
        dimension = f"{{name: tone, kind: ordinal, low: 1, high: 9, good: {good}}}"
        rubric.write_text(f"dimensions: [{dimension}]")
        words = [tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--rubric", rubric]
        assert f"tone: {better}" in works("compare", *words).out


@row("compare", "--bad", "--fail-if-more-bad")
def test_bad(files: Files) -> None:
    words = ["compare", f"a={files.scores2}", f"b={files.scores}", "--bad", "overall=2"]
    assert "overall below 2: systems" in works(*words).out
    assert medal(*words, "--fail-if-more-bad", 0).code == 0
    words[1:3] = reversed(words[1:3])
    assert medal(*words, "--fail-if-more-bad", 0).code == 1
    assert medal(*words, "--fail-if-more-bad", 1).code == 0


@row("compare", "--fail-if-worse", "--junit", "--min-coverage")
def test_gates(files: Files, tmp_path: Path) -> None:
    words = [
        "compare",
        f"a={files.scores}",
        f"b={files.scores2}",
        "--dimension",
        "overall",
    ]
    words += ["--junit", tmp_path / "gates.xml", "--fail-if-worse"]

    def failures() -> int:
        return len(list(ElementTree.parse(tmp_path / "gates.xml").iter("failure")))

    assert (medal(*words, 1).code, failures()) == (1, 1)
    assert (medal(*words, 3).code, failures()) == (0, 0)
    assert medal(*words, 2.14).code == 4  # undecided: inside of the interval
    first, *others = read(files.scores2)
    failed_row = {
        **first,
        "scores": dict.fromkeys(first["scores"]),
        "failure": "no answer",
    }
    words[2] = f"b={write(tmp_path / 'b.jsonl', [failed_row, *others])}"
    assert medal(*words, 3, "--min-coverage", 0.99).code == 3
    assert medal(*words, 3, "--min-coverage", 0.9).code == 0
