"""Short notes of what an assistant did with tools before an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from medal_judges.reading.message_parts import MessagePart

_NAME, _ARGUMENTS, _RESULT = 60, 80, 160  # the most characters of each in a note
_AT_ONE_ANSWER = 20


@dataclass(slots=True)
class _ToolUse:
    """A call and what came back, as far as the chat has them; ``turn`` is the answer's index."""

    tool: str | None
    arguments: str = ""
    result: str | None = None
    key: str | None = None
    turn: int | None = None

    def note(self) -> str:
        arguments = _short(self.arguments, _ARGUMENTS)
        call = f"{_short(self.tool or '', _NAME)}({arguments if arguments != '{}' else ''})"
        return f"[tool {call}: {'no result' if self.result is None else _told(self.result)}]"


class ToolNotes:
    """Collects calls and results in their order and tells them at the answer that follows."""

    def __init__(self) -> None:
        self._uses: list[_ToolUse] = []
        self._placed = 0

    def add(self, parts: Iterable[MessagePart]) -> None:
        """Take the calls and results among ``parts``. A result goes to its call: by id, else to the
        first one that has none yet."""
        for part in parts:
            if part.kind == "call":
                self._uses.append(_ToolUse(part.tool, part.text, key=part.key))
            elif part.kind == "result":
                use = self._call_of(part)
                if use is None:
                    use = _ToolUse(part.tool, key=part.key)
                    self._uses.append(use)
                use.result = part.text

    def place(self, turn: int) -> None:
        """What was used since the last answer belongs to the answer at this index."""
        for use in self._uses[self._placed :]:
            use.turn = turn
        self._placed = len(self._uses)

    def records(self) -> list[dict[str, object]]:
        """``turn`` (None where no answer follows) and ``note`` of each use, in order; of many at
        one answer the first are told and the rest counted."""
        notes: dict[int | None, list[str]] = {}
        for use in self._uses:
            notes.setdefault(use.turn, []).append(use.note())
        records: list[dict[str, object]] = []
        for turn, told in notes.items():
            if more := told[_AT_ONE_ANSWER:]:
                told = [*told[:_AT_ONE_ANSWER], f"[{len(more)} more tools]"]
            records += [{"turn": turn, "note": note} for note in told]
        return records

    def _call_of(self, part: MessagePart) -> _ToolUse | None:
        waiting = [use for use in self._uses if use.result is None]
        if part.key is not None and any(use.key is not None for use in waiting):
            return next((use for use in waiting if use.key == part.key), None)
        fits = (use for use in waiting if part.tool in (None, use.tool))
        return next(fits, None)


def _told(result: str) -> str:
    """A result in a few words: how many things a list has, else its beginning."""
    if result.lstrip().startswith("["):
        try:
            listed = json.loads(result)
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list):
            return f"{len(listed)} result{'' if len(listed) == 1 else 's'}"
    return _short(result, _RESULT) or "empty result"


def _short(text: str, most: int) -> str:
    """The beginning of ``text`` on one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"
