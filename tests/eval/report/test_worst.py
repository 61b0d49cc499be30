"""The worst chats as people pass them on: worst.csv and its table, as the commands write them."""

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.pages import Tree, page_text
from tests.scales import OVERALL, REPETITIVE

from medal_judges.eval.report.conversations import badness, collect, highest
from medal_judges.eval.report.figures import compute_figures
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.page import report_page
from medal_judges.eval.report.worst import WorstChat, worst_chats
from medal_judges.eval.scores.scores import load_scores
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Cause, Contributions, Judgement
from medal_judges.storage.judgements import to_frame

from ...forked import medal

NO_TURN = "none: no turn moved the score to the bad end"
NONE_STATED = "none: the judge states no reason"
RESOLVED = Dimension("resolved", "binary", 0, 1, good="high")
MONDAY = "It is on its way to you and arrives on Monday."
LINK = "=HYPERLINK(1) and then =HYPERLINK(1)"
CHATS = {
    "copy": ["Where is my parcel?", MONDAY, "To which address does it go?", MONDAY],
    "japanese": [
        "荷物はどこ。",
        "月曜日に届きます。",
        "どの住所。",
        "月曜日に届きます。",
    ],
    "formula": ["What do I type?", LINK, "And then what do I type?", LINK],
    "short": ["Can you cancel my order of last week, please, and refund it?", "Done."],
    "empty": ["Hello, are you there?", "", "Hello?", "Yes, how can I help you?"],
    "equal": ["Yes."] * 6,
    "good": [
        "I love hiking in the mountains. Do you?",
        "I do! Last summer I walked across the Pyrenees. Which mountains do you like best?",
        "The Alps, above all in autumn.",
        "Autumn in the Alps is lovely. Have you ever stayed in a hut up there?",
        "Yes, and it was great fun!",
        "That sounds wonderful. What was the food like?",
    ],
}


def dialogue(id: str, texts: Sequence[str]) -> Dialogue:
    roles = ("user", "assistant")
    turns = [Turn(roles[i % 2], text) for i, text in enumerate(texts)]
    return Dialogue(id, tuple(turns))


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as stream:
        return {row["id"]: row for row in csv.DictReader(stream)}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """worst.csv of CHATS, scored by boxed."""
    folder = tmp_path_factory.mktemp("worst")
    lines = []
    for i, (id, texts) in enumerate(CHATS.items()):
        turns = list(map(asdict, dialogue(id, texts).turns))
        meta = {"version": f"1.{i % 2}", "time": f"2026-09-{i + 1:02}"}
        lines.append(json.dumps({"id": id, "dialogue": turns, "meta": meta}))
    chats = folder / "chats.jsonl"
    chats.write_text("\n".join(lines) + "\n")
    kept = ("--keep", "version", "--keep", "time")
    done = medal("score", chats, "--out", folder / "scores.jsonl", *kept)
    assert done.returncode == 0, done.stderr
    columns = ("--by", "version", "--over", "time:week", "--out", folder / "page")
    done = medal("report", folder / "scores.jsonl", "--chats", chats, *columns)
    assert done.returncode == 0, done.stderr
    return rows_of(folder / "page/tables/worst.csv")


def test_fewer_chats_than_asked_are_all_there_the_worst_first(
    written: dict[str, dict[str, str]],
) -> None:
    assert sorted(written) == sorted(CHATS)
    scores = [float(row["score"]) for row in written.values()]
    assert scores == sorted(scores)
    for row in written.values():
        assert row["dimension"] == "overall"
        assert float(row["low"]) <= float(row["score"]) <= float(row["high"])
    assert (
        written["good"]["version"] == "1.0" and written["good"]["week"] == "2026-09-07"
    )


@pytest.mark.parametrize("id", ["copy", "japanese", "formula"])
def test_an_answer_that_comes_again_names_the_turn_that_it_repeats(
    written: dict[str, dict[str, str]], id: str
) -> None:
    row = written[id]
    assert (row["turn"], row["role"]) == ("3", "assistant")
    assert row["text"].lstrip("'") == CHATS[id][3]
    assert "repeats turn 1: 100% of its word pairs, usual 18%" in row["reason"]


def test_no_cell_is_a_formula(written: dict[str, dict[str, str]]) -> None:
    assert written["formula"]["text"] == "'" + LINK


def test_reasons_of_short_empty_and_equal_turns_are_true(
    written: dict[str, dict[str, str]],
) -> None:
    assert written["short"]["text"] == "Done."
    assert "early in a short chat" in written["short"]["reason"]
    # the centred similarity of two turns is -1, whatever they say
    assert "similarity -1" not in written["short"]["reason"]
    assert (written["empty"]["turn"], written["empty"]["text"]) == ("1", "")
    assert written["empty"]["reason"].startswith("has no words")
    assert written["equal"]["turn"] == "2"  # the first of those that cost the same
    assert written["equal"]["reason"].startswith("repeats turn 0")
    good = written["good"]
    assert (good["turn"], good["text"]) == ("", "")
    assert good["reason"] == NO_TURN


