"""People's labels on a sample: matched by id, on the judge's scale, corrected figures lead."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.scales import SCALES

from medal_judges.eval.report.estimates import compute_estimates
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.report import make_report
from medal_judges.eval.scores.labels import add_labels
from medal_judges.eval.scores.scores import Scores, scores_from_frame
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.storage.jsonl import write_records
from medal_judges.storage.judgements import to_frame, write_judgements

SAID = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
ROWS, LABELLED, BIAS = 1000, 150, 0.4


def labels(id: str, given: dict[str, list[float]], **more: Any) -> LabelledDialogue:
    return parse_labelled(
        {"id": id, "lang": "en", "dialogue": SAID, "labels": given, **more}
    )


@pytest.fixture(scope="module")
def judged() -> list[Judgement]:
    rng = np.random.default_rng(0)
    truth = np.clip(rng.normal(3.2, 0.6, ROWS), 1, 5 - BIAS)
    return [
        Judgement(
            f"d{i}",
            "judge:x",
            {"overall": float(t) + BIAS, "unsafe": 0.1},
            dimensions=SCALES,
        )
        for i, t in enumerate(truth)
    ]


def people(
    judged: list[Judgement], scale: tuple[float, float] = (1, 5)
) -> list[LabelledDialogue]:
    """Every tenth row, more or less: what the judge says less its bias, two people, some noise."""
    rng = np.random.default_rng(1)
    rows = []
    for row in judged[:: ROWS // LABELLED]:
        score = row.scores["overall"]
        assert score is not None
        place = [(score - BIAS + e - 1) / 4 for e in rng.normal(0, 0.2, 2)]
        given = [scale[0] + min(max(p, 0), 1) * (scale[1] - scale[0]) for p in place]
        rows.append(labels(row.id, {"overall": given}, scales={"overall": list(scale)}))
    return rows


def labelled(judged: list[Judgement], rows: list[LabelledDialogue]) -> Scores:
    scores = scores_from_frame(to_frame(judged))
    add_labels(scores, rows, "human.jsonl")
    return scores


@pytest.mark.parametrize("scale", [(1, 5), (0, 100)])
def test_a_judge_that_is_too_kind_is_corrected_on_any_scale(
    judged: list[Judgement], scale: tuple[float, float]
) -> None:
    found = compute_estimates(labelled(judged, people(judged, scale))).total
    truth = float(np.mean([row.scores["overall"] or 0 for row in judged])) - BIAS
    lead = found.best_estimate("overall")
    assert lead.value == pytest.approx(truth, abs=0.05)
    assert lead.low is not None and lead.high is not None
    assert lead.low <= truth <= lead.high and lead.high - lead.low < 0.12
    assert found.by_judge["overall"].value == pytest.approx(truth + BIAS)
    assert found.is_corrected("overall") and not found.is_corrected("unsafe")


def test_the_gate_holds_the_corrected_figure_and_the_page_leads_with_it(
    judged: list[Judgement], tmp_path: Path
) -> None:
    write_judgements(tmp_path / "scores.jsonl", judged)
    write_records(tmp_path / "human.jsonl", people(judged))
    options = ReportOptions(
        scores=str(tmp_path / "scores.jsonl"),
        human=str(tmp_path / "human.jsonl"),
        fail_under=("overall=3.4",),
        out=tmp_path,
    )
    outcome = make_report(options, ReadingReport())
    assert [gate.verdict for gate in outcome.gates] == ["failed"]  # as judged it is 3.6
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (
        "prediction-powered inference" in page and "167 of 1,000 dialogues have" in page
    )
    assert "overall is 3.1" in page and "human labels correct it" in page
    lines = (tmp_path / "tables" / "estimates.csv").read_text().splitlines()
    corrected = [line.split(",")[4] for line in lines if ",corrected," in line]
    assert corrected == ["overall"]


def test_turns_are_matched_by_their_turn() -> None:
    given = [
        Judgement(
            "d", "judge:x", {"overall": float(turn)}, turn=turn, dimensions=SCALES
        )
        for turn in (1, 3, 5)
    ]
    scores = scores_from_frame(to_frame(given))
    row = labels("d", {"overall": [4]}, level="turn", dialogue=SAID * 2)
    add_labels(scores, [row], "h")
    assert np.flatnonzero(np.isfinite(scores.people["overall"])).tolist() == [1]
