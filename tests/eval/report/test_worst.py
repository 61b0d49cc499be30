"""The worst chats as people pass them on: their order, their turns, and true reasons in words."""

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.scales import OVERALL, REPETITIVE

from medal_judges.eval.report.reasons import (
    NO_TURN,
    NONE_STATED,
    OWN_WORDS,
    UNANSWERED,
)
from medal_judges.eval.report.worst import (
    WorstChat,
    collect_worst,
    group_by_mechanism,
)
from medal_judges.eval.scores.scores import load_scores
from medal_judges.models.base.judge import NO_ASSISTANT_TURN
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Cause, Contributions, Judgement
from medal_judges.storage.judgements import to_frame

from ...forked import medal

RESOLVED = Dimension("resolved", "binary", 0, 1, good="high")
MONDAY = "It is on its way to you and arrives on Monday."
LINK = "=HYPERLINK(1) and then =HYPERLINK(1)"
CHATS = {
    "copy": ["Where is my parcel?", MONDAY, "To which address does it go?", MONDAY],
    "formula": ["What do I type?", LINK, "And then what do I type?", LINK],
    "short": ["Can you cancel my order of last week, please, and refund it?", "Done."],
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


def judgement(id: str, dimensions: Sequence[Dimension], **fields: Any) -> Judgement:
    return Judgement(id, "judge:x", dimensions=tuple(dimensions), **fields)


def worst_of(
    judgements: Sequence[Judgement], dialogues: Sequence[Dialogue] | None = None
) -> list[WorstChat]:
    scores = load_scores(to_frame(judgements), dialogues)
    return collect_worst(scores, judgements, dialogues)


def test_the_worst_chats_of_boxed(tmp_path: Path) -> None:
    lines = []
    for i, (id, texts) in enumerate(CHATS.items()):
        turns = list(map(asdict, dialogue(id, texts).turns))
        meta = {"version": f"1.{i % 2}"}
        lines.append(json.dumps({"id": id, "dialogue": turns, "meta": meta}))
    chats = tmp_path / "chats.jsonl"
    chats.write_text("\n".join(lines) + "\n")
    scores = tmp_path / "scores.jsonl"
    done = medal("score", chats, "--out", scores, "--keep", "version")
    assert done.returncode == 0, done.stderr
    words = ("--chats", chats, "--by", "version", "--out", tmp_path / "page")
    done = medal("report", scores, *words)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "page/tables/worst.csv").open(newline="") as stream:
        rows = {row["id"]: row for row in csv.DictReader(stream)}
    numbers = [float(row["score"]) for row in rows.values()]
    assert numbers == sorted(numbers) and sorted(rows) == sorted(CHATS)
    for id in ("copy", "formula"):
        assert (rows[id]["turn"], rows[id]["role"]) == ("3", "assistant")
        assert rows[id]["reason"] == "repeats its first answer"
    assert rows["formula"]["text"] == "'" + LINK  # no cell is a formula
    assert rows["short"]["text"] == "Done."
    assert rows["equal"]["turn"] == "2"  # the first of those that lowered it equally
    good = rows["good"]
    assert (good["version"], good["turn"], good["reason"]) == ("1.0", "", NO_TURN)


def test_the_words_of_a_language_model_are_the_reason_and_none_is_invented() -> None:
    same: dict[str, Any] = {"dimensions": [OVERALL], "scores": {"overall": 1.5}}
    comment = {"overall": {"comment": "Contradicts itself."}}
    stated = [
        judgement("a", **same, details=comment),
        judgement("b", **same, explanation="=cmd"),
        judgement("c", **same),
    ]
    chats = worst_of(stated, [dialogue(id, CHATS["copy"]) for id in "abc"])
    reasons = {chat.judgement.id: chat.reason.text for chat in chats}
    assert reasons == {"a": "Contradicts itself.", "b": "=cmd", "c": NONE_STATED}
    assert all(chat.reason.turn is None for chat in chats)
    groups = group_by_mechanism(chats)
    sizes = {name: len(group) for name, group in groups.items()}
    assert sizes == {OWN_WORDS: 2, NONE_STATED: 1}


