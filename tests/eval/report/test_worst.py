"""The worst chats as people pass them on: their order, their turns, and true reasons in words."""

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.scales import OVERALL

from medal_judges.eval.report.reasons import (
    NO_TURN,
    NONE_STATED,
    OWN_WORDS,
    UNANSWERED,
)
from medal_judges.eval.report.worst import (
    WorstChat,
    choose_varied_chats,
    collect_worst_candidates,
    group_by_mechanism,
)
from medal_judges.eval.scores.scores import scores_from_frame
from medal_judges.models.base.judge import NO_ASSISTANT_TURN
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.storage.judgements import to_frame

from ...forked import medal

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
    scores = scores_from_frame(to_frame(judgements), dialogues)
    return collect_worst_candidates(scores, judgements, dialogues)


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


def test_a_chat_whose_bot_answers_nothing_is_the_worst() -> None:
    """Issue 53, point 10."""
    stated = [judgement("a", [OVERALL], scores={"overall": 1.0})]
    for id, failure in (("b", NO_ASSISTANT_TURN), ("c", "server down")):
        scores = {"overall": None}
        stated.append(judgement(id, [OVERALL], scores=scores, failure=failure))
    chats = worst_of(stated)
    assert [chat.judgement.id for chat in chats] == ["b", "a"]
    assert (chats[0].score, chats[0].reason.text) == (None, UNANSWERED)


def test_one_reason_does_not_fill_the_list() -> None:
    stated = []
    for i in range(60):
        fields: dict[str, Any] = {"scores": {"overall": 2.0}}
        if i < 30:
            fields = {"scores": {"overall": None}, "failure": NO_ASSISTANT_TURN}
        stated.append(judgement(f"d{i}", [OVERALL], **fields))
    groups = group_by_mechanism(choose_varied_chats(worst_of(stated), 20))
    sizes = {name: len(group) for name, group in groups.items()}
    assert sizes == {UNANSWERED: 8, NONE_STATED: 12}
