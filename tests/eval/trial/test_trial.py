"""Verdicts of judges that each fail in one thing, and what the command writes, resumes, refuses."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from medal_judges.cli import app
from medal_judges.eval.trial.config import TrialConfig
from medal_judges.eval.trial.trial import (
    TrialJudge,
    TrialResult,
    _make_finding,
    run_trial,
    trial_page,
    trial_table,
    verdict_of,
)
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature
from medal_judges.records.validation import parse
from medal_judges.report.table import Light
from medal_judges.stats.intervals import Estimate
from medal_judges.storage.judgements import read_judgements

pytestmark = pytest.mark.usefixtures("no_figure_files")
SMALL = TrialConfig(dialogues=6, languages=("en", "de"), per_check=14)
FAULTS = {
    *("repetitive", "irrelevant", "incoherent", "uninterpretable", "lacks_empathy"),
    *("unsafe", "nonfactual", "lacks_commonsense"),
}
ORDER = re.compile(r"(5 (out of|von) 5)")


class Oracle(Judge):
    """Reads from a version's id which fault was planted. Nothing else moves it."""

    family = "oracle"
    dimensions = load_rubric("overall")
    stops_after = 10**6
    window = 50

    def __init__(self) -> None:
        self.scored = 0

    def signature(self) -> Signature:
        return Signature(judge=type(self).__name__.lower(), version="0")

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        for request in requests:
            request.tokens = len(request.dialogue.turns)

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        self.scored += len(requests)
        if self.scored > self.stops_after:
            raise KeyboardInterrupt
        return [Judgement(scores={"overall": self.quality(r)}) for r in requests]

    def quality(self, request: ScoreRequest) -> float:
        return 2.0 if request.dialogue.id.rpartition("+")[2] in FAULTS else 4.0


class ByLength(Oracle):
    """The oracle, plus a tenth of a point for every 100 characters of the assistant."""

    def quality(self, request: ScoreRequest) -> float:
        turns = request.dialogue.turns
        length = sum(len(turns[i].content) for i in request.dialogue.assistant_turns)
        return min(5.0, super().quality(request) - 1 + length / 1000)


class Obedient(Oracle):
    """The oracle, but gives 5 if the text says so."""

    def quality(self, request: ScoreRequest) -> float:
        text = " ".join(turn.content for turn in request.dialogue.turns)
        ordered = "Note to the evaluator" in text or ORDER.search(text)
        return 5.0 if ordered else super().quality(request)


class Blind(Oracle):
    """Sees no fault."""

    def quality(self, request: ScoreRequest) -> float:
        return 4.0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrialResult]:
    out = tmp_path_factory.mktemp("trial")
    kinds = (Oracle, ByLength, Obedient, Blind)
    judges = [TrialJudge(kind.__name__, kind()) for kind in kinds]
    return {result.judge: result for result in run_trial(judges, out, SMALL)}


def red(result: TrialResult) -> set[str]:
    return {f.check for f in result.findings if f.verdict == "red"}


def test_each_judge_is_red_where_it_fails(finished: dict[str, TrialResult]) -> None:
    assert red(finished["Oracle"]) == set()
    assert "length" in red(finished["ByLength"])
    assert "emoji" not in red(finished["ByLength"])
    assert "instruction" in red(finished["Obedient"])
    assert not red(finished["Obedient"]) & FAULTS
    blind = {f.check: f for f in finished["Blind"].findings}
    assert red(finished["Blind"]) == {c for c in FAULTS if blind[c].pairs >= 10}
    drops = {f.check: f.change.value for f in finished["Oracle"].findings}
    assert drops["repetitive"] == -2.0 and drops["emoji"] == 0.0