def worst_of(
    judgements: Sequence[Judgement],
    dialogues: Sequence[Dialogue] | None,
    **options: Any,
) -> tuple[list[WorstChat], str]:
    """The worst chats, and the page."""
    selection = ReportOptions(scores="scores.jsonl", **options)
    scores = load_scores(to_frame(judgements), selection, dialogues)
    worst = highest(badness(scores), 20)
    rows = collect(worst, judgements, dialogues)
    chats = worst_chats(scores, rows)
    figures = compute_figures(scores, selection)
    page = report_page("t", scores, figures, rows, worst=chats)
    return chats, page_text(page.write)


def judgement(id: str, dimensions: Sequence[Dimension], **fields: Any) -> Judgement:
    return Judgement(id, "judge:x", dimensions=tuple(dimensions), **fields)


def test_the_words_of_a_language_model_are_the_reason_and_none_is_invented() -> None:
    talk = dialogue("a", CHATS["copy"])
    same = {"dimensions": [OVERALL], "scores": {"overall": 1.5}}
    comment = {"overall": {"comment": "Contradicts itself."}}
    stated = [
        judgement("a", **same, details=comment),
        judgement("b", **same, explanation="=cmd"),
        judgement("c", **same),
    ]
    talks = [talk, dialogue("b", CHATS["copy"]), dialogue("c", CHATS["copy"])]
    chats, page = worst_of(stated, talks)
    reasons = {chat["id"]: chat["reason"] for chat in chats}
    assert reasons == {"a": "Contradicts itself.", "b": "=cmd", "c": NONE_STATED}
    assert all(chat["turn"] is None and chat["text"] is None for chat in chats)
    assert NONE_STATED in page and Tree(page).open == []


def test_a_short_answer_has_its_words_and_the_usual_number() -> None:
    causes = (Cause("log_words", math.log1p(1), math.log1p(10)),)
    account = {"overall": Contributions((0.0, -1.0), 3.0, causes=causes)}
    scores = {"overall": 2.0}
    stated = [judgement("a", [OVERALL], scores=scores, contributions=account)]
    for talks in ([dialogue("a", ["Is it open?", "No"])], None):
        chats, _ = worst_of(stated, talks)
        assert chats[0]["reason"] == "short: word count 1, usual 10"
        assert (chats[0]["turn"], chats[0]["text"]) == (1, "No" if talks else None)


def test_a_feature_without_words_has_its_name_and_an_issue_its_bad_end() -> None:
    causes = (Cause("question", 0.0, 0.5), Cause("said_before_3", 0.9, None))
    account = {"repetitive": Contributions((0.0, 2.0), -1.0, "logit", causes)}
    scores = {"repetitive": 0.7}
    stated = [judgement("a", [REPETITIVE], scores=scores, contributions=account)]
    chats, _ = worst_of(stated, None)
    assert chats[0]["turn"] == 1
    assert chats[0]["reason"] == (
        "question: 0.00, usual 0.50; repeats an earlier turn: 90% of its word triples"
    )


def test_yes_or_no_alone_has_its_tile_and_its_likeliest_fault() -> None:
    stated = []
    for i in range(8):
        scores = {"resolved": 0.9 - 0.1 * i, "repetitive": 0.05 * i}
        stated.append(judgement(f"d{i}", [RESOLVED, REPETITIVE], scores=scores))
    chats, page = worst_of(stated, None)
    assert chats[0]["id"] == "d7" and chats[0]["dimension"] == "resolved"
    assert [chat["id"] for chat in chats] == [f"d{i}" for i in range(7, -1, -1)]
    tiles = page.partition('<div class="tiles">')[2].partition("</ul>")[0]
    assert "resolved" in tiles and "more is better" in tiles
    assert "repetitive" in tiles and "the most frequent issue" in tiles


def test_the_first_turn_is_compared_with_none() -> None:
    causes = (Cause("last_partner", 0.0, 0.35), Cause("expected_reaction", 0.0, 0.2))
    account = {"overall": Contributions((-1.0, 0.5), 3.0, causes=causes)}
    scores = {"overall": 2.5}
    stated = [judgement("a", [OVERALL], scores=scores, contributions=account)]
    chats, _ = worst_of(stated, [dialogue("a", ["Welcome!", "Hello."])])
    assert (chats[0]["turn"], chats[0]["reason"]) == (0, "opens the chat")


def test_a_column_that_is_called_like_a_cell_replaces_none() -> None:
    stated = [
        judgement(
            "a", [OVERALL], scores={"overall": 2.0}, meta={"score": "x", "bot": 3}
        )
    ]
    chats, page = worst_of(stated, None, by=("score", "bot"))
    assert chats[0]["score"] == pytest.approx(2.0) and chats[0]["bot"] == "3"
    assert Tree(page).open == [] and "percentile" not in chats[0]


def test_judged_turns_and_two_dimensions_have_the_headline() -> None:
    fun = Dimension("fun", "continuous", 1, 5)
    moves = {"overall": Contributions((0.0, -1.0), 3.0)}
    stated = [
        judgement(
            "a",
            [fun, OVERALL],
            turn=1,
            scores={"fun": 1.0, "overall": 2.0},
            contributions=moves,
        ),
        judgement("a", [fun, OVERALL], turn=3, scores={"fun": 5.0, "overall": 1.0}),
    ]
    chats, page = worst_of(stated, None)
    assert [
        (chat["judged_turn"], chat["turn"], chat["dimension"]) for chat in chats
    ] == [
        (3, None, "overall"),
        (1, 1, "overall"),
    ]
    assert "judged turn" in page
    assert {chat["reason"] for chat in chats} == {NONE_STATED}