@pytest.mark.parametrize(
    ("texts", "cause", "turn", "reason"),
    [
        (["Is it open?", "No"], Cause("log_words", 0.7, 2.4), 1, "says little"),
        (["Hi", ""], Cause("distinct_1", 0.0, 0.9), 1, "has no words"),
        (["Hi", "Yo"], Cause("last_partner", 0, 0.3), 0, "the user opens the chat"),
        (["Hi", "Yo"], Cause("centred_mean_partner", -1, 0), 1, "the chat is short"),
        (["Hi", "Yo"], Cause("question", 0, 0.5), 1, "question is unusually low"),
        (["A", "x y", "B", "z", "C", "z"], Cause("copy", 1, 0), 5, "repeats its second answer"),
        (["a b", "c", "a b", "d"], Cause("copy", 1, 0), 2, "the user repeats a turn"),
        (["Hi", "Yo"], Cause("follows_answer", 0, 1), 1, "answers another question"),
    ],
)  # fmt: skip
def test_a_feature_is_told_in_words(
    texts: list[str], cause: Cause, turn: int, reason: str
) -> None:
    moves = tuple(-1.0 if i == turn else 0.0 for i in range(len(texts)))
    account = {"overall": Contributions(moves, 3.0, causes=(cause,))}
    scores = {"overall": 2.0}
    stated = [judgement("a", [OVERALL], scores=scores, contributions=account)]
    (chat,) = worst_of(stated, [dialogue("a", texts)])
    assert (chat.reason.turn, chat.reason.text) == (turn, reason)
    assert math.isclose(chat.contributions[turn], -1.0)
    (alone,) = worst_of(stated)
    assert alone.turns == () and "second" not in alone.reason.text


def test_a_chat_whose_bot_answers_nothing_is_the_worst() -> None:
    """Issue 53, point 10."""
    stated = [judgement("a", [OVERALL], scores={"overall": 1.0})]
    for id, failure in (("b", NO_ASSISTANT_TURN), ("c", "server down")):
        scores = {"overall": None}
        stated.append(judgement(id, [OVERALL], scores=scores, failure=failure))
    chats = worst_of(stated)
    assert [chat.judgement.id for chat in chats] == ["b", "a"]
    assert (chats[0].score, chats[0].reason.text) == (None, UNANSWERED)


def test_yes_or_no_alone_has_its_likeliest_fault() -> None:
    stated = []
    for i in range(8):
        scores = {"resolved": 0.9 - 0.1 * i, "repetitive": 0.05 * i}
        stated.append(judgement(f"d{i}", [RESOLVED, REPETITIVE], scores=scores))
    chats = worst_of(stated)
    assert chats[0].dimension == "resolved"
    assert [chat.judgement.id for chat in chats] == [f"d{i}" for i in range(7, -1, -1)]


def test_judged_turns_have_the_headline() -> None:
    fun = Dimension("fun", "continuous", 1, 5)
    stated = []
    for turn, (low, high) in {1: (1.0, 2.0), 3: (5.0, 1.0)}.items():
        scores = {"fun": low, "overall": high}
        stated.append(judgement("a", [fun, OVERALL], turn=turn, scores=scores))
    chats = worst_of(stated)
    found = [(chat.judgement.turn, chat.dimension) for chat in chats]
    assert found == [(3, "overall"), (1, "overall")]


def test_a_tenth_of_the_chats_from_20_to_100() -> None:
    for count, expected in ((5, 5), (50, 20), (400, 40), (2000, 100)):
        stated = []
        for i in range(count):
            scores = {"overall": 1 + 4 * i / count}
            stated.append(judgement(f"d{i}", [OVERALL], scores=scores))
        assert len(worst_of(stated)) == expected
