"""The page of a traffic report: well formed, inert, complete, the worst always kept."""

import base64
import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.eval.report.support_log import HOSTILE
from tests.pages import Tree, page_text
from tests.scales import SCALES

from medal_judges.eval.report.conversations import badness, collect, select
from medal_judges.eval.report.figures import compute_figures
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.page import _timeline_axis, report_page
from medal_judges.eval.report.report import Report
from medal_judges.eval.scores.scores import Scores, load_scores
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.report.page import shortened
from medal_judges.report.table import ends_of
from medal_judges.storage.judgements import read_judgements, to_frame


def blocks(page: str) -> dict[str, Any]:
    """The data blocks of a page by their id."""
    found = re.findall(
        r'<script type="application/json" id="([^"]+)">(.*?)</script>', page
    )
    return {name: json.loads(text) for name, text in found}


def details(parts: list[str]) -> list[dict[str, Any]]:
    unpacked = [json.loads(gzip.decompress(base64.b64decode(part))) for part in parts]
    return [each for part in unpacked for each in part]


@pytest.fixture(scope="module")
def page(outcome: Report) -> str:
    assert outcome.page is not None
    return outcome.page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def elements(page: str) -> Tree:
    return Tree(page)


def test_tags_nest_ids_are_unique_and_links_lead_somewhere(elements: Tree) -> None:
    assert elements.open == []
    ids = [attrs["id"] for _, attrs in elements.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    anchors = {
        (attrs["href"]).lstrip("#") for tag, attrs in elements.tags if tag == "a"
    }
    assert anchors <= set(ids)
    assert {"summary", "time", "by-version", "by-lang", "conversations"} <= anchors


def test_hostile_text_is_text(page: str, elements: Tree) -> None:
    scripts = [attrs for tag, attrs in elements.tags if tag == "script"]
    data = "application/json"
    assert [attrs.get("type") for attrs in scripts] == [data, data, None]
    assert not any(tag == "img" for tag, _ in elements.tags)
    assert not any(
        name.startswith("on") for _, attrs in elements.tags for name in attrs
    )
    assert "default-src 'none'" in page
    index = blocks(page)["conversation-index"]
    assert any(id.startswith(HOSTILE) for id in index["id"])
    assert HOSTILE in index["columns"]["version"]["names"]
    assert any(
        HOSTILE in text for tag, text in elements.data if tag not in ("script", "style")
    )


def test_the_index_and_the_parts_hold_every_conversation(
    page: str, outcome: Report, log: tuple[Path, Path]
) -> None:
    found = blocks(page)
    index, told = found["conversation-index"], details(found["conversation-parts"])
    dialogues = {d.id: d for d in read_dialogues(log[1])}
    judged = {j.id: j for j in read_judgements(log[0])}
    assert sorted(index["id"]) == sorted(dialogues) and len(told) == len(dialogues)
    for place, (id, detail) in enumerate(zip(index["id"], told, strict=True)):
        dialogue, judgement = dialogues[id], judged[id]
        said = [[turn.role == "assistant", turn.content] for turn in dialogue.turns]
        assert detail["turns"] == said
        score = judgement.scores["overall"]
        shown = index["scores"]["overall"][place]
        assert shown == (None if score is None else pytest.approx(score, abs=6e-4))
        assert ["", judgement.explanation] in detail["reasons"]
        if judgement.contributions:
            assert len(detail["contributions"]["overall"][1]) == len(said)
    overall = [score for score in index["scores"]["overall"] if score is not None]
    assert np.all(np.diff(overall) >= 0)  # the worst first
    assert index["scores"]["overall"][-7:] == [None] * 7
    assert "user" in index["columns"] and "lang" in index["columns"]


def test_tables_and_pictures_lie_beside_the_page(outcome: Report) -> None:
    assert outcome.page is not None
    tables, figures = outcome.page.parent / "tables", outcome.page.parent / "figures"
    assert {path.stem for path in tables.glob("*.csv")} == {
        "summary",
        "groups",
        "time",
        "changes",
        "worst",
    }
    assert {path.stem for path in figures.glob("*.png")} == {
        "distribution",
        "time",
        "graded",
        "issues",
        "by-version",
        "by-lang",
    }
    for path in tables.glob("*.csv"):
        with path.open(newline="") as stream:
            heads, *cells = csv.reader(stream)
        # no column without a name
        assert all(len(line) == len(heads) for line in cells)
    with (tables / "summary.csv").open(newline="") as stream:
        lines = {line["dimension"]: line for line in csv.DictReader(stream)}
    estimate = outcome.figures.overall["overall"]
    assert float(lines["overall"]["value"]) == pytest.approx(estimate.value)
    assert float(lines["overall"]["low"]) == pytest.approx(estimate.low)


def test_a_distribution_has_shares_of_conversations_and_no_running_sum(
    page: str,
) -> None:
    shares = re.findall(r"([0-9.]+)% of conversations have a score of", page)
    assert abs(sum(map(float, shares)) - 100) < 1


def test_more_than_fit_are_sampled_and_the_worst_kept(
    outcome: Report, log: tuple[Path, Path]
):
    scores = outcome.scores
    rows = select(scores, 100)
    assert len(rows) == len(set(rows.tolist())) == 100
    bad = badness(scores)
    worst = np.argsort(np.where(np.isnan(bad), -1, bad))[::-1][:50]
    assert set(worst.tolist()) <= set(rows.tolist())
    assert select(scores, 100).tolist() == rows.tolist()
    found = collect(rows, read_judgements(log[0]), read_dialogues(log[1]))
    text = page_text(report_page("t", scores, outcome.figures, found).write)
    assert (
        "100 of 700 conversations are on this page: the worst, the least certain"
        in text
    )
    assert len(blocks(text)["conversation-index"]["id"]) == 100


def test_long_texts_are_cut_and_counted() -> None:
    turns = Turn("user", "a" * 10), Turn("assistant", "b" * 1_000_000)
    short, cut = shortened(Dialogue("d", turns), 1000)
    first = ("user", "a" * 10)
    assert short == [first, ("assistant", "b" * 500 + " … (999,500 more)")]
    assert cut == 999_500
    assert shortened(Dialogue("d", turns[:1]), 1000) == ([first], 0)


def test_a_page_that_would_be_too_heavy_cuts_texts_shorter(
    monkeypatch: pytest.MonkeyPatch, outcome: Report, log: tuple[Path, Path]
) -> None:
    rows = select(outcome.scores, 50)
    monkeypatch.setattr("medal_judges.eval.report.conversations.MOST_CHARACTERS", 5000)
    found = collect(rows, read_judgements(log[0]), read_dialogues(log[1]))
    assert list(found) == rows.tolist() and any(each.cut for each in found.values())


def _page(given: list[Judgement]) -> tuple[Scores, str]:
    options = ReportOptions(scores="scores.jsonl")
    scores = load_scores(to_frame(given), options)
    found = collect(select(scores, 100), given, None)
    figures = compute_figures(scores, options)
    return scores, page_text(report_page("t", scores, figures, found).write)


def test_an_empty_file_one_chat_and_nothing_scored_are_pages() -> None:
    _, text = _page([])
    assert Tree(text).open == [] and "no judgements: nothing to report on" in text
    _, text = _page([Judgement("d", "judge:x", {"overall": 4.0}, dimensions=SCALES)])
    assert Tree(text).open == [] and "no interval: 1 rows, fewer than 5" in text
    assert "give the scored chats with --chats" in text
    scores, text = _page(
        [Judgement("d", "judge:x", {"overall": None}, failure="server down")]
    )
    assert Tree(text).open == []
    assert "1 of 1 are not scored in full: 1 × server down." in text
    assert scores.dimensions == {}


def test_signatures_and_the_accounts_of_turns_are_under_how_to_read_this(
    page: str, outcome: Report
) -> None:
    facts = page.partition('<section id="facts"')[2]
    assert "How to read this</h2>" in facts and "judge:demo" in facts
    assert page.index("judge:demo") > page.index('<section id="facts"')
    assert "leaks private data" in page and "a short answer that is right" in page


def test_the_timeline_shows_what_the_means_span(outcome: Report) -> None:
    timeline = outcome.figures.timeline
    assert timeline is not None
    axis = _timeline_axis(outcome.scores, timeline, "overall")
    ends = ends_of(timeline.figures["overall"])
    low, high = axis.span
    assert 1 <= low < min(ends) < max(ends) < high <= 5
    assert high - low < 1.11 * (max(ends) - min(ends))
