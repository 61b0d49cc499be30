"""The same fifty chats in every form and container: equal dialogues, equal scores."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.records.dialogue import Dialogue

from .written import CONTAINERS, PACKED, ROWS, Row, chats, folded, save, turn_rows

CHATS = chats()


@pytest.fixture(scope="module")
def wanted() -> list[Dialogue]:
    """The dialogues, ids that come again numbered."""
    found: list[Dialogue] = []
    for dialogue in map(folded, CHATS):
        taken = sum(each.id.partition("#")[0] == dialogue.id for each in found)
        found.append(
            replace(dialogue, id=f"{dialogue.id}#{taken + 1}") if taken else dialogue
        )
    assert len(found) == len({each.id for each in found}) == 50
    return found


def scores(dialogues: Iterable[Dialogue]) -> list[dict[str, float | None]]:
    return [dict(j.scores) for j in Judge.from_pretrained("length").score(dialogues)]


def check(found: list[Dialogue], wanted: list[Dialogue]) -> None:
    assert found == wanted
    for mine, theirs in zip(scores(found), scores(wanted), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("container", ["jsonl", "parquet"])
def test_a_chat_a_row(
    form: str, container: str, wanted: list[Dialogue], tmp_path: Path
) -> None:
    data = CONTAINERS[container]([ROWS[form](chat) for chat in CHATS])
    reading = ReadingReport()
    # the name says nothing: what a file is, its content says
    found = list(read_dialogues(save(tmp_path, "chats", data), reading=reading))
    check(found, wanted)
    assert (reading.count, reading.read) == (0, 50)
    ids = [reading.changes[what] for what in reading.changes if what.startswith("ids ")]
    assert sorted(ids) == [2, 5]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container(container: str, wanted: list[Dialogue], tmp_path: Path) -> None:
    data = CONTAINERS[container]([ROWS["openai"](chat) for chat in CHATS])
    check(list(read_dialogues(save(tmp_path, f"chats.{container}", data))), wanted)


@pytest.mark.parametrize("packed", [*PACKED, ""])
@pytest.mark.parametrize("container", ["jsonl", "csv"])
@pytest.mark.parametrize("name", ["chats", "-"])
def test_a_packed_container_and_standard_input(
    container: str,
    packed: str,
    name: str,
    wanted: list[Dialogue],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = CONTAINERS[container]([ROWS["openai"](chat) for chat in CHATS])
    data = PACKED[packed](data) if packed else data
    source = str(save(tmp_path, name, data)) if name != "-" else name
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert list(read_dialogues(source)) == wanted


def interleaved(rows: list[list[Row]]) -> list[Row]:
    """First the first turn of every chat, then the second ones, ..."""
    longest = max(map(len, rows))
    return [each[k] for k in range(longest) for each in rows if k < len(each)]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    "order", [interleaved, lambda rows: [r for each in rows for r in each]]
)
def test_a_turn_a_row(
    container: str,
    order: Callable[[list[list[Row]]], list[Row]],
    wanted: list[Dialogue],
    tmp_path: Path,
) -> None:
    rows = order([turn_rows(chat, d.id) for chat, d in zip(CHATS, wanted, strict=True)])
    reading = ReadingReport()
    found = read_dialogues(
        save(tmp_path, "log", CONTAINERS[container](rows)), reading=reading
    )
    check(list(found), wanted)
    assert reading.count == 0


def test_a_data_set_on_the_hub_or_in_a_folder(
    wanted: list[Dialogue], tmp_path: Path
) -> None:
    rows = [ROWS["wildchat"](chat) for chat in CHATS]
    (tmp_path / "data").mkdir()
    save(tmp_path / "data", "train-00000-of-00001.parquet", CONTAINERS["parquet"](rows))
    check(list(read_dialogues(f"hf:{tmp_path}:train")), wanted)
    with pytest.raises(Exception, match=r"Bad split: test.*train"):
        list(read_dialogues(f"hf:{tmp_path}:test"))
    with pytest.raises(Exception, match="hf:ID:SPLIT"):
        list(read_dialogues(f"hf:{tmp_path}"))


def test_a_list_of_records(wanted: list[Dialogue]) -> None:
    assert list(read_dialogues([ROWS["sharegpt"](chat) for chat in CHATS])) == wanted
