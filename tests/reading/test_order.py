"""The order of turns: times are compared as instants, and what is not sure is said."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.forked import medal

from medal_judges import parse_dialogue
from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.reading.instants import Clock, instant
from medal_judges.records.dialogue import Dialogue

from .test_spans import parts
from .test_traces import observation, trace
from .written import CONTAINERS, in_jsonl, save

Row = dict[str, Any]
ROLES = ("user", "assistant")
SAID = ("first", "second", "third", "fourth")
UNSORTED = "chats whose times are not in the order of their messages (not sorted)"
UNREAD = "chats in the order of the file: some times are missing or not readable"


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
    "minutes without seconds, offsets without a colon": (
        *("2026-11-20T09:00-0500", "2026-11-20 14:00:03 UTC"),
        *("2026-11-20 19:31+05:30", "2026-11-20T14:01:04+00"),
    ),
    "seconds, milliseconds and texts of both": (
        *(1_795_183_200, 1_795_183_203_000, "1795183260.5", "1795183264000"),
    ),
    "nanoseconds beside ISO": (
        *(1_795_183_200_000_000_001, 1_795_183_200_000_000_002),
        *("2026-11-20T14:00:00.000000003Z", "2026-11-20T14:00:00.1Z"),
    ),
    "microseconds": (*(1_795_183_200_000_001 + n for n in range(4)),),
    "seconds of the chat": (0, 2.5, "9", 12),
    "no time zone": (
        *("2026-11-20 9:00", "2026-11-20 09:01", "2026-11-20 10:00:00,5", "2026-11-21"),
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
        local = Counter({"chats sorted by times without a time zone": 1})
        assert report.folded == (local if form == "no time zone" else Counter())


@given(
    st.lists(
        st.tuples(
            st.integers(10**9, 4 * 10**9),
            st.integers(-14 * 4, 14 * 4),
            st.sampled_from("zsmn"),
        ),
        min_size=2,
    )
)
def test_an_instant_does_not_depend_on_how_it_is_written(
    cases: list[tuple[int, int, str]],
) -> None:
    for seconds, quarters, form in cases:
        zone = timezone(timedelta(minutes=15 * quarters))
        written: object = datetime.fromtimestamp(seconds, zone).isoformat()
        if form != "z":
            written = seconds * {"s": 1, "m": 10**3, "n": 10**9}[form]
        found = instant(written)
        assert found is not None and found == (Clock.ZONED, seconds * 10**9)


@pytest.mark.parametrize(
    "value", [None, True, "noon", "", "9:00", "2026-13-01", "nan", "1e999", []]
)
def test_what_is_no_time(value: object) -> None:
    assert instant(value) is None


def test_times_of_two_clocks_are_refused(tmp_path: Path) -> None:
    for times in (
        ("2026-11-20T09:00:00", "2026-11-20T14:00:03Z"),
        ("2026-11-20T14:00:03Z", "2026-11-20T09:00:00"),
        (3.5, 1_795_183_203),
    ):
        _, report = read(save(tmp_path, "log.jsonl", in_jsonl(turns(*times))))
        assert report.count == 1
        assert (
            "row 2: timestamp" in report.messages[0]
            and "expected a time" in report.messages[0]
        )


@pytest.mark.parametrize("last", ["noon", None])
def test_a_time_that_is_not_read_leaves_the_order_of_the_file_and_is_said(
    last: object, tmp_path: Path
) -> None:
    rows = turns("2026-11-20T09:09", "2026-11-20T09:05", last)
    (dialogue,), report = read(save(tmp_path, "log.jsonl", in_jsonl(rows)))
    assert contents(dialogue) == [*SAID[:3]] and report.folded == {UNREAD: 1}


def test_rows_of_two_services_have_their_own_columns(tmp_path: Path) -> None:
    asked = turns("2026-11-20T09:00-05:00", "", "2026-11-20T09:01-05:00")[::2]
    names = ("second", "fourth")
    answered = [
        {
            "session_id": "s",
            "sender": "bot",
            "text": text,
            "createdAt": f"2026-11-20T14:0{n}:03Z",
        }
        for n, text in enumerate(names)
    ]
    (dialogue,), _ = read(save(tmp_path, "log.jsonl", in_jsonl([*asked, *answered])))
    assert contents(dialogue) == [*SAID]
    assert dialogue.meta == {"timestamp": "2026-11-20T09:00-05:00"}


def test_turns_of_one_second_in_a_file_that_is_newest_first(tmp_path: Path) -> None:
    rows = turns(
        *("2026-11-20T09:00Z", "2026-11-20T09:00Z"), *("2026-11-20T09:01Z",) * 2
    )
    turned, in_pairs = rows[::-1], [*rows[2:], *rows[:2]]
    for order in (turned, in_pairs):
        (dialogue,), _ = read(save(tmp_path, "log.jsonl", in_jsonl(order)))
        assert contents(dialogue) == [*SAID]


# -- lists of messages -----------------------------------------------------------------------------


def messages(*times: object, column: str = "created_at") -> list[Row]:
    return [
        {"role": ROLES[n % 2], "content": SAID[n], column: time}
        for n, time in enumerate(times)
    ]


MINUTES = [f"2026-03-01T10:0{n}:00Z" for n in range(4)]


@pytest.mark.parametrize("container", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize("column", ["created_at", "createdAt", "ts", "timestamp"])
def test_a_list_that_is_newest_first_is_sorted_and_that_is_said(
    container: str, column: str, tmp_path: Path
) -> None:
    said = messages(*MINUTES, column=column)
    rows = [{"id": "a", "messages": said[::-1]}, {"id": "b", "messages": said}]
    (turned, straight), report = read(
        save(tmp_path, "chats", CONTAINERS[container](rows))
    )
    assert contents(turned) == contents(straight) == [*SAID]
    assert report.folded == {"newest-first chats sorted by time": 1}


def test_the_command_says_it_once_a_file(tmp_path: Path) -> None:
    said = messages(*MINUTES)[::-1]
    path = save(
        tmp_path, "chats.jsonl", in_jsonl([{"messages": said}, {"messages": said[:2]}])
    )
    done = medal("score", path, "--judge", "length", "--out", tmp_path / "out.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("folded: 2 newest-first chats sorted by time") == 1


def test_equal_times_and_a_system_prompt_without_time() -> None:
    said = messages(*(MINUTES[n // 2] for n in range(4)))
    system = {"role": "system", "content": "Be brief."}
    for order in ([*said[::-1], system], [system, *said[2:], *said[:2]]):
        counts: Counter[str] = Counter()
        dialogue = parse_dialogue(order, folded=counts)
        assert (
            contents(dialogue) == [*SAID]
            and counts["newest-first chats sorted by time"] == 1
        )


@pytest.mark.parametrize(
    "times, unsorted",
    [
        ((MINUTES[0], MINUTES[2], MINUTES[1], MINUTES[3]), 1),
        ((MINUTES[3], "2026-03-01T10:02:00", MINUTES[1], MINUTES[0]), 1),
        ((MINUTES[0],) * 4, 0),
        ((MINUTES[3], MINUTES[2], MINUTES[1], None), 0),
        ((4.5, 3.0, 2.0, 1.0), 0),  # the seconds that each answer took
        ((MINUTES[3], MINUTES[2], MINUTES[1], "noon"), 0),
    ],
)
def test_other_lists_keep_their_order(times: tuple[object, ...], unsorted: int) -> None:
    counts: Counter[str] = Counter()
    assert contents(parse_dialogue(messages(*times), folded=counts)) == [*SAID]
    assert counts == ({UNSORTED: 1} if unsorted else {})


# -- traces ----------------------------------------------------------------------------------------


def test_traces_are_sorted_by_instant(tmp_path: Path) -> None:
    rows = [
        trace("a", 0, SAID[0], SAID[1], timestamp="2026-06-01T12:00:00+02:00"),
        trace("a", 1, SAID[2], SAID[3], timestamp="2026-06-01T10:00:01Z"),
    ]
    for order in (rows, rows[::-1]):
        (dialogue,), _ = read(save(tmp_path, "x.jsonl", in_jsonl(order)))
        assert contents(dialogue) == [*SAID]
        assert dialogue.meta["time"] == "2026-06-01T12:00:00+02:00"
    mixed = [rows[0] | {"timestamp": "2026-06-01T12:00:00"}, rows[1]]
    found, report = read(save(tmp_path, "x.jsonl", in_jsonl(mixed)))
    assert (
        not found
        and "times with a time zone in all traces or in none" in report.messages[0]
    )


def test_epoch_times_of_observations(tmp_path: Path) -> None:
    rows = [observation("a", 10 * n, "GENERATION", "", SAID[n : n + 2]) for n in (0, 2)]  # type: ignore[arg-type]
    for first, second in (
        (1_780_000_000_000, "1780000000001"),
        (1_780_000_000.25, 1_780_000_001),
    ):
        timed = [rows[1] | {"start_time": second}, rows[0] | {"start_time": first}]
        (dialogue,), _ = read(save(tmp_path, "x.jsonl", in_jsonl(timed)))
        assert contents(dialogue) == [*SAID]


def test_of_spans_a_nanosecond_apart_the_later_is_the_answer(tmp_path: Path) -> None:
    spans = []
    for n, answer in enumerate(SAID[1:3]):
        attributes = {
            "gen_ai.conversation.id": "c",
            "gen_ai.input.messages": parts([{"role": "user", "content": SAID[0]}]),
            "gen_ai.output.messages": parts([{"role": "assistant", "content": answer}]),
        }
        start = str(1_780_000_000_000_000_001 + n)
        spans.append(
            {"traceId": f"t{n}", "startTimeUnixNano": start, "attributes": attributes}
        )
    for order in (spans, spans[::-1]):
        (dialogue,), report = read(save(tmp_path, "x.jsonl", in_jsonl(order)))
        assert contents(dialogue) == [SAID[0], SAID[2]] and not report.count
        assert dialogue.meta["time"].startswith("2026-05-28T20:26:40")
