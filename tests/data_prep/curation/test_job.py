"""The command from files to files: what is written, what is left out, what is refused."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.reading.dialogues import read_labelled
from medal_judges.storage.jsonl import write_records

from .rows import labelled_pool


def curate(*arguments: object) -> str:
    """Output of ``medal curate``; raises what the command raises."""
    done = CliRunner().invoke(app, ["curate", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "labelled.jsonl"
    write_records(path, labelled_pool(1500, seed=1))
    return path


def test_what_is_written(pool: Path, tmp_path: Path) -> None:
    printed = curate(pool, "--out", tmp_path / "o", "--n", 20)
    names = {"selection.jsonl", "left_out.jsonl", "curation.json"}
    assert {path.name for path in (tmp_path / "o").iterdir()} == names
    rows = list(read_labelled(tmp_path / "o" / "selection.jsonl"))
    assert Counter(row.dialogue.lang for row in rows) == dict.fromkeys(
        ("de", "en", "es", "fr", "pt", "zh"), 20
    )
    source = {row.id: row for row in read_labelled(pool)}
    for row in rows:
        note = row.extra["curation"]
        assert (
            row.dialogue == source[row.id].dialogue
            and row.labels == source[row.id].labels
        )
        assert note["rank"] in range(1, 21)
    weights = Counter()
    for row in rows:
        weights[row.dialogue.lang] += row.extra["curation"]["weight"]
        assert note["pool"] == pytest.approx(250, abs=15)
    assert sum(weights.values()) == pytest.approx(1500, abs=40)
    report = json.loads((tmp_path / "o" / "curation.json").read_text())
    clean = [c for c in report["counts"] if c["value"] == "clean"]
    assert len(clean) == 6 and all(c["selected"] < c["pool"] for c in clean)
    assert "Effective" in printed and "120 dialogues written" in printed


def test_left_out_rows_are_listed_with_their_keyword(
    pool: Path, tmp_path: Path
) -> None:
    curate(pool, "--out", tmp_path, "--n", 5)
    lines = [
        json.loads(line)
        for line in (tmp_path / "left_out.jsonl").read_text().splitlines()
    ]
    source = {row.id: row for row in read_labelled(pool)}
    mixed = [
        i
        for i, r in source.items()
        if "Chinese" in r.extra["comments"]["uninterpretable"]
    ]
    assert sorted(line["id"] for line in lines) == sorted(mixed) and mixed
    assert {line["keyword"] for line in lines} == {"Chinese characters"}
    kept = tmp_path / "kept"
    curate(pool, "--out", kept, "--n", 5, "--keep-foreign")
    assert (kept / "left_out.jsonl").read_text() == ""


def test_the_order_of_the_file_changes_nothing(pool: Path, tmp_path: Path) -> None:
    lines = pool.read_text().splitlines(keepends=True)
    random.Random(5).shuffle(lines)
    (tmp_path / "mixed.jsonl").write_text("".join(lines))
    for name in ("selection.jsonl", "left_out.jsonl", "curation.json"):
        for source, out in ((pool, "a"), (tmp_path / "mixed.jsonl", "b")):
            if not (tmp_path / out).exists():
                curate(source, "--out", tmp_path / out, "--n", 25)
        assert (tmp_path / "a" / name).read_bytes() == (
            tmp_path / "b" / name
        ).read_bytes()
