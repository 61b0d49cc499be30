"""Statistics under curation.weight: a weight of three is the row three times."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.data_prep.corpus_stats.statistics import (
    ALL,
    CorpusStatistics,
    Distribution,
    Subset,
)
from medal_judges.errors import MedalError
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.storage.jsonl import write_records

WORDS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]


def rows(repeat: bool, weights: bool = True) -> list[LabelledDialogue]:
    """30 dialogues of two chatbots with weights of 1 to 3, or each as often as its weight says."""
    made = []
    for i in range(30):
        weight = 1 + i % 3
        said = " ".join(WORDS[: 2 + i % 7])
        record = {
            "lang": "en",
            "dialogue": [
                {"role": "user", "content": said},
                {"role": "assistant", "content": " ".join(WORDS * (1 + i % 4))},
            ][: 2 - (i % 5 == 0)],
            "models": {"assistant": f"bot-{i % 2}", "user": "people"},
            "labels": {"unsafe": [int(i % 4 == 0)], "overall": [1 + i % 5]},
            "scales": {"unsafe": [0, 1], "overall": [1, 5]},
        }
        if weights and not repeat:
            record["curation"] = {"policy": "balanced", "weight": weight}
        for k in range(weight if repeat else 1):
            made.append(parse_labelled({**record, "id": f"d{i}-{k}", "group": f"g{i}"}))
    return made


def test_a_weight_of_three_is_the_row_three_times() -> None:
    once = CorpusStatistics(rows(False), "once", lemmas=False, weights="curation")
    often = CorpusStatistics(rows(True), "often", lemmas=False)
    plain = CorpusStatistics(rows(False), "plain", lemmas=False)
    for part in (ALL, Subset("en"), Subset(chatbot="bot-1")):
        for dimension in often.labels:
            mine, theirs = (f.figure(part, dimension) for f in (once, often))
            assert mine.estimate.value == pytest.approx(theirs.estimate.value)
            assert mine.estimate.low == pytest.approx(theirs.estimate.low)  # groups are resampled
            assert mine.n == plain.figure(part, dimension).n  # rows stay rows
        for side in ("all", "user", "assistant"):
            assert once.turns(part, side).value == pytest.approx(often.turns(part, side).value)
            words = (f.length(part, "words", side).value for f in (once, often))
            assert next(words) == pytest.approx(next(words))
            assert once.mtld(part, side).value == pytest.approx(often.mtld(part, side).value)
        assert once.count(part) == plain.count(part)
    (overall,) = once.graded
    mine, theirs = (f.distribution(ALL, overall) for f in (once, often))
    assert isinstance(mine, Distribution) and isinstance(theirs, Distribution)
    assert mine.shares == pytest.approx(theirs.shares) and sum(mine.counts) == 30
    (unsafe,) = once.issues
    shares = [f.figure(ALL, unsafe).estimate.value for f in (once, plain)]
    assert shares[0] != pytest.approx(shares[1])
    assert once.together(Subset("en")).reason == "texts run together have no weights"


def test_a_share_at_its_end_has_an_interval_of_the_effective_size() -> None:
    some = [row for row in rows(False) if row.labels["unsafe"] == (0.0,)]
    found = CorpusStatistics(some, "x", lemmas=False, weights="curation")
    figure = found.figure(ALL, found.issues[0])
    weights = [row.extra["curation"]["weight"] for row in some]
    size = sum(weights) ** 2 / sum(w * w for w in weights)
    assert figure.estimate.value == 0 and size < len(some)
    assert figure.estimate.high == pytest.approx(3.841459 / (size + 3.841459), abs=1e-5)


def test_a_row_without_a_weight_is_named() -> None:
    with pytest.raises(MedalError, match=r"the row 'd0-0' has no curation\.weight"):
        CorpusStatistics(rows(True), "s", lemmas=False, weights="curation")


def test_the_command_says_when_weights_are_there_and_not_used(tmp_path: Path) -> None:
    write_records(tmp_path / "curated.jsonl", rows(False))
    command = ["data", "stats", str(tmp_path / "curated.jsonl"), "--no-lemmas", "--out"]
    plain = CliRunner().invoke(app, [*command, str(tmp_path / "plain")])
    assert plain.exit_code == 0, plain.exception
    assert "30 of 30 rows were selected by medal curate" in " ".join(plain.stdout.split())
    done = CliRunner().invoke(app, [*command, str(tmp_path / "pool"), "--weights", "curation"])
    assert done.exit_code == 0, done.exception
    pages = [(tmp_path / name / "stats.html").read_text("utf-8") for name in ("plain", "pool")]
    assert "count alike" in pages[0] and "curation.weight" in pages[1]
