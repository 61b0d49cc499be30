"""People's labels on a sample: matched by id, on the judge's scale, corrected figures lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medal_judges.errors import DataError
from medal_judges.eval.traffic.figures import compute_figures
from medal_judges.eval.traffic.gate import Gate
from medal_judges.eval.traffic.human import match_people, people_notes, with_people
from medal_judges.eval.traffic.reading import TrafficOptions, read_traffic
from medal_judges.eval.traffic.report import TrafficInput, TrafficRequest, report_traffic
from medal_judges.eval.traffic.traffic import Traffic
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.report.progress import ProgressBar

SAID = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
ROWS, LABELLED, BIAS = 1000, 150, 0.4


def labels(id: str, given: dict[str, list[float]], **more: Any) -> LabelledDialogue:
    return parse_labelled({"id": id, "lang": "en", "dialogue": SAID, "labels": given, **more})


@pytest.fixture(scope="module")
def judged() -> list[Judgement]:
    rng = np.random.default_rng(0)
    truth = np.clip(rng.normal(3.2, 0.6, ROWS), 1, 5 - BIAS)
    return [
        Judgement(f"d{i}", "judge:x|version:0.1.0", {"overall": float(t) + BIAS, "unsafe": 0.1})
        for i, t in enumerate(truth)
    ]


def people(judged: list[Judgement], scale: tuple[float, float] = (1, 5)) -> list[LabelledDialogue]:
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


def told(judged: list[Judgement], rows: list[LabelledDialogue]) -> Traffic:
    traffic = read_traffic(judged, None, TrafficOptions())
    return with_people(traffic, match_people("human.jsonl", rows, traffic))


@pytest.mark.parametrize("scale", [(1, 5), (0, 100)])
def test_a_judge_that_is_too_kind_is_corrected_on_any_scale(
    judged: list[Judgement], scale: tuple[float, float]
) -> None:
    found = compute_figures(told(judged, people(judged, scale)), TrafficOptions())
    truth = float(np.mean([row.scores["overall"] or 0 for row in judged])) - BIAS
    lead = found.lead("overall")
    assert lead.value == pytest.approx(truth, abs=0.05)
    assert lead.low is not None and lead.high is not None
    assert lead.low <= truth <= lead.high and lead.high - lead.low < 0.12
    assert found.overall["overall"].value == pytest.approx(truth + BIAS)
    assert found.is_corrected("overall") and not found.is_corrected("unsafe")


def test_the_gate_holds_the_corrected_figure_and_the_page_leads_with_it(
    judged: list[Judgement], tmp_path: Path
) -> None:
    rows = people(judged)
    source = TrafficInput(lambda: judged, None, people=lambda: rows, people_name="human.jsonl")
    request = TrafficRequest(gates=[Gate("under", "overall", 3.4)])
    outcome = report_traffic(source, request, tmp_path, ProgressBar("", visible=False))
    assert [gate.verdict for gate in outcome.gates] == ["failed"]  # as judged it is 3.6
    assert outcome.gates[0].text.endswith("(corrected by people's labels)")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The judge against people" in page and "People labelled 167 of 1,000" in page
    tile = page[page.index('class="tile"') :]
    assert 'figure">3.1' in tile[:300] and "corrected by people" in tile[:500]
    summary = (tmp_path / "tables" / "summary.csv").read_text().splitlines()
    assert sum(",True," in line for line in summary) == 1


def test_labels_of_other_rows_and_dimensions_are_said(judged: list[Judgement]) -> None:
    traffic = read_traffic(judged, None, TrafficOptions())
    rows = [*people(judged), labels("stranger", {"overall": [3]}), labels("d1", {"fun": [3]})]
    sample = match_people("human.jsonl", rows, traffic)
    notes = people_notes(with_people(traffic, sample), sample)
    assert "1 labelled rows are not among the scores: left out" in notes
    assert "People also labelled what was not judged: fun" in notes
    assert "People did not label unsafe: not corrected" in notes


def test_no_match_is_an_error(judged: list[Judgement]) -> None:
    traffic = read_traffic(judged, None, TrafficOptions())
    with pytest.raises(DataError, match="none of its rows is among the scores"):
        match_people("h", [labels("stranger", {"overall": [3]})], traffic)
    with pytest.raises(DataError, match="people labelled overal, which was not judged"):
        match_people("h", [labels("d1", {"overal": [3]})], traffic)
    sample = match_people("h", [labels("d1", {"overall": [80]})], traffic)
    with pytest.raises(DataError, match="overall 80 lies outside the judge's scale"):
        with_people(traffic, sample)


def test_a_sample_of_the_worst_is_no_random_sample_and_that_is_said(
    judged: list[Judgement],
) -> None:
    worst = sorted(judged, key=lambda row: row.scores["overall"] or 0)[:100]
    traffic = read_traffic(judged, None, TrafficOptions())
    sample = match_people("h", [labels(row.id, {"overall": [2]}) for row in worst], traffic)
    notes = people_notes(with_people(traffic, sample), sample)
    assert any("The labelled rows are not like the others" in note for note in notes)


def test_turns_are_matched_by_their_turn() -> None:
    given = [Judgement("d", "judge:x", {"overall": float(turn)}, turn=turn) for turn in (1, 3, 5)]
    traffic = read_traffic(given, None, TrafficOptions())
    row = labels("d", {"overall": [4]}, level="turn", dialogue=SAID * 2)
    sample = match_people("h", [row], traffic)
    assert list(sample.labelled) == [1]


def test_too_few_labels_leave_the_judges_figure(judged: list[Judgement]) -> None:
    traffic = told(judged, people(judged)[:3])
    found = compute_figures(traffic, TrafficOptions())
    assert not found.is_corrected("overall")
    assert found.lead("overall") == found.overall["overall"]
    assert found.corrected["overall"].reason == "3 labelled rows, fewer than 5"
