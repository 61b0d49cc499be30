"""Pins: what the package says today, written down, so that a refactoring can be held to it.

    PYTHONPATH=src python tests/pins.py record OUT_DIR
    PYTHONPATH=src python tests/pins.py compare OLD_DIR NEW_DIR

``record`` runs the command ``medal`` of the package that PYTHONPATH names, in a process of its own
with OUT_DIR as the working directory, and keeps what it writes there. It uses nothing but the
command line and the shipped configurations, so the same script measures any two checkouts; both
have to be measured on the same machine. Recorded are

- the dialogues: 200 of those that ``medal data plant`` makes out of chitchat's test split;
- the scores of the quickstart judge (dialogues and turns) and of human_embedded, both trained here,
  with their held-out figures; of contrast, diet and geval on the embedded language model, which
  take fewer dialogues (SLOW); and of three prompted judges on a scripted server;
- the quickstart's benchmark: results.json, the numbers of its page and of its CSV tables;
- the scores of boxed (dialogues and turns), and the numbers on the pages that ``medal report`` and
  ``medal compare`` make of them, and on the page of ``medal agreement``;
- the journal of ``medal generate`` on the scripted server, and the files made of it.

``--judges DIR`` scores the judges that an earlier record trained instead of training them again,
as long as the measured package still reads their format.
human_embedded, agreement and the benchmark's FED need MEDAL_JUDGES_DATA. OUT_DIR lies outside the
repository: it holds rows of annotated data.

``compare`` lists the differences and exits with 1 if there are any. Numbers may differ by
TOLERANCE; the journal's texts and the numbers shown on the page may not differ at all. Passed over
are times, versions, signatures and wording (IGNORED). A field or section that was renamed since
OLD_DIR was recorded is entered in RENAMED. These names stand in tests/pin_comparison.py. Both
commands take ``--only PART``, which may be repeated.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pin_comparison import counted, json_files, page_numbers, row_files, table_numbers, values

SHOWN = 20  # differences listed of one part

DIALOGUES = 200
# Judges on the embedded language model: how many dialogues, and of how many turns at most. On one
# core a dialogue of any length takes contrast 5 seconds, geval 2.5 and diet half a minute and more.
SLOW = {"contrast": (40, 14), "geval": (80, 14), "diet": (6, 8)}
# Shipped judges on the scripted server: the options of ``medal score`` that go with each.
SCRIPTED = {"medal": ["--repeats", "2"], "oralis": [], "geval": []}

TESTS = Path(__file__).resolve().parent
SERVER = TESTS / "models/llm/server.py"
AGENTS = TESTS / "data_prep/generation/agents_script.py"
QUICKSTART = Path("runs/quickstart_full")
HELD_OUT = ("agreement.json", "validation.json")
GENERATED = Path("generated")


# -- recording -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recorder:
    """Runs ``medal`` in the folder ``out``; trained judges are taken from ``judges``."""

    out: Path
    judges: Path

    def medal(self, *arguments: str | Path, may_exit: tuple[int, ...] = (0,)) -> None:
        """One command. Its own cache holds no answer that other code has kept. Exits with the
        command's last words where it fails."""
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "OPENAI_API_KEY": "none",
            "MEDAL_JUDGES_CACHE": str(self.out / "cache"),
        }
        command = [sys.executable, "-m", "medal_judges", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.out, env=environment, capture_output=True, text=True
        )
        if done.returncode not in may_exit:
            sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")

    def train(self, config: str) -> None:
        """Train a shipped config unless its judge was trained by an earlier record."""
        if self.judges == self.out:
            self.medal("train", "--config", config)

    def score(self, judge: str | Path, name: str, dialogues: str, *options: str) -> None:
        """Scores into scores/NAME.jsonl. Exit code 3, low coverage, is no failure."""
        out = self.out / "scores" / f"{name}.jsonl"
        out.parent.mkdir(exist_ok=True)
        arguments = (dialogues, "--judge", judge, "--out", out, "--overwrite", *options)
        self.medal("score", *arguments, may_exit=(0, 3))

    def shipped(self, path: str) -> Any:
        """The shipped YAML file configs/PATH of the package that is measured."""
        where = "import importlib.resources as r; print(r.files('medal_judges.configs'))"
        folder = subprocess.check_output([sys.executable, "-c", where], text=True).strip()
        return yaml.safe_load((Path(folder) / path).read_text(encoding="utf-8"))

    def write_yaml(self, name: str, settings: dict[str, Any]) -> Path:
        path = self.out / name
        path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        return path


