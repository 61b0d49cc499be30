"""Scale and direction travel with the scores: through every kind of file, a stop, and a joined
file; a command refuses what is not stated, or stated twice and not the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from medal_judges import (
    read_dialogues,
    read_judgements,
    score_file,
    write_judgements,
)
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.records.dimension import Dimension
from medal_judges.storage.judgements import frame_dimensions, read_frame

from .forked import medal
from .talks import said

OFF_BRAND = Dimension(
    "off_brand", "binary", 0, 1, good="low", definition="Speaks badly of us."
)
RUDE = Dimension("rude", "continuous", 1, 7, good="low", definition="粗鲁")
KINDS = ("jsonl", "parquet")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A judge of two dimensions whose good end is low, short answers and long ones."""
    monkeypatch.chdir(tmp_path)
    dimensions = [OFF_BRAND.to_record(), RUDE.to_record()]
    Path("brand.yaml").write_text(json.dumps({"dimensions": dimensions}))
    features = {"log_words": {"mean": 2.2, "std": 0.6, "good": 1}}
    judge = {
        "family": "linear",
        "name": "brand",
        "rubric": "brand.yaml",
        "features": features,
    }
    Path("judge.yaml").write_text(json.dumps(judge))
    for name, words in (("short", 3), ("long", 15)):
        rows = []
        for number in range(30):
            texts = said(f"Where is order {number}?", "word " * (words + number % 4))
            rows.append(
                json.dumps({"id": f"d{number}", "lang": "en", "dialogue": texts}) + "\n"
            )
        Path(f"{name}.chats.jsonl").write_text("".join(rows))
    return tmp_path


def scored(chats: str, out: str, **options: Any) -> Path:
    score_file(f"{chats}.chats.jsonl", "judge.yaml", out, ScoreOptions(**options))
    return Path(out)


def without_dimensions(path: Path, out: str) -> str:
    rows = map(json.loads, path.read_text().splitlines())
    lines = [
        json.dumps({k: v for k, v in row.items() if k != "dimensions"}) for row in rows
    ]
    Path(out).write_text("\n".join(lines) + "\n")
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_gives_them_back(folder: Path, kind: str) -> None:
    path = scored("short", f"s.{kind}")
    assert frame_dimensions(read_frame(path)) == (OFF_BRAND, RUDE)
    judgements = list(read_judgements(path))
    assert {judgement.dimensions for judgement in judgements} == {(OFF_BRAND, RUDE)}
    chats = [dialogue.chat_hash for dialogue in read_dialogues("short.chats.jsonl")]
    assert [judgement.chat for judgement in judgements] == chats
    write_judgements("again.jsonl", judgements)
    lines = [json.loads(line) for line in Path("again.jsonl").read_text().splitlines()]
    assert ["dimensions" in line for line in lines] == [True] + [False] * 29
    assert lines[0]["dimensions"] == [OFF_BRAND.to_record(), RUDE.to_record()]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_lower_is_better_from_files_as_from_the_judge(folder: Path, kind: str) -> None:
    for name in ("short", "long"):
        scored(name, f"{name}.{kind}")
    files = [f"short=short.{kind}", f"long=long.{kind}"]
    done = medal("compare", *files, "--fail-if-worse", "0")
    assert done.returncode == 0, done.stderr
    assert "off brand: long is better than short by" in done.stdout
    done = medal("compare", *files, "--dimension", "rude")
    assert "rude: long is better than short by" in done.stdout
    done = medal("compare", *files[::-1], "--fail-if-worse", "0")
    assert done.returncode == 1 and "short is worse than long by" in done.stdout
    done = medal("report", f"short.{kind}")
    assert "1 to 7, lower is better" in done.stdout and "fewer is better" in done.stdout
    chats = ["short=short.chats.jsonl", "long=long.chats.jsonl"]
    by_judge = medal(
        "compare", *chats[::-1], "--judge", "judge.yaml", "--fail-if-worse", "0"
    )
    assert by_judge.returncode == 1
    assert "off brand: long is better than short" in by_judge.stdout


def test_what_is_not_stated_is_refused(folder: Path) -> None:
    for name in ("short", "long"):
        without_dimensions(scored(name, f"{name}.jsonl"), f"{name}0.jsonl")
    for command in (
        ("report", "short0.jsonl"),
        ("compare", "short0.jsonl", "long0.jsonl"),
    ):
        done = medal(*command)
        assert done.returncode == 2
        assert "off_brand" in done.stderr and '"dimensions": [{' in done.stderr


@pytest.mark.parametrize("kept", [0, 1, 17])
def test_a_resumed_file_is_the_whole_file(folder: Path, kept: int) -> None:
    whole = scored("short", "whole.jsonl", level="turn")
    lines = whole.read_bytes().splitlines(keepends=True)
    Path("part.jsonl").write_bytes(b"".join(lines[:kept]) + lines[kept][:-9])
    part = scored("short", "part.jsonl", level="turn")
    assert part.read_bytes() == whole.read_bytes()
