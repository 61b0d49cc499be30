"""The options of ``medal compare``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .files import COUNT, Files, read, write
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
    assert "one minus two" in both
    assert "unsafe: systems" in both
    assert "unsafe: systems" not in overall(files.scores, "--by", "chatbot")


@row("compare", "--judge", "--out")
def test_the_judge(files: Files, tmp_path: Path) -> None:
    chats = [f"a={files.chats}", f"b={files.others}"]
    overall(*chats, "--judge", "length", "--out", tmp_path / "out")
    assert "judge:length|" in (tmp_path / "out" / "compare.html").read_text()
    assert len(read(tmp_path / "out" / "scores" / "a.jsonl")) == COUNT
    done = medal("compare", files.scores, files.scores2, "--judge", "length")
    assert done.code == 2 and "--judge" in done.err


@row("compare", "--human")
def test_human(files: Files) -> None:
    scores = [f"a={files.scores}", f"b={files.scores2}"]
    assert "by the judge alone" in overall(*scores)
    corrected = overall(
        *scores, "--human", f"a={files.chats}", "--human", f"b={files.others}"
    )
    assert "by the judge alone" not in corrected


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


@row("compare", "--bad", "--fail-if-more-bad")
def test_bad(files: Files) -> None:
    words = ["compare", f"a={files.scores2}", f"b={files.scores}", "--bad", "overall=2"]
    assert "overall below 2: " in works(*words).out
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
