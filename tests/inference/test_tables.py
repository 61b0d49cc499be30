"""medal score into parquet and CSV, with fields kept: killed, resumed, asked again, refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from medal_judges import (
    Dialogue,
    Turn,
    read_judgements,
)
from medal_judges.cli import app
from medal_judges.inference.metadata import metadata_of

from .. import forked
from ..talks import talk

JUDGE = "configs/judges/repetition.yaml"


def chat(number: int, **fields: Any) -> Dialogue:
    texts = (f"so {k} and {number % 7}" for k in range(2 + number % 8))
    models = {"assistant": f"bot-{number % 3}"}
    meta = {"version": number % 2, "user": {"plan": "free"}, "no.dots": "=1+1"}
    return talk(*texts, id=f"d{number}", lang="en", models=models, meta=meta, **fields)


def write(path: Path, count: int) -> Path:
    path.write_text(
        "".join(json.dumps(chat(n).to_record()) + "\n" for n in range(count))
    )
    return path


def medal(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    return done.exit_code, done.stderr + str(done.exception or "")


def test_a_parquet_file_holds_what_the_lines_hold(tmp_path: Path) -> None:
    source, lines, out = (
        write(tmp_path / "in.jsonl", 60),
        tmp_path / "x.jsonl",
        "x.parquet",
    )
    given = ["score", source, "--judge", JUDGE, "--level", "turn", "--keep", "version"]
    assert medal(*given, "--out", lines)[0] == 0
    assert medal(*given, "--out", tmp_path / out)[0] == 0
    assert [*read_judgements(tmp_path / out)] == [*read_judgements(lines)]
    assert (tmp_path / "x.parquet.jsonl").read_bytes() == lines.read_bytes()
    before = (tmp_path / out).read_bytes()
    assert medal(*given, "--out", tmp_path / out)[0] == 0
    assert (tmp_path / out).read_bytes() == before


@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_a_killed_run_leaves_no_table_and_loses_nothing(
    tmp_path: Path, name: str
) -> None:
    source, out = write(tmp_path / "in.jsonl", 500), tmp_path / name
    command = [
        "score",
        source,
        "--judge",
        JUDGE,
        "--keep",
        "chatbot",
        "--level",
        "turn",
    ]
    whole = tmp_path / f"whole-{name}"
    assert medal(*command, "--out", whole)[0] == 0
    process = forked.start(*command, "--out", out, first=forked.score_slowly)
    journal = tmp_path / f"{name}.jsonl"
    while not journal.exists() or journal.stat().st_size < 60_000:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not out.exists() and journal.exists()
    resumed = forked.medal(*command, "--out", out)
    assert resumed.returncode == 0 and " from an earlier run" in resumed.stderr
    assert out.read_bytes() == whole.read_bytes()
    assert journal.exists()


def test_fields_that_can_be_kept() -> None:
    dialogue = chat(4, source="log", context={"persona": "a guest"})
    assert metadata_of(
        dialogue,
        [
            *("lang", "chatbot", "source", "version", "user.plan", "no.dots"),
            *(
                "meta.version",
                "context.persona",
                "models.assistant",
                "user",
                "none",
                "user.none",
            ),
        ],
    ) == {
        "lang": "en",
        "chatbot": "bot-1",
        "source": "log",
        "version": 0,
        "user.plan": "free",
        "no.dots": "=1+1",
        "meta.version": 0,
        "context.persona": "a guest",
        "models.assistant": "bot-1",
        "user": {"plan": "free"},
        "none": None,
        "user.none": None,
    }
    assert metadata_of(Dialogue("x", (Turn("user", "Hi"),)), ["lang"]) == {"lang": None}
