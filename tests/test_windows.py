"""What can be tested of Windows here: names that only POSIX has, consoles of another encoding,
drive letters, CRLF."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app, main
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.records.dimension import load_rubric

SAID = [{"role": "user", "content": "Où?"}, {"role": "assistant", "content": "日本 ρ"}]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert CliRunner().invoke(app, ["init", str(tmp_path / "mine")]).exit_code == 0
    return tmp_path / "mine"


class _Console(io.TextIOWrapper):
    """A console or a file behind one of the encoding of Western Windows."""

    def __init__(self) -> None:
        super().__init__(
            io.BytesIO(), encoding="cp1252", errors="strict", newline="\r\n"
        )

    def written(self) -> bytes:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


def _medal(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[object, bytes, bytes]:
    """Exit code, standard output and standard error of a command on a console of cp1252."""
    out, err = _Console(), _Console()
    monkeypatch.setattr(sys, "argv", ["medal", *words])
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return code, out.written(), err.written()


def test_commands_print_any_text_on_a_console_of_cp1252(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    line = {"id": "日本", "lang": "ja", "dialogue": SAID}
    Path("chats.jsonl").write_text(
        json.dumps(line, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    # What is data is UTF-8 wherever it goes; what is said to people is as good as the console.
    code, out, _ = _medal(monkeypatch, "score", "chats.jsonl", "--judge", "length")
    assert code in (0, None) and json.loads(out.decode("utf-8"))["id"] == "日本"
    score = ("score", "labelled.jsonl", "--judge", "length", "--out", "s.jsonl")
    assert _medal(monkeypatch, *score)[0] in (0, None)
    for words in (
        ("report", "s.jsonl", "--chats", "labelled.jsonl", "--by", "chatbot"),
        ("compare", "labelled.jsonl", "--judge", "length", "--by", "chatbot"),
        ("agreement", "labelled.jsonl"),
        ("judges",),
        ("configs", "show", "rubrics/medal"),
        ("data", "list"),
        ("doctor", "boxed"),
    ):
        code, out, err = _medal(monkeypatch, *words)
        assert code in (0, None) and out, (words, err)
    code, _, err = _medal(monkeypatch, "score", "日本.jsonl", "--judge", "length")
    assert code == 2 and b"no such file" in err


def test_a_file_of_crlf_reads_as_one_of_lf(tmp_path: Path, project: Path) -> None:
    for name in ("labelled.jsonl", "rubric.yaml", "train.yaml", "benchmark.yaml"):
        text = (project / name).read_bytes()
        (tmp_path / name).write_bytes(text.replace(b"\n", b"\r\n"))
    crlf, scores = tmp_path / "labelled.jsonl", tmp_path / "s.jsonl"
    assert list(read_dialogues(crlf)) == list(
        read_dialogues(project / "labelled.jsonl")
    )
    score = ["score", str(crlf), "--judge", "length", "--out", str(scores)]
    assert CliRunner().invoke(app, score).exit_code == 0
    scores.write_bytes(scores.read_bytes().replace(b"\n", b"\r\n"))
    assert CliRunner().invoke(app, ["report", str(scores)]).exit_code == 0
    assert load_rubric(str(tmp_path / "rubric.yaml")) == load_rubric(
        str(project / "rubric.yaml")
    )