@contextmanager
def scripted_server(**settings: Any) -> Iterator[str]:
    """The address of a server that answers by the content of the request alone."""
    command = [sys.executable, str(SERVER), json.dumps(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()


def scripted_model(name: str, url: str) -> dict[str, Any]:
    return {"backend": "openai", "model": name, "base_url": url, "cache": False}


def record_dialogues(recorder: Recorder) -> None:
    planted = QUICKSTART / "planted.jsonl"
    (recorder.out / QUICKSTART).mkdir(parents=True, exist_ok=True)
    limits = ("--min-turns", "6", "--max-turns", "30", "--split", "test", "--per-issue", "40")
    recorder.medal("data", "plant", "chitchat:test", *limits, "--out", planted)
    lines = (recorder.out / planted).read_text(encoding="utf-8").splitlines(keepends=True)
    chosen = evenly(lines, DIALOGUES)
    (recorder.out / "dialogues.jsonl").write_text("".join(chosen), encoding="utf-8")
    for judge, (count, turns) in SLOW.items():
        short = [line for line in chosen if len(json.loads(line)["dialogue"]) <= turns]
        path = recorder.out / f"dialogues_{judge}.jsonl"
        path.write_text("".join(evenly(short, count)), encoding="utf-8")


def evenly(lines: list[str], count: int) -> list[str]:
    """``count`` of the lines, at equal distances."""
    return [lines[i * len(lines) // count] for i in range(count)]


def record_boxed(recorder: Recorder) -> None:
    recorder.score("boxed", "boxed", "dialogues.jsonl")
    recorder.score("boxed", "boxed_turns", "dialogues.jsonl", "--level", "turn")


def record_pages(recorder: Recorder) -> None:
    """Report, comparison of two systems and agreement, each into a folder of its own."""
    lines = (recorder.out / "dialogues.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for name, part in (("odd", lines[1::2]), ("even", lines[::2])):
        (recorder.out / f"{name}.jsonl").write_text("".join(part), encoding="utf-8")
        recorder.score("boxed", name, f"{name}.jsonl")
    recorder.medal("report", "scores/boxed.jsonl", "--chats", "dialogues.jsonl", "--out", "report")
    recorder.medal("compare", "scores/odd.jsonl", "scores/even.jsonl", "--out", "compare")
    recorder.medal("agreement", "fed:dialogue", "--out", "agreement")


def record_quickstart(recorder: Recorder) -> None:
    recorder.train("quickstart_full")
    judge = recorder.judges / QUICKSTART / "judge"
    recorder.score(judge, "quickstart", "dialogues.jsonl")
    recorder.score(judge, "quickstart_turns", "dialogues.jsonl", "--level", "turn")


def record_human_embedded(recorder: Recorder) -> None:
    recorder.train("human_embedded")
    judge = recorder.judges / "runs/human_embedded"
    recorder.score(judge, "human_embedded", "dialogues.jsonl")


def record_slow(judge: str) -> Callable[[Recorder], None]:
    return lambda recorder: recorder.score(judge, judge, f"dialogues_{judge}.jsonl")


def record_scripted(recorder: Recorder) -> None:
    with scripted_server() as url:
        for name, options in SCRIPTED.items():
            settings = {**recorder.shipped(f"judges/{name}.yaml")}
            settings["llm"] = scripted_model("scripted", url)
            judge = recorder.write_yaml(f"scripted_{name}.yaml", settings)
            recorder.score(judge, f"scripted_{name}", "dialogues.jsonl", *options)


def record_benchmark(recorder: Recorder) -> None:
    recorder.train("baseline_length")
    recorder.train("baseline_repetition")
    settings = recorder.shipped("benchmark/quickstart_full.yaml")
    for judge in settings["judges"]:
        judge["path"] = str(recorder.judges / judge["path"])
    config = recorder.write_yaml("benchmark.yaml", settings)
    recorder.medal("benchmark", "--config", config, may_exit=(0, 3))


def record_generate(recorder: Recorder) -> None:
    """Sixteen dialogues in two languages; its agents end, repeat, stay silent and are refused."""
    with scripted_server(script=str(AGENTS)) as url:
        agents = {name: {"name": name, "llm": scripted_model(name, url)} for name in AGENT_NAMES}
        settings = {
            "name": "pins",
            "out": str(GENERATED),
            "languages": ["en", "pt"],
            "contexts": {"n": 4},
            "users": [agents["user-1"]],
            "user_judge": agents["judge"],
            "chatbots": [agents["bot-0"], agents["bot-1"]],
        }
        config = recorder.write_yaml("generate.yaml", settings)
        recorder.medal("generate", "--config", config, "--overwrite")


AGENT_NAMES = ("user-1", "judge", "bot-0", "bot-1")


# -- comparing -------------------------------------------------------------------------------------


def compare_scores(*names: str, trained: Path | None = None) -> Callable[[Path, Path], list[str]]:
    """Compares scores/NAME.jsonl, and the held-out figures of the judge in ``trained``."""

    def compare(old: Path, new: Path) -> list[str]:
        differences: list[str] = []
        for name in names:
            file = Path("scores") / f"{name}.jsonl"
            differences += row_files(old / file, new / file)
        # A record with --judges has trained none: what it scored says all there is to say.
        if trained is not None and (new / trained).is_dir():
            for name in HELD_OUT:
                differences += json_files(old / trained / name, new / trained / name)
        return differences

    return compare


def compare_dialogues(old: Path, new: Path) -> list[str]:
    return [
        *row_files(old / QUICKSTART / "planted.jsonl", new / QUICKSTART / "planted.jsonl"),
        *row_files(old / "dialogues.jsonl", new / "dialogues.jsonl"),
    ]


def compare_benchmark(old: Path, new: Path) -> list[str]:
    left, right = old / QUICKSTART, new / QUICKSTART
    return [
        *json_files(left / "results.json", right / "results.json"),
        *counted(*(page_numbers(each / "report.html") for each in (left, right))),
        *values(*(table_numbers(each / "tables") for each in (left, right)), "tables"),
    ]


def compare_pages(old: Path, new: Path) -> list[str]:
    pages = ((name, next((old / name).glob("*.html")).name) for name in PAGES)
    return [
        difference
        for name, file in pages
        for difference in counted(*(page_numbers(each / name / file) for each in (old, new)))
    ]


PAGES = ("report", "compare", "agreement")


def compare_generate(old: Path, new: Path) -> list[str]:
    left, right = old / GENERATED, new / GENERATED
    return [
        *row_files(left / "journal.jsonl", right / "journal.jsonl", in_order=False),
        *row_files(left / "dialogues.jsonl", right / "dialogues.jsonl", in_order=False),
        *row_files(left / "rejected.jsonl", right / "rejected.jsonl", in_order=False),
        *json_files(left / "summary.json", right / "summary.json"),
    ]


# -- the parts -------------------------------------------------------------------------------------

Record = Callable[[Recorder], None]
Compare = Callable[[Path, Path], list[str]]
PARTS: dict[str, tuple[Record, Compare]] = {
    "dialogues": (record_dialogues, compare_dialogues),
    "boxed": (record_boxed, compare_scores("boxed", "boxed_turns")),
    "pages": (record_pages, compare_pages),
    "generate": (record_generate, compare_generate),
    "scripted": (record_scripted, compare_scores(*(f"scripted_{name}" for name in SCRIPTED))),
    "quickstart": (
        record_quickstart,
        compare_scores("quickstart", "quickstart_turns", trained=QUICKSTART / "judge"),
    ),
    "benchmark": (record_benchmark, compare_benchmark),
    "human_embedded": (
        record_human_embedded,
        compare_scores("human_embedded", trained=Path("runs/human_embedded")),
    ),
    **{judge: (record_slow(judge), compare_scores(judge)) for judge in SLOW},
}


def record(out: Path, judges: Path | None, parts: list[str]) -> int:
    out.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(out.resolve(), (judges or out).resolve())
    where = "import medal_judges; print(medal_judges.__file__)"
    print("measuring", subprocess.check_output([sys.executable, "-c", where], text=True).strip())
    for name in parts:
        started = time.monotonic()
        PARTS[name][0](recorder)
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
    return 0


def compare(old: Path, new: Path, parts: list[str]) -> int:
    different = 0
    for name in parts:
        try:
            differences = PARTS[name][1](old, new)
        except FileNotFoundError as error:
            differences = [f"{error.filename} was not recorded"]
        print(f"{name}: {f'{len(differences)} differences' if differences else 'the same'}")
        print(*(f"  {line}\n" for line in differences[:SHOWN]), sep="", end="")
        different += len(differences)
    return 1 if different else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="See the head of this file.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--judges", type=Path, help="an earlier record, for its trained judges")
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    for each in (recording, comparing):
        each.add_argument("--only", action="append", choices=list(PARTS), metavar="PART")
    given = parser.parse_args()
    parts = given.only or list(PARTS)
    if given.command == "record":
        return record(given.out, given.judges, parts)
    return compare(given.old, given.new, parts)


if __name__ == "__main__":
    sys.exit(main())
