"""How many functions of the package, in how many of its files, four ways pass through:

    PYTHONPATH=src python benchmarks/traced_ways.py [--functions]

The ways are training an encoder judge (``medal train``, without the check in a fresh process),
scoring with it, scoring with a prompted judge over an API (a scripted server on loopback), and a
benchmark from a judge to its page, all but the first on three dialogues, each in its own process.
Scoring is counted twice: "judge" is Judge.from_pretrained and Judge.score, from the judge's folder
or file to its judgements, and "command" all of ``medal score``, from the command line to the output
file. The benchmark is all of ``medal benchmark`` (its judge and data are new to it, so it scores
them too); "without the judge" leaves out what Judge.from_pretrained and Judge.score enter.
``--functions`` lists the functions by file.

Counted are distinct functions and methods entered in any thread (sys.setprofile,
threading.setprofile), by file and qualified name. A function is the package's if the real path of
its file, links followed, lies in src/medal_judges or in one of the folders linked there. Lambdas,
comprehensions and generator expressions count as part of the function that they stand in: they are
no further place to read, and Python 3.12 stopped giving comprehensions frames of their own. Bodies
of modules and classes, which run at import, are not counted, nor is code that stands in no file,
such as the methods that dataclasses generate. Needs Python 3.11.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

Functions = dict[str, set[str]]  # by file

SERVER = Path(__file__).resolve().parents[1] / "tests/models/llm/server.py"
DIALOGUES = 3
WORDS = ("music", "film", "garden", "train", "bread", "river")
INLINE = re.compile(r"\.<(lambda|listcomp|setcomp|dictcomp|genexpr)>|\.<locals>(?=\.<)")


# -- counting --------------------------------------------------------------------------------------


class Tracer:
    """Collects the package's functions as they are entered."""

    def __init__(self) -> None:
        import medal_judges

        package = Path(medal_judges.__file__).parent
        linked = [path.resolve() for path in package.iterdir() if path.is_symlink()]
        self.folders = [package.resolve(), *linked]
        self.files: dict[str, str | None] = {}
        self.functions: Functions = defaultdict(set)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        # The body of a module or class is not optimized: it has no fast locals.
        if event != "call" or not code.co_flags & CO_OPTIMIZED:
            return
        if code.co_filename not in self.files:
            self.files[code.co_filename] = self._package_file(code.co_filename)
        file = self.files[code.co_filename]
        name = INLINE.sub("", code.co_qualname)
        # <lambda> of a module: in no function
        if file is not None and not name.startswith("<"):
            self.functions[file].add(name)

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


def run_judge(arguments: list[str]) -> None:
    """Load the judge named first and score the dialogues of the file named second."""
    from medal_judges import Dialogue, Judge, Turn

    judge, path = arguments
    rows = map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())
    dialogues = [
        Dialogue(r["id"], tuple(Turn(**t) for t in r["dialogue"]), "en") for r in rows
    ]
    judgements = list(Judge.from_pretrained(judge).score(dialogues))
    assert all(each.failure is None for each in judgements), judgements


def traced(what: str, arguments: list[str], folder: Path) -> Functions:
    """The functions that the judge or the command enters in a fresh process, by file."""
    result = folder / "functions.json"
    checked([__file__, "--trace", str(result), what, *arguments], folder)
    return {file: set(names) for file, names in json.loads(result.read_text()).items()}


def trace(result: str, what: str, *arguments: str) -> None:
    """The fresh process of ``traced``."""
    tracer = Tracer()
    run = {"judge": run_judge, "command": run_command}[what]
    tracer.run(lambda: run(list(arguments)))
    functions = {file: sorted(names) for file, names in tracer.functions.items()}
    Path(result).write_text(json.dumps(functions), encoding="utf-8")


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


def train_encoder(folder: Path) -> tuple[str, Functions]:
    """A small judge of the quickstart's shape: its folder, and what its training enters."""
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
    config = write_yaml(folder / "train.yaml", settings)
    return settings["output_dir"], traced(
        "command", ["train", "--config", config], folder
    )


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


def score(judge: str, dialogues: str) -> list[str]:
    return [
        "score",
        dialogues,
        "--judge",
        judge,
        "--out",
        "scores.jsonl",
        "--overwrite",
    ]


def ways(folder: Path) -> Iterator[tuple[str, Functions]]:
    """Name and functions of each way."""
    dialogues = write_rows(folder / "dialogues.jsonl", DIALOGUES)
    encoder, training = train_encoder(folder)
    yield "train an encoder, command", training
    judging = traced("judge", [encoder, dialogues], folder)
    yield "encoder, judge", judging
    yield "encoder, command", traced("command", score(encoder, dialogues), folder)
    with prompted_judge(folder) as prompted:
        yield (
            "prompted over an API, judge",
            traced("judge", [prompted, dialogues], folder),
        )
        yield (
            "prompted over an API, command",
            traced("command", score(prompted, dialogues), folder),
        )
    settings = {
        "title": "Traced",
        "output_dir": str(folder / "benchmark"),
        "judges": [{"name": "judge", "path": encoder}],
        "sets": [{"name": "set", "source": dialogues, "dimensions": ["overall"]}],
    }
    config = write_yaml(folder / "benchmark.yaml", settings)
    whole = traced("command", ["benchmark", "--config", config], folder)
    yield "benchmark, command", whole
    rest = {file: names - judging.get(file, set()) for file, names in whole.items()}
    yield (
        "benchmark, without the judge",
        {file: names for file, names in rest.items() if names},
    )


def main() -> None:
    if sys.argv[1:2] == ["--trace"]:
        trace(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description="See the head of this file.")
    parser.add_argument("--functions", action="store_true", help="list them, by file")
    listed = parser.parse_args().functions
    with tempfile.TemporaryDirectory() as folder:
        for way, functions in ways(Path(folder)):
            count = sum(len(names) for names in functions.values())
            print(f"{way}: {count} functions in {len(functions)} files", flush=True)
            for file, names in sorted(functions.items()) if listed else ():
                print(f"  {file}: {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
