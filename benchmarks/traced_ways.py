"""How much of the package four ways pass through:

    PYTHONPATH=src python benchmarks/traced_ways.py [--functions]

The ways are whole commands, each in its own process: ``medal score`` with ``boxed``;
``medal score`` with ``medal`` over an API (a scripted server on loopback); ``medal train`` of an
encoder (without the check in a fresh process); ``medal benchmark`` of two baselines on 240 rows.
``--functions`` lists the functions by file.

Counted are distinct functions, methods, lambdas and comprehensions entered in any thread
(sys.setprofile, threading.setprofile), by file and qualified name, and for scoring the calls that
one more chat costs (40 chats less 20 chats); a generator is called once, however many values it
gives. A function is the package's if the real path of its file, links followed, lies in
src/medal_judges or in a folder that is linked there. Bodies of modules and classes are not counted,
nor is code that stands in no file, such as the methods that dataclasses generate. Needs Python
3.11; newer versions give comprehensions no frames of their own and so count less.
"""

from __future__ import annotations

import argparse
import dis
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import yaml

Functions = dict[str, set[str]]  # by file

SERVER = Path(__file__).resolve().parents[1] / "tests/models/llm/server.py"
CHATS = 20
WORDS = ("music", "film", "garden", "train", "bread", "river")


# -- counting --------------------------------------------------------------------------------------


@cache
def first_instruction(code: CodeType) -> int:
    """Returns where the frame of ``code`` stands when it is entered for the first time."""
    return next(i.offset for i in dis.get_instructions(code) if i.opname == "RESUME")


class Tracer:
    """Collects the package's functions as they are entered."""

    def __init__(self) -> None:
        import medal_judges

        package = Path(medal_judges.__file__).parent
        linked = [path.resolve() for path in package.iterdir() if path.is_symlink()]
        self.folders = [package.resolve(), *linked]
        self.files: dict[str, str | None] = {}
        self.functions: Functions = defaultdict(set)
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        # The body of a module or class is not optimized: it has no fast locals.
        if event != "call" or not code.co_flags & CO_OPTIMIZED:
            return
        if code.co_filename not in self.files:
            self.files[code.co_filename] = self._package_file(code.co_filename)
        file = self.files[code.co_filename]
        if file is None:
            return
        self.functions[file].add(code.co_qualname)
        # A generator enters its frame again behind each yield.
        self.calls += frame.f_lasti <= first_instruction(code)

    def _package_file(self, name: str) -> str | None:
        """The file's path, from its room on; None outside the package."""
        path = Path(os.path.realpath(name))
        for folder in self.folders:
            if path.is_relative_to(folder):
                return str(path.relative_to(folder.parent))
        return None

    def run(self, call: Callable[[], Any]) -> None:
        """``call()``, traced."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]


def run_command(arguments: list[str]) -> None:
    """``medal ARGUMENTS`` in this process; SystemExit where it fails."""
    from medal_judges.cli import main

    sys.argv = ["medal", *arguments]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise


def traced(arguments: list[str], folder: Path) -> tuple[Functions, int]:
    """The functions, by file, and the calls of ``medal ARGUMENTS`` in a fresh process."""
    path = folder / "functions.json"
    checked([__file__, "--trace", str(path), *arguments], folder)
    functions, calls = json.loads(path.read_text(encoding="utf-8"))
    return functions, calls


def trace(path: str, *arguments: str) -> None:
    """The fresh process of ``traced``."""
    tracer = Tracer()
    tracer.run(lambda: run_command(list(arguments)))
    functions = {file: sorted(names) for file, names in tracer.functions.items()}
    Path(path).write_text(json.dumps([functions, tracer.calls]), encoding="utf-8")


def checked(arguments: list[str], folder: Path) -> None:
    """Python with ``arguments`` in ``folder``: no network, a cache of its own, and any API key.

    Exits with what it said where it fails.
    """
    settings = {"HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none", "OMP_NUM_THREADS": "1"}
    environment = {
        **os.environ,
        **settings,
        "MEDAL_JUDGES_CACHE": str(folder / "cache"),
    }
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


# -- the ways --------------------------------------------------------------------------------------


def write_rows(path: Path, count: int) -> str:
    """Labelled dialogues in the line format, of four turns each; the path."""
    lines = []
    for i in range(count):
        said = [
            f"{path.stem} {i}: I like the {WORDS[(i + k) % len(WORDS)]}."
            for k in range(4)
        ]
        roles = ("user", "assistant", "user", "assistant")
        row = {
            "id": f"{path.stem}-{i}",
            "source": path.stem,
            "lang": "en",
            "level": "dialogue",
            "split": "test",
            "dialogue": [
                {"role": r, "content": text}
                for r, text in zip(roles, said, strict=True)
            ],
            "models": {"assistant": f"bot-{i % 2}"},
            "labels": {"overall": [1 + i % 5, 1 + (i + 1) % 5]},
            "scales": {"overall": [1, 5]},
            "group": f"{path.stem}-{i}",
        }
        lines.append(json.dumps(row) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def write_yaml(path: Path, settings: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return str(path)


def train_encoder(folder: Path) -> list[str]:
    """The command that trains a small judge of the quickstart's shape."""
    dimensions = {"overall": "overall"}
    train = {"source": write_rows(folder / "train.jsonl", 40), "dimensions": dimensions}
    held_out = {
        "source": write_rows(folder / "held_out.jsonl", 20),
        "dimensions": dimensions,
    }
    settings = {
        "name": "traced",
        "output_dir": str(folder / "judge"),
        "rubric": "overall",
        "model": {"family": "encoder", "base": "embedded:minilm", "max_tokens": 32},
        "args": {"max_steps": 2, "per_device_train_batch_size": 8},
        "train": [train],
        "validation": [held_out],
    }
    return ["train", "--config", write_yaml(folder / "train.yaml", settings)]


