"""``medal report`` on 10,000 conversations (size of the page, how soon Chromium shows it) and on
1,000,000 judgements (peak memory, beside 1,000), each in a process of its own.

python benchmarks/report.py page [--rows 10000]
python benchmarks/report.py memory [--many 1000000] [--few 1000]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

# beside a package of that name
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import DESKTOP, Browser

from medal_judges.records.dimension import load_rubric

_REPORT = "from medal_judges.cli import main; main()"
ISSUES = (
    "unsafe",
    "lacks_empathy",
    "repetitive",
    "incoherent",
    "irrelevant",
    "nonfactual",
)
STATUS = "document.querySelector('#conversation-list .count')?.textContent"


def write_traffic(
    folder: Path, rows: int, turns: tuple[int, int], *, brief: bool
) -> None:
    """chats.jsonl and scores.jsonl; texts are sentences of random words, 30 to 400 characters, so
    that they pack no better than real ones. ``brief``: without contributions and reasons."""
    rng = random.Random(0)
    words = [
        "".join(rng.choices("etaoinshrdlucmfwyp", k=rng.randint(2, 9)))
        for _ in range(8000)
    ]
    weights = [1 / (1 + i) for i in range(len(words))]  # Zipf
    drawn = rng.choices(words, weights, k=500_000)
    chats, scores = (folder / f"{name}.jsonl" for name in ("chats", "scores"))
    with chats.open("w") as said, scores.open("w") as judged:
        for i in range(rows):
            lines = []
            for k in range(2 * rng.randint(*turns)):
                start, length = rng.randrange(499_000), rng.randint(5, 60)
                role = "user" if k % 2 == 0 else "assistant"
                lines.append(
                    {"role": role, "content": " ".join(drawn[start : start + length])}
                )
            when = datetime(2026, 1, 1) + timedelta(minutes=rng.randrange(60 * 24 * 90))
            meta = {"version": rng.choice(["1.9", "2.0"]), "time": when.isoformat()}
            row = {"id": f"conversation-{i:07d}", "lang": rng.choice(["en", "de"])}
            said.write(json.dumps(row | {"dialogue": lines, "meta": meta}) + "\n")
            given = {"overall": rng.uniform(1, 5)} | {
                name: rng.random() ** 4 for name in ISSUES
            }
            line = row | {
                "turn": None,
                "judge": "judge:x|version:0.1.0",
                "scores": given,
            }
            line["meta"] = meta | {"lang": line.pop("lang")}
            if i == 0:  # the first line states the dimensions
                rubric = load_rubric("medal", list(given))
                line["dimensions"] = [dimension.to_record() for dimension in rubric]
            if not brief:
                line["explanation"] = " ".join(drawn[i : i + 20])
                line["contributions"] = {
                    name: {
                        "baseline": 3.0,
                        "unit": "score",
                        "turns": [round(rng.gauss(0, 0.2), 6) for _ in lines],
                    }
                    for name in given
                }
            judged.write(json.dumps(line) + "\n")


def report(*arguments: str | Path) -> tuple[float, float]:
    """(Peak resident memory in MB, seconds) of the command in a child process."""
    command = [sys.executable, "-c", _REPORT, "report", *map(str, arguments)]
    runner = [sys.executable, __file__, "child", *command]
    start = time.perf_counter()
    done = subprocess.run(
        runner, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return int(done.stdout) / 1024, time.perf_counter() - start


def page(rows: int) -> None:
    """The page of ``rows`` conversations of 2 to 20 turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_traffic(folder, rows, (1, 10), brief=False)
        size = (folder / "chats.jsonl").stat().st_size / 1e6
        out = folder / "report"
        asked = (
            "--chats",
            folder / "chats.jsonl",
            "--by",
            "version",
            "--over",
            "time:day",
        )
        memory, seconds = report(folder / "scores.jsonl", *asked, "--out", out)
        made = out / "report.html"
        print(
            f"{rows:,} conversations, {size:.1f} MB of chats: {seconds:.1f} s, {memory:.0f} MB"
        )
        print(f"page {made.stat().st_size / 1e6:.1f} MB")
        browser = Browser(folder / "profile")
        for _ in range(3):
            start = time.perf_counter()
            browser.open(made, DESKTOP, "light")
            browser.wait_for(f"{STATUS} && {STATUS}.includes(' of ')")
            shown = time.perf_counter() - start
            start = time.perf_counter()
            browser.ask("document.querySelector('.conversation').open = true")
            browser.wait_for("document.querySelector('.conversation .turn') !== null")
            opened = time.perf_counter() - start
            start = time.perf_counter()
            browser.ask(
                "(() => { const e = document.querySelector('.controls input');"
                " e.value = 'conversation-0000001'; e.dispatchEvent(new Event('input'));"
                " })()"
            )
            browser.wait_for(f"{STATUS}.startsWith('1 of ')")
            searched = time.perf_counter() - start
            print(f"shown in {shown:.2f} s, one opened in {opened:.2f} s")
            print(
                f"first search {searched:.2f} s (0.25 s of it waiting for more letters)"
            )
        browser.close()


def memory(many: int, few: int) -> None:
    """Peak memory and time of both, with groups, a timeline and the page."""
    for rows in (few, many):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_traffic(folder, rows, (1, 2), brief=True)
            asked = (
                "--chats",
                folder / "chats.jsonl",
                "--by",
                "version",
                "--over",
                "time:week",
            )
            peak, seconds = report(
                folder / "scores.jsonl", *asked, "--out", folder / "report"
            )
            print(f"{rows:,} judgements: {peak:.0f} MB, {seconds:.1f} s")


def child(command: list[str]) -> None:
    """Run the command and print its peak memory in kB."""
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


if __name__ == "__main__":
    if sys.argv[1] == "child":
        child(sys.argv[2:])
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("what", choices=["page", "memory"])
        parser.add_argument("--rows", type=int, default=10_000)
        parser.add_argument("--many", type=int, default=1_000_000)
        parser.add_argument("--few", type=int, default=1000)
        given = parser.parse_args()
        if given.what == "page":
            page(given.rows)
        else:
            memory(given.many, given.few)
