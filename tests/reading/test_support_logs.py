"""A hostile support log, packed and under a name that says nothing, as Python and --strict read it.

tests/inference/test_support_log.py scores it and holds every count against what was written.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.support_log import SupportLog, write_support_log
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.errors import DataError, MedalError
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.reading.report import ReadingReport


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SupportLog]:
    folder = tmp_path_factory.mktemp("logs")
    plain, packed = folder / "support.jsonl", folder / "support"
    log = write_support_log(plain, 5000, long=2)
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
    return packed, log


def test_strict_stops_at_the_first(hostile: tuple[Path, SupportLog], tmp_path: Path) -> None:
    path, _ = hostile
    asked = ["score", path, "--judge", "length", "--out", tmp_path / "o.jsonl", "--strict"]
    done = CliRunner().invoke(app, list(map(str, asked)))
    # Row 16 is the first broken one; a blank line stands behind row 0.
    assert isinstance(done.exception, DataError) and ":18: " in str(done.exception)
    assert "read as JSON lines, OpenAI messages" in str(done.exception)


def test_the_same_reading_twice_gives_the_same_ids(hostile: tuple[Path, SupportLog]) -> None:
    path, log = hostile
    first, second = ReadingReport(), ReadingReport()
    ids = [d.id for d in read_dialogues(path, reading=first)]
    assert ids == [d.id for d in read_dialogues(path, reading=second)]
    assert first == second
    assert (first.read, first.count, len(set(ids))) == (
        log.readable,
        log.broken.total(),
        first.read,
    )


@pytest.mark.slow  # the Hub is asked: 20 s where there is no network
def test_a_data_set_that_is_not_there() -> None:
    with pytest.raises(MedalError, match="hf:nobody/nothing:train"):
        list(read_dialogues("hf:nobody/nothing:train"))
