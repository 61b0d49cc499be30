"""Authors in any field, --role for every other speaker, and words as ratings."""

from __future__ import annotations

from typing import Any

import pytest

from medal_judges.errors import ConfigError
from medal_judges.reading.columns import ColumnMap, LabelColumn, read_labels
from medal_judges.reading.dialogues import ReadingReport, ReadOptions, stream_dialogues

Said = dict[str, list[str]]


def read(rows: Any, *roles: str, **options: Any) -> tuple[Said, ReadingReport]:
    """Texts by id of the chat; those of the user begin with a question mark."""
    report = ReadingReport()
    said = {}
    for dialogue in stream_dialogues(rows, ReadOptions(role=roles, **options), report):
        texts = [
            ("? " if turn.role == "user" else "") + turn.content
            for turn in dialogue.turns
        ]
        said[dialogue.id] = texts
    return said, report


# The fields of the user's message and of the answer, and --role.
AUTHORS: list[tuple[Any, Any, list[str]]] = [
    ({"author_id": 5}, {"author_id": 9}, ["5=user", "9=assistant"]),
    ({"sender_id": "x"}, {"sender_id": "y"}, ["x=user", "*=assistant"]),
    ({"senderId": 0}, {"senderId": 1}, ["0=user", "1=assistant"]),
    # A known word keeps its role.
    ({"role": "Ana"}, {"role": "assistant"}, ["*=user"]),
]  # fmt: skip


@pytest.mark.parametrize(("user", "assistant", "roles"), AUTHORS)
def test_any_author_field_is_a_role(
    user: Any, assistant: Any, roles: list[str]
) -> None:
    messages = [{**user, "body": "a"}, {**assistant, "body": "b"}]
    said, report = read([{"id": "c", "messages": messages}], *roles)
    assert said == {"c": ["? a", "b"]}, report.messages
    rows = [{"conversation_id": "c", **message} for message in messages]
    assert read(rows, *roles)[0] == {"c": ["? a", "b"]}


def test_everyone_else_is_not_for_transcripts() -> None:
    with pytest.raises(ConfigError, match="not for transcripts") as error:
        read([{"transcript": "User: Hi\nBot: Hello\nNote: the bot waves"}], "*=user")
    assert "--role Anna=user" in (error.value.hint or "")


# -- words as ratings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "rating"),
    [
        *(("yes", 1), ("No", 0), ("👍", 1), ("👎", 0), (True, 1), ("true", 1)),
        *(("1", 1), ("fine", None), ("good enough", None), (":+1:", None)),
    ],
)
def test_words_and_thumbs_are_0_or_1(word: object, rating: float | None) -> None:
    columns = ColumnMap(labels={"feedback": LabelColumn("helpful", None)})
    if rating is None:
        with pytest.raises(Exception, match="expected a number"):
            read_labels({"feedback": word}, columns)
    else:
        rated = read_labels({"feedback": word}, columns)
        assert rated["labels"] == {"helpful": [rating]}
