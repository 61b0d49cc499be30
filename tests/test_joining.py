"""Labels meet the scores of their own chat, in every command that joins the two."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medal_judges import (
    read_judgements,
    score_file,
    write_judgements,
)
from medal_judges.eval.metaeval.alignment import join_rows
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import Turn
from medal_judges.records.joining import ScoreKey, join_labels
from medal_judges.records.labelled import LabelledDialogue

from .forked import medal
from .talks import said, talk

Row = dict[str, Any]
COUNT = 40


def chats(count: int = COUNT, first: int = 0) -> list[Row]:
    rows = []
    for number in range(first, first + count):
        texts = said(
            f"Question {number}?", "word " * (1 + number % 9), "Thanks.", "Gladly. " * 2
        )
        rows.append({"id": f"c{number - first}", "lang": "en", "dialogue": texts})
    return rows


def rated(rows: Sequence[Row], **more: Any) -> list[Row]:
    """The rows with labels that are 1 to 5 by the length of the first answer."""
    scales = {"overall": [1, 5]}
    lines = []
    for row in rows:
        label = 1 + len(row["dialogue"][1]["content"].split()) % 5
        lines.append(row | {"labels": {"overall": [label]}, "scales": scales} | more)
    return lines


def write(name: str, rows: Sequence[Row]) -> str:
    Path(name).write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    )
    return name


def label(dialogue: Any, **more: Any) -> LabelledDialogue:
    return LabelledDialogue(dialogue, {"overall": (3.0,)}, {"overall": (1, 5)}, **more)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scores of the chats, by dialogue and by turn."""
    monkeypatch.chdir(tmp_path)
    write("chats.jsonl", chats())
    score_file(
        "chats.jsonl", "length", "scores.jsonl", ScoreOptions(dimensions=["overall"])
    )
    turns = ScoreOptions(dimensions=["overall"], level="turn")
    score_file("chats.jsonl", "length", "turns.jsonl", turns)
    return tmp_path


def key(dialogue: Any, turn: int | None = None, id: str | None = None) -> ScoreKey:
    judged = dialogue if turn is None else dialogue.upto(turn)
    return ScoreKey(id or dialogue.id, turn, judged.chat_hash)


def turns(*lines: str) -> tuple[Turn, ...]:
    parts = [line.partition(" ") for line in lines]
    return tuple(Turn(role, text) for role, _, text in parts)  # type: ignore[arg-type]


ONE, TWO = talk("Hi!", "Hello!", id="a"), talk("Hi!", "Go away!", id="a")


@pytest.mark.parametrize(
    ("labels", "scores", "expected"),
    [
        ([ONE], [key(ONE)], [[0]]),
        ([ONE], [key(TWO)], [[]]),
        (
            [talk(" Hi!\r\n", "Hello! ", id="a")],
            [key(ONE)],
            [[0]],
        ),
        ([replace(ONE, turns=turns("user Hi! assistant: Hello!"))], [key(ONE)], [[]]),
        ([talk(id="a")], [key(ONE)], [[0]]),
        ([ONE, TWO], [ScoreKey("a", None, None)], [[0], []]),
    ],
)
def test_the_same_roles_and_words_are_the_same_chat(
    labels: list[Any], scores: list[ScoreKey], expected: list[list[int]]
) -> None:
    assert (
        join_labels([label(dialogue) for dialogue in labels], scores).score_rows
        == expected
    )


def test_ids_that_are_repeated_are_joined_by_their_chats() -> None:
    again = replace(TWO, id="a#2")
    swapped = [label(TWO), label(replace(ONE, id="a#2"))]
    assert join_labels(swapped, [key(ONE), key(again)]).score_rows == [[1], [0]]
    assert join_labels([label(TWO)], [key(ONE), key(again)]).score_rows == [[1]]
    assert join_labels(swapped, [key(TWO)]).score_rows == [[0], []]
    bare = [ScoreKey("a", None, None), ScoreKey("a#2", None, None)]
    joined = join_labels(swapped, bare)
    assert joined.score_rows == [[], []] and joined.of_other_chats == swapped
    # Equal chats of one id are kept apart by the id, and an id with a number of its own is whole.
    twice = [label(ONE), label(replace(ONE, id="a#2"))]
    assert join_labels(twice, [key(ONE), key(ONE, id="a#2")]).score_rows == [[0], [1]]
    joined = join_labels(twice, [key(ONE)])
    assert joined.score_rows == [[0], []] and joined.repeated == twice[1:]
    case = [label(talk("Hi!", "Ho!", id=f"case#{number}")) for number in (1, 2)]
    bare = [ScoreKey(f"case#{number}", None, None) for number in (2, 1)]
    assert join_labels(case, bare).score_rows == [[1], [0]]


