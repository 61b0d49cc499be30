"""What can be known of Windows from here: names that only POSIX has, files that are renamed while
they are open, consoles of another encoding, drive letters, CRLF."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import COMMANDS, app, main
from medal_judges.data_prep.sources.registry import parse_spec, source_of
from medal_judges.reading.dialogues import read_dialogues

from . import windows_rules

ROOT = Path(__file__).parent.parent
ROOMS = ("src", "models", "training", "data_prep", "inference", "eval", "configs")
RULES = [sys.executable, windows_rules.__file__]
SAID = [{"role": "user", "content": "Où?"}, {"role": "assistant", "content": "日本 ρ"}]


def _modules() -> dict[str, ast.Module]:
    files = sorted({path.resolve() for room in ROOMS for path in (ROOT / room).rglob("*.py")})
    return {str(path): ast.parse(path.read_text(encoding="utf-8")) for path in files}


def _posix(tree: ast.Module) -> Iterator[str]:
    """What ``tree`` uses, anywhere, that only POSIX has; ``hasattr`` asks with a text."""
    names = {each.__name__: set(names) for each, names in windows_rules.POSIX_NAMES.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from {each.name for each in node.names} & set(windows_rules.POSIX_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in windows_rules.POSIX_MODULES:
            yield node.module
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.attr in names.get(node.value.id, ())
        ):
            yield f"{node.value.id}.{node.attr}"


def test_nothing_that_only_posix_has_is_used() -> None:
    modules = _modules()
    assert len(modules) > 300
    assert {path: used for path, tree in modules.items() if (used := list(_posix(tree)))} == {}
    assert list(_posix(ast.parse("import fcntl; os.fork()"))) == ["fcntl", "os.fork"]


def test_every_module_is_imported_without_posix() -> None:
    code = """
import importlib, pkgutil, sys, warnings
sys.path.insert(0, sys.argv[1])
import windows_rules
windows_rules.without_posix()
warnings.simplefilter("ignore")
import medal_judges
names = [each.name for each in pkgutil.walk_packages(medal_judges.__path__, "medal_judges.")]
for name in names:
    # Evaluate's modules import datasets: huggingface_hub asks for termios where it is not Windows.
    if name.endswith(("__main__", "training.train")) or ".hf_evaluate." in name:
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # what derives from a tool's classes needs the tool
        if error.name.partition(".")[0] not in ("ray", "deepeval", "inspect_ai", "lm_eval"):
            raise
print(len(names))
"""
    command = [sys.executable, "-c", code, str(ROOT / "tests")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert CliRunner().invoke(app, ["init", str(tmp_path / "mine")]).exit_code == 0
    return tmp_path / "mine"


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="wants /proc")


def _by_the_rules(folder: Path, *words: str) -> None:
    done = subprocess.run([*RULES, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_proc
def test_scores_are_written_without_renaming_an_open_file(project: Path) -> None:
    score = ("score", "labelled.jsonl", "--judge", "length", "--out")
    for out in ("scores.jsonl.gz", "scores.parquet", "scores.jsonl.gz"):  # and resumed
        _by_the_rules(project, *score, out, "--level", "turn")
    assert sorted(each.name for each in project.glob("*.lock")) == []


@needs_proc
@pytest.mark.slow
def test_the_whole_project_is_run_without_renaming_an_open_file(project: Path) -> None:
    for line in _commands(project / "Makefile"):
        _by_the_rules(project, "--files", *line.split()[1:])
    stats = ("data", "stats", "labelled.jsonl", "--out", "stats")
    annotation = ("annotate", "export", "labelled.jsonl", "--out", "annotation")
    for words in (stats, annotation):
        _by_the_rules(project, "--files", *words)


def _commands(makefile: Path) -> list[str]:
    lines = makefile.read_text(encoding="utf-8").splitlines()
    return [line.strip().replace("$(MEDAL)", "medal") for line in lines if line.startswith("\t$")]


@needs_proc
def test_the_rules_are_noticed_when_they_are_broken(tmp_path: Path) -> None:
    code = f"""
import os, sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import windows_rules as rules
os.chdir({str(tmp_path)!r})
rules.watch()
with open("open.txt", "w") as stream:
    os.replace("open.txt", "other.txt")
    os.remove("other.txt")
