"""What an earlier run left of a file of judgements: kept, asked again, or refused.

A file stands in the order of its input. A dialogue whose judgement lacks an answer that may come
now is asked again: its new judgement is written beside, and takes the old one's place at the end.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import IO, Any, get_args

from medal_judges.dialogue import Dialogue
from medal_judges.errors import MedalError, RecordError
from medal_judges.jsonl import open_text, to_line
from medal_judges.judgement import Judgement, parse_judgement, unscored
from medal_judges.models.base.judge import ScoreLevel, items_of

_AGAIN = "give another --out, or --overwrite to start again from the beginning"
NOT_YET = "not judged yet"


@dataclass(frozen=True, slots=True)
class Run:
    """What all lines of one file have in common: the judge's signature, and what it was asked.

    ``retry_failed``: whatever has no score is asked again, not only what may pass by itself.
    ``gone``: ids that the file may have and the input has no more; their lines go, and
    unless it is None, the input may also have dialogues between those of the file.
    """

    judge: str
    dimensions: tuple[str, ...]
    level: ScoreLevel
    retry_failed: bool = False
    gone: Container[str] | None = None

    def asks_again(self, rows: Sequence[Judgement]) -> bool:
        """Whether the dialogue of these judgements is judged again."""
        return any(row.transient or (self.retry_failed and not row.scored) for row in rows)


def resume(
    dialogues: Iterator[Dialogue], run: Run, out: Path, keep: Callable[[Sequence[Judgement]], None]
) -> tuple[Iterator[Dialogue], list[Dialogue]]:
    """Bring ``out`` to what is kept of it; returns the dialogues that are still to be judged, and
    those that stand there and are to be asked again (held in memory).

    ``keep`` is called with the judgements of each dialogue that is done. What is kept is copied
    beside and takes the place of ``out`` at the end: a refusal leaves ``out`` as it was, and a gzip
    member that a kill cut short could not be appended to. Raises MedalError where ``out`` is not
    what ``run`` would write of ``dialogues``.
    """
    if not out.exists() or out.stat().st_size == 0:
        forget(out)
        return dialogues, []
    put_in_place(out)
    again: list[Dialogue] = []
    moves = run.gone is not None
    with _rewritten(out) as stream:
        for lines, rows in _earlier(out):
            if run.gone is not None and rows[0].id in run.gone:
                continue
            dialogue = next(dialogues, None)
            while moves and dialogue is not None and dialogue.id != rows[0].id:
                stream.writelines(_places(dialogue, run))
                again.append(dialogue)
                dialogue = next(dialogues, None)
            _check_match(rows, dialogue, run, out)
            assert dialogue is not None
            if len(rows) < len(items_of(dialogue, run.level)):
                # A kill can leave the last dialogue with some of its turns: judged again.
                dialogues = chain([dialogue], dialogues)
                break
            stream.writelines(lines)
            if run.asks_again(rows):
                again.append(dialogue)
            else:
                keep(rows)
    return dialogues, again


@contextmanager
def asked_again(out: Path) -> Iterator[IO[str]]:
    """A file beside ``out`` for new judgements of dialogues that stand there; they take the place
    of the old ones at the end, also where the run stops, and after a kill at the next start."""
    try:
        with open_text(_beside(out), "w") as stream:
            yield stream
    finally:
        put_in_place(out)


def put_in_place(out: Path) -> None:
    """Replace in ``out`` the judgements of each dialogue that was wholly judged again."""
    beside = _beside(out)
    if not beside.exists():
        return
    newer = _earlier(beside)
    wanted = next(newer, None)
    with _rewritten(out) as stream:
        for lines, rows in _earlier(out):
            if wanted is not None and wanted[1][0].id == rows[0].id:
                # A kill may leave half of a dialogue's turns.
                whole = [(r.turn, r.judge) for r in wanted[1]] == [(r.turn, r.judge) for r in rows]
                lines = wanted[0] if whole else lines
                wanted = next(newer, None)
            stream.writelines(lines)
    beside.unlink()


def forget(out: Path) -> None:
    """Remove ``out``, and what a kill left beside it."""
    for path in (out, _beside(out)):
        path.unlink(missing_ok=True)


def _beside(out: Path) -> Path:
    return out.with_name(f".again-{out.name}")


@contextmanager
def _rewritten(out: Path) -> Iterator[IO[str]]:
    """A stream whose text takes the place of ``out`` where nothing is raised."""
    kept = out.with_name(f".kept-{out.name}")
    try:
        with open_text(kept, "w") as stream:
            yield stream
        kept.replace(out)
    finally:
        kept.unlink(missing_ok=True)


def _places(dialogue: Dialogue, run: Run) -> list[str]:
    """Lines for a dialogue between others that are judged, until it is judged itself."""
    turns = [item.turn for item in items_of(dialogue, run.level)]
    empty = [unscored(dialogue.id, run.judge, run.dimensions, NOT_YET, turn) for turn in turns]
    return [to_line(replace(each, transient=True)) for each in empty]


def _check_match(rows: Sequence[Judgement], dialogue: Dialogue | None, run: Run, out: Path) -> None:
    """Raise MedalError where ``rows``, of one dialogue, are not what ``run`` would write of it.

    They may be fewer: a kill can leave the last dialogue with some of its turns.
    """
    first = rows[0]
    if first.judge != run.judge:
        raise _refusal(out, "by another judge or with other settings", first.judge, run.judge)
    if dialogue is None or dialogue.id != first.id:
        raise _other_input(out, first.id, repr(dialogue.id) if dialogue else "ended")
    if set(first.scores) != set(run.dimensions):
        there, now = ", ".join(first.scores), ", ".join(run.dimensions)
        raise _refusal(out, "for other dimensions", there, now)
    turns = [row.turn for row in rows]
    levels = [name for name in get_args(ScoreLevel) if _begins(dialogue, name, turns)]
    if not levels:
        raise _other_input(out, f"turns {turns} of {first.id!r}", "other turns")
    if run.level not in levels:
        raise _refusal(out, "at another level", " or ".join(levels), run.level)


def _begins(dialogue: Dialogue, level: ScoreLevel, turns: Sequence[int | None]) -> bool:
    """Whether what is judged of ``dialogue`` at ``level`` begins with ``turns``."""
    return [item.turn for item in items_of(dialogue, level)][: len(turns)] == turns


def _refusal(out: Path, how: str, there: str, now: str) -> MedalError:
    return MedalError(
        f"{out} was written {how}:\n    there: {there}\n    now:   {now}", hint=_AGAIN
    )


def _other_input(out: Path, there: str, now: str) -> MedalError:
    return MedalError(
        f"{out} does not go with this input: it has {there} where the input has {now}", hint=_AGAIN
    )


def _earlier(out: Path) -> Iterator[tuple[list[str], list[Judgement]]]:
    """Lines and judgements of one dialogue after the other, as far as lines are whole JSON."""
    for _, group in groupby(_complete_lines(out), key=lambda pair: pair[1].get("id")):
        pairs = list(group)
        try:
            rows = [parse_judgement(record) for _, record in pairs]
        except RecordError as error:
            raise MedalError(
                f"{out} has a line that is no judgement: {error}", hint=_AGAIN
            ) from error
        yield [line for line, _ in pairs], rows


def _complete_lines(out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(line, its JSON object) of every line up to the first that is not whole."""
    with open_text(out) as stream:
        while True:
            try:
                line = stream.readline()
            except (EOFError, OSError, gzip.BadGzipFile, UnicodeDecodeError):
                return
            if not line.endswith("\n"):
                return
            try:
                record = json.loads(line)
            except ValueError:
                return
            if not isinstance(record, dict):
                return
            yield line, record
