"""The page of a traffic report: well formed, inert, complete, and short in the terminal."""

import csv

import pytest
from tests.eval.report.support_log import HOSTILE
from tests.pages import Tree, page_text
from tests.scales import SCALES

from medal_judges.eval.report.estimates import compute_estimates
from medal_judges.eval.report.page import report_page
from medal_judges.eval.report.report import Report
from medal_judges.eval.report.worst import collect_worst_candidates
from medal_judges.eval.scores.scores import scores_from_frame
from medal_judges.records.judgement import Judgement
from medal_judges.storage.judgements import to_frame


def test_the_page_is_well_formed_and_hostile_text_is_text(outcome: Report) -> None:
    assert outcome.page is not None
    page = outcome.page.read_text(encoding="utf-8")
    elements = Tree(page)
    assert elements.open == []
    ids = [attrs["id"] for _, attrs in elements.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {attrs["href"].lstrip("#") for tag, attrs in elements.tags if tag == "a"}
    assert links == {"summary", "worst", "by-version", "by-lang", "time", "facts"}
    assert [tag for tag, _ in elements.tags].count("script") == 1
    for tag, attrs in elements.tags:
        assert tag != "img" or attrs["src"].startswith("data:image/svg+xml")
        assert not any(name.startswith("on") for name in attrs)
    assert "default-src 'none'" in page
    assert any(HOSTILE in text for tag, text in elements.data if tag != "script")
    # It begins with a picture, and the signature is at its end.
    assert page.index('<img class="figure"') < page.index("overall is ")
    assert page.index("judge:demo") > page.index('id="facts"')
    assert "The same advice comes back." in page


def test_tables_and_the_picture_lie_beside_the_page(outcome: Report) -> None:
    assert outcome.page is not None
    tables, figures = outcome.page.parent / "tables", outcome.page.parent / "figures"
    names = {path.stem for path in tables.glob("*.csv")}
    assert names == {"estimates", "worst"}
    assert {path.stem for path in figures.glob("*.png")} == {"scores"}
    for path in tables.glob("*.csv"):
        with path.open(newline="") as stream:
            heads, *cells = csv.reader(stream)
        assert all(len(line) == len(heads) for line in cells)
    with (tables / "estimates.csv").open(newline="") as stream:
        lines = {}
        for line in csv.DictReader(stream):
            if (line["group"], line["what"]) == ("all", "judged"):
                lines[line["dimension"]] = line
    estimate = outcome.estimates.total.by_judge["overall"]
    assert float(lines["overall"]["value"]) == pytest.approx(estimate.value)
    assert float(lines["overall"]["low"]) == pytest.approx(estimate.low)


def draw(given: list[Judgement]) -> str:
    scores = scores_from_frame(to_frame(given))
    worst = collect_worst_candidates(scores, given, None)
    page = report_page("t", scores, compute_estimates(scores), [], worst, [])
    return page_text(page.write)


def test_an_empty_file_one_chat_and_nothing_scored_are_pages() -> None:
    text = draw([])
    assert Tree(text).open == [] and "no judgements: nothing to report on" in text
    text = draw([Judgement("d", "judge:x", {"overall": 4.0}, dimensions=SCALES)])
    assert Tree(text).open == [] and "no interval: 1 rows, fewer than 5" in text
    assert "give the scored chats with --chats" in text
    text = draw([Judgement("d", "judge:x", {"overall": None}, failure="server down")])
    assert Tree(text).open == []
    assert "1 of 1 are not scored in full: 1 × server down." in text
