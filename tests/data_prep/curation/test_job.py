"""The command from files to files: what is written, what is left out, what is refused."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.data_prep.curation.report import evenness
from medal_judges.errors import ConfigError, DataError, MedalError
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records

from .rows import labelled, labelled_pool


def curate(*arguments: object) -> str:
    """Output of ``medal curate``; raises what the command raises."""
    done = CliRunner().invoke(app, ["curate", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def write(path: Path, *rows: LabelledDialogue) -> Path:
    write_records(path, rows)
    return path


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
    assert "Evenness" in printed and "120 dialogues written" in printed


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


def test_missing_labels_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [
        labelled("a"),
        labelled("b", overall=None),
        labelled("c", labels={"unsafe": [None]}),
    ]
    printed = curate(
        write(tmp_path / "in.jsonl", *rows), "--out", tmp_path / "o", "--n", 3
    )
    left = [
        json.loads(x)
        for x in (tmp_path / "o" / "left_out.jsonl").read_text().splitlines()
    ]
    assert [(x["id"], x["detail"]) for x in left] == [
        ("b", "no answer for overall"),
        ("c", "no answer for unsafe"),
    ]
    assert "2 in en, missing label" in printed


def test_unlabelled_dialogues_are_refused(tmp_path: Path) -> None:
    bare = LabelledDialogue(labelled("d").dialogue, {}, {}, group="d")
    with pytest.raises(DataError, match="1 left out"):
        curate(write(tmp_path / "in.jsonl", bare), "--out", tmp_path / "o")


def test_what_is_refused(pool: Path, tmp_path: Path) -> None:
    curate(pool, "--out", tmp_path, "--n", 2)
    with pytest.raises(ConfigError, match="exists already"):
        curate(pool, "--out", tmp_path, "--n", 2)
    curate(pool, "--out", tmp_path, "--n", 2, "--overwrite")
    with pytest.raises(DataError, match="two rows have the id"):
        curate(pool, pool, "--out", tmp_path / "x")
    with pytest.raises(DataError, match="languages there: de"):
        curate(pool, "--out", tmp_path / "x", "--lang", "xx")
    for option in (("--seed", "-1"),):
        asked = ["curate", str(pool), "--out", str(tmp_path / "x"), *option]
        assert CliRunner().invoke(app, asked).exit_code == 2
    assert not (tmp_path / "x").exists()


def test_evenness_by_hand() -> None:
    assert evenness([5, 5, 5]) == pytest.approx(1)
    assert evenness([9, 0]) == 0
    # shares 3/4 and 1/4: entropy 0.5623 of log 2 = 0.6931
    assert evenness([3, 1]) == pytest.approx(0.8113, abs=1e-4)
    assert evenness([4]) is None and evenness([0, 0]) is None


def test_bad_lines_are_counted_when_asked(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", labelled("a"), labelled("b"))
    source.write_text(source.read_text() + '{"id": 3}\n')
    with pytest.raises(MedalError, match=r"in\.jsonl:3"):
        curate(source, "--out", tmp_path / "o", "--strict")
    printed = curate(source, "--out", tmp_path / "o")
    assert "1 bad rows left out" in printed
