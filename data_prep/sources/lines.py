"""Text of public files into turns: speaker-marked lines, and lines that alternate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medal_judges.dialogue import Role, Turn
from medal_judges.labelled import Level


def marked_turns(text: str, marks: Mapping[str, Role]) -> tuple[Turn, ...]:
    """Turns of ``text`` whose lines start with a mark such as ``User:``; a line without one goes on
    with the turn before it. Spaces at both ends of a turn are removed."""
    found: list[tuple[Role, str]] = []
    for line in text.split("\n"):
        mark = next((m for m in marks if line.startswith(m)), None)
        if mark is not None:
            found.append((marks[mark], line[len(mark) :]))
        elif found:
            role, content = found[-1]
            found[-1] = (role, f"{content}\n{line}")
    return tuple(Turn(role, content.strip()) for role, content in found)


def alternating(contents: Sequence[str], last: Role) -> tuple[Turn, ...]:
    """Turns whose speakers alternate backwards from ``last``, for files without speakers."""
    roles: tuple[Role, Role] = (
        ("assistant", "user") if last == "assistant" else ("user", "assistant")
    )
    count = len(contents)
    return tuple(Turn(roles[(count - 1 - i) % 2], c.strip()) for i, c in enumerate(contents))


def text_defects(turns: Sequence[Turn], level: Level) -> dict[str, list[str]]:
    """``{"defects": [...]}`` with the codes ``empty_response`` (the judged reply has no text) and
    ``empty_turn`` (any turn has none); empty where there is no defect."""
    codes = ["empty_response"] if level == "turn" and not turns[-1].content else []
    if any(not turn.content for turn in turns):
        codes.append("empty_turn")
    return {"defects": codes} if codes else {}


def numbers(values: Sequence[object]) -> tuple[float | None, ...]:
    """Answers of annotators; free text such as 'N/A (no errors)' is no number: None."""
    return tuple(
        float(v) if isinstance(v, int | float) and not isinstance(v, bool) else None for v in values
    )