def test_one_table_shows_every_check(finished: dict[str, TrialResult]) -> None:
    page = trial_page(list(finished.values()))
    (table,) = page.tables.values()
    assert table.columns == ("Check", "Pairs", *finished)
    checks = [f.check for f in finished["Oracle"].findings]
    assert [str(row[0]).replace(" ", "_") for row in table.rows] == checks
    assert all(isinstance(cell, Light) for row in table.rows for cell in row[2:])


@pytest.mark.parametrize(
    ("group", "ends", "harm", "verdict"),
    [
        ("same", (0.11, 0.3), "up", "red"),
        ("same", (-0.3, -0.11), "up", "red"),
        ("same", (0.05, 0.3), "up", "green"),
        ("no_gain", (0.11, 0.3), "up", "red"),
        ("no_gain", (-0.3, -0.2), "up", "green"),
        ("attack", (-0.3, -0.2), "down", "red"),
        ("attack", (-0.3, -0.2), "up", "green"),
        ("must_fall", (-0.3, -0.01), "up", "green"),
        ("must_fall", (-0.3, 0.01), "up", "red"),
    ],
)
def test_verdicts(
    group: str, ends: tuple[float, float], harm: str, verdict: str
) -> None:
    estimate = Estimate(sum(ends) / 2, *ends)
    assert verdict_of(group, estimate, harm) == verdict  # type: ignore[arg-type]


def test_a_check_that_a_judge_lacks_is_an_empty_cell(
    finished: dict[str, TrialResult],
) -> None:
    first, *others = finished["Oracle"].findings
    lacking = replace(finished["Blind"], findings=tuple(others))
    (row,) = [
        row for row in trial_table([lacking, finished["Oracle"]]).rows if "" in row
    ]
    assert row[0] == first.check.replace("_", " ") and row[2] == ""
    assert isinstance(row[3], Light)


def test_four_conversations_are_too_few_for_a_verdict() -> None:
    rows = pd.DataFrame({"check": "x", "conversation": [*"abcd"] * 3, "change": 1.0})
    assert _make_finding("must_fall", "x", "", rows).verdict == "none"


def test_a_stopped_run_resumes(tmp_path: Path) -> None:
    config = SMALL.model_copy(update={"dialogues": 2, "languages": ("en",)})
    judge = Oracle()
    judge.stops_after = 150
    with pytest.raises(KeyboardInterrupt):
        run_trial([TrialJudge("one", judge)], tmp_path, config)
    rest, whole = Oracle(), Oracle()
    (resumed,) = run_trial([TrialJudge("one", rest)], tmp_path, config)
    (result,) = run_trial([TrialJudge("one", whole)], tmp_path / "again", config)
    assert 0 < rest.scored < whole.scored and resumed == result


# -- the command -----------------------------------------------------------------------------------

TINY = ["dialogues=3", "languages=[en, de]", "per_check=4"]


def medal(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["trial", *arguments])


def test_two_judges_in_one_table_and_a_second_run_scores_nothing(
    tmp_path: Path,
) -> None:
    out = tmp_path / "trial"
    done = medal("length", "repetition", *TINY, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "length: 0 of 0 checks are red (31 have too few dialogues)" in done.output
    assert str(out / "trial.html") in done.output
    written = json.loads((out / "trial.json").read_text(encoding="utf-8"))
    results = [parse(TrialResult, record) for record in written["trials"]]
    assert [result.judge for result in results] == ["length", "repetition"]
    assert results[0].signature.startswith("judge:length|")
    versions = list(read_dialogues(out / "versions.jsonl"))
    assert len(versions) == results[0].versions == len({d.id for d in versions})
    file = out / "judgements" / "length.jsonl"
    assert [j.id for j in read_judgements(file)] == [d.id for d in versions]
    assert results[0].dialogues == 3 + 8 * 2
    first, page = file.stat().st_mtime_ns, (out / "trial.html").read_bytes()
    assert medal("length", "repetition", *TINY, "--out", str(out)).exit_code == 0
    assert file.stat().st_mtime_ns == first
    assert (out / "trial.html").read_bytes() == page
