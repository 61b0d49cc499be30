"""Resumes a file of judgements: decides which lines of an earlier run stay and what is scored
again.

The lines are in the order of the input. A dialogue with a transient failure is scored again: its
new judgements go to a journal beside the file, and replace the old ones at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path

from medal_judges.errors import MedalError
from medal_judges.inference.metadata import metadata_of
from medal_judges.models.base.judge import (
    ScoreLevel,
    UnknownLanguage,
    is_refusal,
    requests_at,
    with_language,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, parse_judgement, unscored
from medal_judges.storage.files import atomic_path
from medal_judges.storage.jsonl import Journal, open_text, to_line

_AGAIN = "give another --out, or --overwrite to start again from the beginning"
NOT_YET = "not judged yet"


@dataclass(frozen=True, slots=True)
class Expected:
    """Properties that all lines of the file must share.

    ``gone``: ids that may be in the file but not in the input; their lines are removed. ``window``:
    lines of an unfinished run are cut to a multiple of that many dialogues, because the last digits
    of a network's scores depend on the other dialogues of the batch.
    """

    judge: str
    dimensions: tuple[str, ...]
    level: ScoreLevel
    retry_failed: bool
    gone: Container[str]
    keep: tuple[str, ...]
    detect: bool
    unknown_language: UnknownLanguage
    window: int

    def require_same(self, rows: Sequence[Judgement], dialogue: Dialogue, out: Path) -> None:
        """Raises MedalError if ``rows`` of ``dialogue`` were made by another judge or with other
        options.

        Rows may be missing: after a kill the last dialogue can have only some of its turns.
        """
        first = rows[0]

        def refuse(how: str, there: str, now: str) -> MedalError:
            return MedalError(
                f"{out} was written {how}:\n    there: {there}\n    now:   {now}", hint=_AGAIN
            )

        if first.judge != self.judge:
            raise refuse("by another judge or with other settings", first.judge, self.judge)
        if set(first.scores) != set(self.dimensions):
            raise refuse(
                "for other dimensions", ", ".join(first.scores), ", ".join(self.dimensions)
            )
        if set(first.meta) != set(self.keep):
            there, now = ", ".join(first.meta) or "nothing", ", ".join(self.keep) or "nothing"
            raise refuse("with other metadata (--keep)", there, now)
        turns = [row.turn for row in rows]
        levels: list[ScoreLevel] = ["dialogue", "turn", "last"]
        fitting = [level for level in levels if _turns(dialogue, level)[: len(turns)] == turns]
        if not fitting:
            raise _other_input(out, f"turns {turns} of {first.id!r}")
        if self.level not in fitting:
            raise refuse("at another level", " or ".join(fitting), self.level)
        for row in rows:
            if row.failure == NOT_YET:
                continue
            found = row.detected_language
            looked = found is None or not self.detect
            if found != (with_language(dialogue, self.detect)[1] if looked else found):
                rules = ["--detect-language", "--no-detect-language"]
                raise refuse("by another rule for languages", *rules[:: 1 if found else -1])
            refused = is_refusal(row)
            if row.unknown_language is None or (refused and self.retry_failed):
                continue
            if self.unknown_language == "allow" or refused != (self.unknown_language == "refuse"):
                was = f"--unknown-language {'refuse' if refused else 'warn'}"
                now = f"--unknown-language {self.unknown_language}"
                raise refuse("by another rule for languages", was, now)


def resume(
    dialogues: Iterator[Dialogue],
    expected: Expected,
    out: Path,
    keep: Callable[[Sequence[Judgement]], None],
) -> tuple[Iterator[Dialogue], list[Dialogue]]:
    """Cuts ``out`` to the lines that stay. Returns the dialogues that follow them, and the
    dialogues to score again.

    ``keep`` receives the judgements of each finished dialogue. Raises MedalError if ``out`` does
    not fit ``expected`` and ``dialogues``, and leaves it unchanged.
    """
    again: list[Dialogue] = []
    # (dialogue, its lines, its judgements or None if it is scored again)
    window: list[tuple[Dialogue, list[str], Sequence[Judgement] | None]] = []
    with atomic_path(out) as partial, open_text(partial, "w") as stream:

        def settle() -> None:
            for dialogue, lines, rows in window:
                stream.writelines(lines)
                if rows is None:
                    again.append(dialogue)
                else:
                    keep(rows)
            window.clear()

        for dialogue, lines, rows in _earlier(dialogues, expected, out):
            if rows is not None and len(rows) < len(_turns(dialogue, expected.level)):
                # A kill can leave a part of the last dialogue's turns: score it again.
                return chain([each[0] for each in window], [dialogue], dialogues), again
            asks = rows is not None and any(
                row.transient or (expected.retry_failed and not row.scored) for row in rows
            )
            window.append((dialogue, lines, None if asks else rows))
            if len(window) == expected.window:
                settle()
        if window and (after := next(dialogues, None)) is not None:
            return chain([each[0] for each in window], [after], dialogues), again
        settle()
    return dialogues, again


def _earlier(
    dialogues: Iterator[Dialogue], expected: Expected, out: Path
) -> Iterator[tuple[Dialogue, list[str], list[Judgement] | None]]:
    """Yields each dialogue up to the last one in ``out`` with its lines and judgements.

    For a dialogue that is missing in between it yields placeholder lines and None.
    """
    for lines, rows in _by_dialogue(out):
        if rows[0].id in expected.gone:
            continue
        if rows[0].judge != expected.judge:
            expected.require_same(rows, Dialogue(rows[0].id, ()), out)
        for dialogue in dialogues:
            if dialogue.id == rows[0].id:
                break
            placeholders = [
                replace(
                    unscored(dialogue.id, expected.judge, expected.dimensions, NOT_YET, turn),
                    transient=True,
                    meta=metadata_of(dialogue, expected.keep),
                )
                for turn in _turns(dialogue, expected.level)
            ]
            yield dialogue, [*map(to_line, placeholders)], None
        else:
            raise _other_input(out, rows[0].id)
        expected.require_same(rows, dialogue, out)
        yield dialogue, lines, rows


def put_in_place(out: Path, newer: Path) -> None:
    """Replaces the judgements in ``out`` of each dialogue that is complete in the file ``newer``,
    then deletes ``newer``."""
    if not newer.exists():
        return
    found = {rows[0].id: (lines, rows) for lines, rows in _by_dialogue(newer)}
    with atomic_path(out) as partial, open_text(partial, "w") as stream:
        for lines, rows in _by_dialogue(out):
            new_lines, new = found.get(rows[0].id, (lines, rows))
            # A kill can leave a part of a dialogue's turns.
            whole = [(r.turn, r.judge) for r in new] == [(r.turn, r.judge) for r in rows]
            stream.writelines(new_lines if whole else lines)
    newer.unlink()


def _by_dialogue(path: Path) -> Iterator[tuple[list[str], list[Judgement]]]:
    """Yields the lines and the judgements of one dialogue after another."""

    def parsed(record: object) -> tuple[Judgement, str]:
        return parse_judgement(record), to_line(record)

    for _, group in groupby(Journal(path).records(parsed), key=lambda pair: pair[0].id):
        rows, lines = zip(*group, strict=True)
        yield list(lines), list(rows)


def _turns(dialogue: Dialogue, level: ScoreLevel) -> list[int | None]:
    return [request.turn for request in requests_at(dialogue, level)]


def _other_input(out: Path, there: str) -> MedalError:
    return MedalError(
        f"{out} does not fit this input: the input has no {there} where {out.name} has it",
        hint=_AGAIN,
    )
