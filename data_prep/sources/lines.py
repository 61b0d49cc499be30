"""Text of public files into turns: speaker-marked lines, and lines that alternate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medal_judges.dialogue import Role, Turn


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


def numbers(values: Sequence[object]) -> tuple[float | None, ...]:
    """Answers of annotators; free text such as 'N/A (no errors)' is no number: None."""
    return tuple(float(v) if isinstance(v, int | float) else None for v in values)
