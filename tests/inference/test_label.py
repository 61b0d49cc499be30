"""medal label against a server of its own process: labels, malformed users, repeats, kills."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from click.testing import Result
from typer.testing import CliRunner

pytest.importorskip("openai", reason="the API's client is in the extra api")

from medal_judges.cli.label import label
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.labelled import LabelledDialogue

from ..forked import start

SERVER = Path(__file__).with_name("label_server.py")
FILES = ("labelled", "malformed", "unlabelled")
app = typer.Typer()
app.command()(label)


@pytest.fixture
def serve(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """A server that labels, and an own folder for its answers."""
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return partial(serve, SERVER)


def row(id: str, said: str = "", lang: str = "en", **fields: Any) -> dict[str, Any]:
    """A dialogue whose answers the server reads in ``said``."""
    user = {
        "en": "Where should we go for a walk today?",
        "de": "Wo sollen wir heute hin?",
    }[lang]
    answer = {
        "en": "Let us go down to the river then.",
        "de": "Wir gehen an den Fluss.",
    }[lang]
    return {
        "id": id,
        "source": "medal-generated",
        "lang": lang,
        "dialogue": [
            {"role": "user", "content": f"{user} ({id})"},
            {"role": "assistant", "content": f"{answer} <<{said}>>"},
        ],
        "models": {"user": "writer", "assistant": "bot"},
        "group": f"group-{id}",
        "split": "train",
        "ended": "cap",
        **fields,
    }


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


def words(file: Path, out: Path, server: Any, *more: str) -> list[str]:
    llm = [f"llm.base_url={server.root}/v1", "llm.cache=true"]
    return [str(file), "--out", str(out), *llm, *more]


def medal(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def rows_of(out: Path, name: str) -> list[LabelledDialogue]:
    return list(read_labelled(out / f"{name}.jsonl"))


MIXED = [
    row("a", "unsafe=1 overall=2"),
    row("b", "role_confusion=1", "de"),
    row("c", "overall=x", "de"),
    row("d", "wrong_language=1 role_confusion=1"),
    row("e", ",".join(f"{n}=x" for n in ("overall", "unsafe"))),
    row("f"),
]


def test_rows_are_labelled_in_order_and_malformed_ones_moved(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = medal(
        *words(write(tmp_path / "in.jsonl", MIXED), out, serve(), "--min-coverage", "0")
    )
    assert done.exit_code == 0 and "4 labelled, 2 malformed" in done.output
    kept = rows_of(out, "labelled")
    assert [r.id for r in kept] == ["a", "c", "e", "f"]
    first = kept[0]
    assert first.labels["unsafe"] == (1.0,) and first.labels["overall"] == (2.0,)
    assert first.labels["repetitive"] == (0.0,) and len(first.labels) == 10
    assert first.scales["overall"] == (1, 5) and first.scales["other"] == (0, 1)
    assert first.extra["comments"] == {
        "unsafe": "Because of unsafe.",
        "overall": "Because of overall.",
    }
    assert first.extra["labels_by"].startswith("judge:medal_gpt41|")
    assert (first.extra["ended"], first.group, first.split) == (
        "cap",
        "group-a",
        "train",
    )
    assert "overall" not in kept[1].labels and len(kept[1].labels) == 9
    assert kept[1].extra["label_failure"].startswith("overall: ")
    moved = rows_of(out, "malformed")
    assert [r.extra["malformed"]["reasons"] for r in moved] == [
        ["role_confusion"],
        ["role_confusion", "wrong_language"],
    ]
    assert (
        moved[0].extra["malformed"]["comments"]["role_confusion"]
        == "Because of role_confusion."
    )
    assert rows_of(out, "unlabelled") == []
    report = json.loads((out / "report.json").read_text())
    assert report["rows"] == {"labelled": 4, "malformed": 2}
    assert [(u["lang"], u["malformed"], u["checked"]) for u in report["users"]] == [
        ("de", 1, 2),
        ("en", 1, 4),
    ]


def test_repeats_are_values_and_their_deviation_is_the_mean_over_dialogues(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    rows = [row("a", "overall=1,3,5 unsafe=0,1,1"), row("b", "overall=4 unsafe=1,x,1")]
    out = tmp_path / "out"
    medal(*words(write(tmp_path / "in.jsonl", rows), out, serve(), "repeats=3"))
    a, b = rows_of(out, "labelled")
    assert a.labels["overall"] == (1, 3, 5) and a.labels["unsafe"] == (0, 1, 1)
    assert b.labels["overall"] == (4, 4, 4) and b.labels["unsafe"] == (1, None, 1)
    found = json.loads((out / "report.json").read_text())["std_over_repeats"]
    # Of a: overall sqrt(((1-3)^2 + 0 + (5-3)^2) / 2) = 2, unsafe sqrt((2/3) / 2); of b: 0 and 0.
    assert found["overall"] == {"std": pytest.approx(1.0), "dialogues": 2}
    assert found["unsafe"] == {"std": pytest.approx((1 / 3) ** 0.5 / 2), "dialogues": 2}
    assert found["irrelevant"]["std"] == 0


def test_a_killed_run_goes_on_and_nothing_is_answered_twice(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    rows = [
        row(f"r{n}", f"overall={1 + n % 5} role_confusion={int(n % 9 == 0)}")
        for n in range(40)
    ]
    file, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out"
    server = serve(delay=0.05)
    arguments = words(file, out, server)
    for count in (10, 45):  # while users are checked, and while labels are given
        process = start("label", *arguments)
        deadline = time.monotonic() + 60
        while server.total("answered") < count and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert not (out / "labelled.jsonl").exists()
    assert medal(*arguments).exit_code == 0
    counts = server.told("counts")
    assert {c["answered"] for c in counts.values()} == {1} and len(counts) == 40 + 35
    calm = serve()
    medal(*words(file, tmp_path / "elsewhere" / "out", calm))
    for name in FILES:
        again = (tmp_path / "elsewhere" / "out" / f"{name}.jsonl").read_bytes()
        assert (out / f"{name}.jsonl").read_bytes() == again


def test_labelled_rows_train_a_judge_which_labels_in_turn(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    from medal_judges.cli.train import train

    rows = []
    for n in range(40):
        made = row(f"r{n}", f"overall={1 + n % 5} repetitive={int(n % 5 > 2)}")
        made["dialogue"][1]["content"] += " word" * (1 + n % 5) * 3
        rows.append(made)
    file, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out"
    medal(*words(file, out, serve()))
    settings = {
        "name": "words",
        "output_dir": str(tmp_path / "run"),
        "rubric": "medal",
        "model": {
            "family": "linear",
            "vectors": False,
            "features": ["assistant.log_words"],
        },
        "train": [
            {
                "source": str(out / "labelled.jsonl"),
                "dimensions": ["overall", "repetitive"],
            }
        ],
    }
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    trainer = typer.Typer()
    trainer.command()(train)
    done = CliRunner().invoke(trainer, ["--config", str(config)])
    assert done.exit_code == 0, done.output
    judge = str(tmp_path / "run")
    assert "overall" in [d.name for d in Judge.from_pretrained(judge).dimensions]
    again = tmp_path / "again"
    medal(str(file), "--out", str(again), "--judge", judge, "--users", "skip")
    found = rows_of(again, "labelled")
    assert len(found) == 40 and found[0].extra["comments"] == {}
    means = [found[n].labels["overall"][0] for n in range(5)]
    # longer was rated higher
    assert means == sorted(means, key=float) and means[0] != means[4]
