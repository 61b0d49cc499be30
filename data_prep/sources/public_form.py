"""Helpers of the readers of public files: turns from text, ratings, rows."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from medal_judges.data_prep.sources.source import hash_split
from medal_judges.records.dialogue import Dialogue, Role, Turn
from medal_judges.records.labelled import LabelledDialogue, Level
from medal_judges.records.rating import Scale


def rated(
    id: str,
    turns: Sequence[Turn],
    ratings: Mapping[str, Sequence[object]],
    scales: Mapping[str, Scale | None],
    *,
    source: str,
    group: str,
    model: str | None = None,
    lang: str = "en",
    level: Level = "dialogue",
    split: str | None = None,
    aggregated: bool = False,
    extra: Mapping[str, object] | None = None,
) -> LabelledDialogue:
    """A row with ratings by dimension, each on its scale.

    ``model`` is the chatbot; ``split`` defaults to a hash of ``group``.
    """
    models = {} if model is None else {"assistant": model}
    return LabelledDialogue(
        dialogue=Dialogue(id=id, turns=tuple(turns), lang=lang, source=source, models=models),
        labels={name: numbers(values) for name, values in ratings.items()},
        scales={name: scales[name] for name in ratings},
        level=level,
        split=split or hash_split(group, seed=0),
        group=group,
        aggregated=aggregated,
        extra=extra or {},
    )


def marked_turns(text: str, marks: Mapping[str, Role]) -> tuple[Turn, ...]:
    """Turns of ``text`` whose lines start with a mark such as ``User:``; other lines continue the
    previous turn."""
    turns: list[tuple[Role, str]] = []
    for line in text.split("\n"):
        mark = next((m for m in marks if line.startswith(m)), None)
        if mark is not None:
            turns.append((marks[mark], line[len(mark) :]))
        elif turns:
            role, content = turns[-1]
            turns[-1] = (role, f"{content}\n{line}")
    return tuple(Turn(role, content.strip()) for role, content in turns)


def exchanges(pairs: Iterable[tuple[str, str]]) -> list[Turn]:
    """Turns of (user's text, assistant's text) pairs."""
    roles: tuple[Role, Role] = ("user", "assistant")
    return [
        Turn(role, text.strip()) for pair in pairs for role, text in zip(roles, pair, strict=True)
    ]


def lines_of(text: str) -> list[str]:
    """The stripped lines of ``text`` that are not blank."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def alternating(contents: Sequence[str], last: Role) -> tuple[Turn, ...]:
    """Turns whose speakers alternate and end with ``last``, for files without speakers."""
    roles: tuple[Role, Role] = (
        ("assistant", "user") if last == "assistant" else ("user", "assistant")
    )
    count = len(contents)
    return tuple(Turn(roles[(count - 1 - i) % 2], c.strip()) for i, c in enumerate(contents))


def text_defects(turns: Sequence[Turn], level: Level) -> dict[str, list[str]]:
    """``{"defects": [...]}`` with ``empty_response`` (the judged reply is empty) and ``empty_turn``
    (any turn is empty); ``{}`` without defects."""
    codes = ["empty_response"] if level == "turn" and not turns[-1].content else []
    if any(not turn.content for turn in turns):
        codes.append("empty_turn")
    return {"defects": codes} if codes else {}


def numbers(values: Sequence[object]) -> tuple[float | None, ...]:
    """Ratings; None for anything that is not a number, such as 'N/A (no errors)'."""
    return tuple(
        float(v) if isinstance(v, int | float) and not isinstance(v, bool) else None for v in values
    )


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file with a header."""
    csv.field_size_limit(10_000_000)
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