@contextmanager
def prompted_judge(folder: Path) -> Iterator[str]:
    """The YAML file of a judge on a server that runs meanwhile; no answers are kept on disk."""
    process = subprocess.Popen(
        [sys.executable, str(SERVER), "{}"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        llm = {
            "backend": "openai",
            "model": "scripted",
            "base_url": url,
            "cache": False,
        }
        settings = {
            "family": "prompted",
            "name": "traced",
            "rubric": "medal",
            "prompts": "medal",
        }
        yield write_yaml(folder / "prompted.yaml", {**settings, "llm": llm})
    finally:
        process.kill()
        process.wait()


def score(judge: str, chats: str) -> list[str]:
    return ["score", chats, "--judge", judge, "--out", f"{Path(judge).stem}-{chats}"]


def benchmark(folder: Path) -> list[str]:
    """The command that compares two baselines."""
    settings = {
        "title": "Traced",
        "output_dir": str(folder / "benchmark"),
        "judges": [{"name": name, "path": name} for name in ("length", "repetition")],
        "sets": [
            {
                "name": "set",
                "source": write_rows(folder / "rated.jsonl", 240),
                "dimensions": ["overall"],
            }
        ],
    }
    return ["benchmark", "--config", write_yaml(folder / "benchmark.yaml", settings)]


def ways(folder: Path) -> Iterator[tuple[str, Functions, float | None]]:
    """Name, functions and calls a chat (of scoring) of each way."""
    write_rows(folder / "few.jsonl", CHATS)
    write_rows(folder / "many.jsonl", 2 * CHATS)
    with prompted_judge(folder) as prompted:
        for name, judge in {"boxed": "boxed", "prompted": prompted}.items():
            _, calls = traced(score(judge, "few.jsonl"), folder)
            functions, more_calls = traced(score(judge, "many.jsonl"), folder)
            yield f"score, {name}", functions, (more_calls - calls) / CHATS
    yield "train, encoder", traced(train_encoder(folder), folder)[0], None
    yield "benchmark, two baselines", traced(benchmark(folder), folder)[0], None


def main() -> None:
    if sys.argv[1:2] == ["--trace"]:
        trace(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description="See the head of this file.")
    parser.add_argument("--functions", action="store_true", help="list them, by file")
    listed = parser.parse_args().functions
    with tempfile.TemporaryDirectory() as name:
        for way, functions, calls in ways(Path(name)):
            count = sum(len(names) for names in functions.values())
            line = f"{way}: {count} functions in {len(functions)} files"
            if calls is not None:
                line += f", {calls:.0f} calls a chat"
            print(line, flush=True)
            for file, names in sorted(functions.items()) if listed else ():
                print(f"  {file}: {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
