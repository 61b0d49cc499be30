"""A hostile support log is scored with nothing lost uncounted, and resumed after kill -9."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from tests.support_log import BROKEN, SupportLog, write_support_log

from medal_judges import read_judgements

from ..forked import medal

KEPT = ("--keep", "version", "--keep", "lang", "--keep", "user.plan")


def number_in(said: str, words: str) -> int:
    """The number that stands before ``words`` in what the command said; 0 where they do not."""
    found = re.search(rf"([\d,]+){re.escape(words)}", said)
    return 0 if found is None else int(found[1].replace(",", ""))


def require_all_counted(log: SupportLog, source: Path, out: Path, said: str) -> None:
    """Every row is judged or left out with its reason, and every message's fate is counted."""
    assert "\x1b" not in said
    judgements = [*read_judgements(out)]
    listed = [json.loads(line) for line in (out.parent / "out.skipped.jsonl").open()]
    assert log.rows == len(judgements) + len(listed)
    assert (len(judgements), len(listed)) == (log.readable, log.broken.total())
    assert number_in(said, " dialogues read") == log.readable
    assert number_in(said, " bad rows left out") == log.broken.total()
    lines = source.read_bytes().split(b"\n")
    assert all(row["file"] == str(source) and lines[row["line"] - 1] for row in listed)
    assert number_in(said, " ids made") == log.missing
    assert number_in(said, " ids numbered") == log.doubled
    assert len({judgement.id for judgement in judgements}) == log.readable
    for what, count in log.folded.items():
        assert number_in(said, f" {what}") == count, what
    failures = Counter(
        judgement.failure for judgement in judgements if not judgement.scored
    )
    assert failures == {"no assistant turn to judge": log.unanswered}
    kept = Counter(judgement.meta["lang"] for judgement in judgements)
    assert kept == log.languages
    assert {judgement.meta["user.plan"] for judgement in judgements} == {"free", "paid"}
    assert {judgement.meta["version"] for judgement in judgements} == {
        "2.0",
        "2.1",
        "2.2",
    }


def test_nothing_is_lost_uncounted(tmp_path: Path) -> None:
    source, out = tmp_path / "log.jsonl", tmp_path / "out.parquet"
    log = write_support_log(source, 700, long=2, size=200_000)
    assert (
        log.broken.keys() == BROKEN.keys()
        and log.unanswered
        and log.missing
        and log.doubled
    )
    how = ("--judge", "configs/judges/length.yaml", "--min-coverage", "0.9", *KEPT)
    done = medal("score", source, *how, "--out", out)
    assert done.returncode == 0, done.stderr
    require_all_counted(log, source, out, done.stderr)
