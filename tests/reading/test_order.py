"""The order of turns: times are compared as instants, and what is not sure is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medal_judges import RecordError, parse_dialogue
from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.records.dialogue import Dialogue

from .written import CONTAINERS, in_jsonl, save

Row = dict[str, Any]
ROLES = ("user", "assistant")
SAID = ("first", "second", "third", "fourth")
UNREAD = "chats in the order of the file: some times are not readable"


def read(path: Path) -> tuple[list[Dialogue], ReadingReport]:
    report = ReadingReport()
    return list(read_dialogues(path, reading=report)), report


def turns(*times: object, column: str = "timestamp") -> list[Row]:
    """One turn a row, with these times."""
    return [
        {"session_id": "s", "role": ROLES[n % 2], "content": SAID[n], column: time}
        for n, time in enumerate(times)
    ]


def contents(dialogue: Dialogue) -> list[str]:
    assert [turn.role for turn in dialogue.turns] == [*ROLES, *ROLES][
        : len(dialogue.turns)
    ]
    return [turn.content for turn in dialogue.turns]


# The same four instants, in the forms in which two services write them.
TIMES: dict[str, tuple[object, ...]] = {
    "offsets": (
        *("2026-11-20T09:00:00-05:00", "2026-11-20T14:00:03+00:00"),
        *("2026-11-20T09:01:00-05:00", "2026-11-20T14:01:04Z"),
    ),
    "the hour that occurs twice": (
        *("2026-10-25T02:10:00+02:00", "2026-10-25T02:50:00+02:00"),
        *("2026-10-25T02:05:00+01:00", "2026-10-25T02:40:00+01:00"),
    ),
    "microseconds": (*(1_795_183_200_000_001 + n for n in range(4)),),
    "seconds of the chat": (0, 2.5, "9", 12),
    "no time zone": (
        *(
            "2026-11-20 09:00",
            "2026-11-20 09:01",
            "2026-11-20 10:00:00.5",
            "2026-11-21",
        ),
    ),
}


@pytest.mark.parametrize("form", TIMES)
@pytest.mark.parametrize("container", ["jsonl", "csv"])
def test_turns_are_sorted_by_instant(form: str, container: str, tmp_path: Path) -> None:
    rows = turns(*TIMES[form])
    for order in ([0, 2, 1, 3], [3, 2, 1, 0], [2, 3, 0, 1]):
        path = save(tmp_path, "log", CONTAINERS[container]([rows[n] for n in order]))
        (dialogue,), report = read(path)
        assert contents(dialogue) == [*SAID] and not report.count, report.messages
        assert not report.changes


def test_times_of_two_clocks_are_refused(tmp_path: Path) -> None:
    for times in (
        ("2026-11-20T09:00:00", "2026-11-20T14:00:03Z"),
        ("2026-11-20T14:00:03Z", "2026-11-20T09:00:00"),
    ):
        _, report = read(save(tmp_path, "log.jsonl", in_jsonl(turns(*times))))
        assert report.count == 1
        assert "field 'time'" in report.messages[0]


@pytest.mark.parametrize("last", ["noon", None])
def test_a_time_that_is_not_read_leaves_the_order_of_the_file_and_is_said(
    last: object, tmp_path: Path
) -> None:
    rows = turns("2026-11-20T09:09", "2026-11-20T09:05", last)
    (dialogue,), report = read(save(tmp_path, "log.jsonl", in_jsonl(rows)))
    assert contents(dialogue) == [*SAID[:3]] and report.changes == {UNREAD: 1}


# -- lists of messages -----------------------------------------------------------------------------


def messages(*times: object, column: str = "created_at") -> list[Row]:
    return [
        {"role": ROLES[n % 2], "content": SAID[n], column: time}
        for n, time in enumerate(times)
    ]


MINUTES = [f"2026-03-01T10:0{n}:00Z" for n in range(4)]


def test_a_list_that_is_newest_first_is_refused() -> None:
    said = messages(*MINUTES)
    assert contents(parse_dialogue(said)) == [*SAID]
    with pytest.raises(RecordError, match="the oldest first"):
        parse_dialogue(said[::-1])


@pytest.mark.parametrize(
    "times",
    [
        (MINUTES[0], MINUTES[2], MINUTES[1], MINUTES[3]),
        (MINUTES[0],) * 4,
        (MINUTES[3], MINUTES[2], MINUTES[1], None),
    ],
)
def test_other_lists_keep_their_order(times: tuple[object, ...]) -> None:
    assert contents(parse_dialogue(messages(*times))) == [*SAID]