def test_a_turn_is_joined_by_the_turns_before_it() -> None:
    long = talk("Hi!", "Hello!", "Bye!", "So long!", id="a")
    scores = [key(long, turn=1), key(long, turn=3)]
    assert join_labels([label(long)], scores).score_rows == [[0, 1]]
    assert join_labels([label(long.upto(1))], scores).score_rows == [[0]]

    def same_turn(one: LabelledDialogue, score: ScoreKey) -> bool:
        return one.turn == score.turn

    turns = [label(long.upto(turn), level="turn") for turn in (3, 1)]
    assert join_labels(turns, scores, same_turn).score_rows == [[1], [0]]


def changed(rows: list[Row], count: int) -> list[Row]:
    """The rows, the first ``count`` of them with another chat."""
    return [row | {"dialogue": said("Who?", "Me.")} for row in rows[:count]] + rows[
        count:
    ]


def report(people: str) -> tuple[int, str]:
    done = medal("report", "scores.jsonl", "--human", people)
    return done.returncode, done.stdout + done.stderr


def compare(people: str) -> tuple[int, str]:
    score_file("chats.jsonl", "length", "b.jsonl", ScoreOptions(dimensions=["overall"]))
    files = ["a=scores.jsonl", "b=b.jsonl"]
    done = medal("compare", *files, "--human", f"a={people}", "--human", f"b={people}")
    return done.returncode, done.stdout + done.stderr


def benchmark(people: str) -> tuple[int, str]:
    Path("b.yaml").write_text(
        f"output_dir: out\nsets: [{{name: s, source: {people}, dimensions: [overall]}}]\n"
        "judges: [{name: file, predictions: {s: scores.jsonl}}]\n"
    )
    done = medal("benchmark", "--config", "b.yaml")
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("command", [report, compare, benchmark])
def test_commands_leave_a_few_out_and_refuse_many(
    command: Callable[[str], tuple[int, str]], no_figure_files: None
) -> None:
    code, text = command(write("own.jsonl", rated(chats())))
    assert code == 0 and "other chats" not in text, text
    code, text = command(write("few.jsonl", rated(changed(chats(), 2))))
    text = " ".join(text.split())
    assert code == 0 and "other chats than the scored ones, left out: 2 (" in text, text
    assert "c0, c1" in text
    code, text = command(write("many.jsonl", rated(changed(chats(), 12))))
    assert code == 2 and "of 12 of 40 chats are of other chats" in text, text


def test_ids_that_begin_again_in_a_glued_log_meet_their_own_labels() -> None:
    first, second = chats(20), chats(20, first=20)
    write("glued.jsonl", first + second)
    score_file(
        "glued.jsonl",
        "length",
        "glued_scores.jsonl",
        ScoreOptions(dimensions=["overall"]),
    )
    shuffled = rated(second + first)
    random.Random(0).shuffle(shuffled)
    rows = list(read_labelled(write("glued_rated.jsonl", shuffled)))
    found = join_rows(rows, read_judgements("glued_scores.jsonl"))
    assert len(found.rows) == 40 and not found.notes
    for row, judgement in zip(found.rows, found.judgements, strict=True):
        assert judgement is not None and row.dialogue.chat_hash == judgement.chat
    done = medal("report", "glued_scores.jsonl", "--human", "glued_rated.jsonl")
    assert "40 of 40 dialogues have human labels" in done.stdout
    bare = [
        replace(judgement, chat=None)
        for judgement in read_judgements("glued_scores.jsonl")
    ]
    write_judgements("bare.jsonl", bare)
    done = medal("report", "bare.jsonl", "--human", "glued_rated.jsonl")
    assert done.returncode == 2 and "of 40 of 40 chats" in done.stderr