open("a:b", "w").close()
os.mkdir("con")
os.rename("a:b", "fine.txt")
print(*sorted(rules.broken), sep="\\n")
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    lines = told.splitlines()
    assert len(lines) == 4, told
    assert lines[0].startswith("os.remove of") and lines[1].startswith("os.rename of")
    assert "'a:b'" in lines[2] and "'con'" in lines[3]


class _Console(io.TextIOWrapper):
    """A console or a file behind one of the encoding of Western Windows."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="cp1252", errors="strict", newline="\r\n")

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


def test_every_help_is_shown_on_a_console_of_cp1252(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in COMMANDS:
        code, out, _ = _medal(monkeypatch, name, "--help")
        assert code in (0, None) and b"Usage" in out, name


def test_commands_print_any_text_on_a_console_of_cp1252(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    line = {"id": "日本", "lang": "ja", "dialogue": SAID}
    Path("chats.jsonl").write_text(json.dumps(line, ensure_ascii=False) + "\n", encoding="utf-8")
    # What is data is UTF-8 wherever it goes; what is said to people is as good as the console.
    code, out, _ = _medal(monkeypatch, "score", "chats.jsonl", "--judge", "length")
    assert code in (0, None) and json.loads(out.decode("utf-8"))["id"] == "日本"
    score = ("score", "labelled.jsonl", "--judge", "length", "--out", "s.jsonl")
    assert _medal(monkeypatch, *score)[0] in (0, None)
    for words in (
        ("report", "s.jsonl", "--chats", "labelled.jsonl", "--by", "chatbot"),
        ("compare", "s.jsonl", "--chats", "labelled.jsonl", "--by", "chatbot"),
        ("agreement", "labelled.jsonl"),
        ("judges",),
        ("configs", "show", "rubrics/medal"),
        ("data", "list"),
        ("doctor",),
    ):
        code, out, err = _medal(monkeypatch, *words)
        assert code in (0, None) and out, (words, err)
    code, _, err = _medal(monkeypatch, "score", "日本.jsonl", "--judge", "length")
    assert code == 2 and b"no such file" in err


def test_drive_letters_and_backslashes_are_part_of_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = r"C:\chats\one.jsonl", r"C:\chats\other.csv.gz"
    for path in (one, other):
        assert parse_spec(path).name == path and parse_spec(f"{path}:train").split == "train"
        assert source_of(path) == source_of(f"{path}:train") == path
    assert source_of("dstc9:train") == "dstc9" and source_of("chitchat") == "chitchat"
    assert source_of("hf:ORG/NAME:train") == source_of("hf:ORG/NAME:test") == "hf:ORG/NAME"
    for command in (
        ("score", "--judge", "length", one),
        ("score", "labelled.jsonl", "--judge", r"C:\judges\mine"),
        ("data", "audit", one),
        ("train", "--config", r"C:\mine\train.yaml"),
    ):
        monkeypatch.chdir(tmp_path)
        code, _, err = _medal(monkeypatch, *command)
        assert code == 2 and command[-1] in err.decode("cp1252"), err


def test_a_file_of_crlf_reads_as_one_of_lf(tmp_path: Path, project: Path) -> None:
    lines = (project / "labelled.jsonl").read_bytes()
    crlf = tmp_path / "crlf.jsonl"
    crlf.write_bytes(lines.replace(b"\n", b"\r\n"))
    assert b"\r\n" in crlf.read_bytes()
    assert list(read_dialogues(crlf)) == list(read_dialogues(project / "labelled.jsonl"))
    for name in ("rubric.yaml", "train.yaml", "benchmark.yaml"):
        text = (project / name).read_bytes()
        (project / name).write_bytes(text.replace(b"\n", b"\r\n"))
    score = ["score", str(crlf), "--judge", "length", "--out", str(tmp_path / "s.jsonl")]
    assert CliRunner().invoke(app, score).exit_code == 0
    scored = (tmp_path / "s.jsonl").read_bytes()
    (tmp_path / "s.jsonl").write_bytes(scored.replace(b"\n", b"\r\n"))
    words = ["report", str(tmp_path / "s.jsonl"), "--rubric", str(project / "rubric.yaml")]
    assert CliRunner().invoke(app, words).exit_code == 0
