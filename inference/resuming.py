"""What an earlier run left of a file of judgements: kept, asked again, or refused.

A file stands in the order of its input. A dialogue whose judgement lacks an answer that may come
now is asked again: its new judgement is written to a journal beside the file, and takes the old
one's place at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import IO, get_args

from medal_judges.errors import MedalError
from medal_judges.inference.kept import kept_of
from medal_judges.models.base.judge import ScoreLevel, requests_at
from medal_judges.models.base.judged_languages import UnknownLanguage, is_refusal, with_language
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, parse_judgement, unscored
from medal_judges.storage.files import atomic_path
from medal_judges.storage.journal import Journal
from medal_judges.storage.jsonl import open_text, to_line

_AGAIN = "give another --out, or --overwrite to start again from the beginning"
NOT_YET = "not judged yet"


@dataclass(frozen=True, slots=True)
class Expected:
    """What all lines of one file have in common: the judge's signature, and what it was asked.

    ``retry_failed``: whatever has no score is asked again, not only what may pass by itself.
    ``gone``: ids that the file may have and the input no longer has; their lines are removed.
    ``keep``: the fields of ``Judgement.meta``. ``detect``: whether the language of dialogues that
    state none is detected; ``unknown_language``: what is done with languages that the judge was not
    made for. ``window``: an unfinished run is kept up to a multiple of so many dialogues, and goes
    on with the windows of an unbroken one: the last bits of a network's numbers follow from what is
    batched together.
    """

    judge: str
    dimensions: tuple[str, ...]
    level: ScoreLevel
    retry_failed: bool = False
    gone: Container[str] = ()
    keep: tuple[str, ...] = ()
    detect: bool = False
    unknown_language: UnknownLanguage = "warn"
    window: int = 1

    def asks_again(self, rows: Sequence[Judgement]) -> bool:
        """Whether the dialogue of these judgements is judged again."""
        return any(row.transient or (self.retry_failed and not row.scored) for row in rows)

    def placeholders(self, dialogue: Dialogue) -> list[Judgement]:
        """What stands for a dialogue between others that are judged, until it is judged itself."""
        return [
            replace(
                unscored(dialogue.id, self.judge, self.dimensions, NOT_YET, item.turn),
                transient=True,
                meta=kept_of(dialogue, self.keep),
            )
            for item in requests_at(dialogue, self.level)
        ]

    def require_same(self, rows: Sequence[Judgement], dialogue: Dialogue, out: Path) -> None:
        """Raise MedalError where ``rows`` of ``dialogue`` are of other dimensions, another level,
        with other fields kept, or made by other rules for languages.

        They may be fewer: a kill can leave the last dialogue with some of its turns.
        """
        if set(rows[0].scores) != set(self.dimensions):
            there, now = ", ".join(rows[0].scores), ", ".join(self.dimensions)
            raise _refusal(out, "for other dimensions", there, now)
        if set(rows[0].meta) != set(self.keep):
            there, now = ", ".join(rows[0].meta) or "nothing", ", ".join(self.keep) or "nothing"
            raise _refusal(out, "with other fields kept (--keep)", there, now)
        for row in rows:
            self._require_same_languages(row, dialogue, out)
        turns = [row.turn for row in rows]
        levels = [name for name in get_args(ScoreLevel) if _begins(dialogue, name, turns)]
        if not levels:
            raise _other_input(out, f"turns {turns} of {rows[0].id!r}")
        if self.level not in levels:
            raise _refusal(out, "at another level", " or ".join(levels), self.level)

    def _require_same_languages(self, row: Judgement, dialogue: Dialogue, out: Path) -> None:
        if row.failure == NOT_YET:
            return
        there = row.detected_language
        now = with_language(dialogue, self.detect)[1] if there is None or not self.detect else there
        if there != now:  # where none can be told, it is the same whether it was looked for or not
            told = ["--detect-language", "--no-detect-language"]
            raise _refusal(out, "by another rule for languages", *told[:: 1 if there else -1])
        refused = is_refusal(row)
        if row.unknown_language is None or (refused and self.retry_failed):
            return
        if self.unknown_language == "allow" or refused != (self.unknown_language == "refuse"):
            was = f"--unknown-language {'refuse' if refused else 'warn'}"
            here = f"--unknown-language {self.unknown_language}"
            raise _refusal(out, "by another rule for languages", was, here)


def resume(
    dialogues: Iterator[Dialogue],
    expected: Expected,
    out: Path,
    keep: Callable[[Sequence[Judgement]], None],
) -> tuple[Iterator[Dialogue], list[Dialogue]]:
    """Bring ``out`` to what is kept of it; returns the dialogues that are still to be judged, and
    those that stand there, or belong between others there, and are to be asked (held in memory).

    ``keep`` is called with the judgements of each dialogue that is done. Raises MedalError where
    ``out`` is not what ``expected`` says of ``dialogues``, and leaves it as it was.
    """
    if not out.exists() or out.stat().st_size == 0:
        forget(out)
        return dialogues, []
    put_in_place(out)
    again: list[Dialogue] = []
    window: list[_Kept] = []
    with _rewritten(out) as stream:

        def settle() -> None:
            """The dialogues of a whole window are kept, or asked again."""
            for kept in window:
                stream.writelines(kept.lines)
                if kept.rows is None:
                    again.append(kept.dialogue)
                else:
                    keep(kept.rows)
            window.clear()

        for kept in _kept(dialogues, expected, out):
            if not kept.whole:
                # A kill can leave the last dialogue with some of its turns: judged again.
                return chain((each.dialogue for each in [*window, kept]), dialogues), again
            window.append(kept)
            if len(window) == expected.window:
                settle()
        if window and (after := next(dialogues, None)) is not None:
            begun = [*(each.dialogue for each in window), after]
            return chain(begun, dialogues), again
        settle()
    return dialogues, again


@dataclass(frozen=True, slots=True)
class _Kept:
    """A dialogue of the input and its lines in the file; ``rows`` None where it is asked again,
    ``whole`` False where some of its lines are missing."""

    dialogue: Dialogue
    lines: list[str]
    rows: Sequence[Judgement] | None = None
    whole: bool = True


def _kept(dialogues: Iterator[Dialogue], expected: Expected, out: Path) -> Iterator[_Kept]:
    """What ``out`` has, or lacks between others, of ``dialogues``; ends with its lines. Raises as
    ``resume``."""
    for lines, rows in _by_dialogue(out):
        if rows[0].id in expected.gone:
            continue
        if rows[0].judge != expected.judge:
            how = "by another judge or with other settings"
            raise _refusal(out, how, rows[0].judge, expected.judge)
        for dialogue in dialogues:
            if dialogue.id == rows[0].id:
                break
            yield _Kept(dialogue, [*map(to_line, expected.placeholders(dialogue))])
        else:
            raise _other_input(out, rows[0].id)
        expected.require_same(rows, dialogue, out)
        whole = len(rows) == len(requests_at(dialogue, expected.level))
        yield _Kept(dialogue, lines, None if expected.asks_again(rows) else rows, whole)


@contextmanager
def asked_again(out: Path) -> Iterator[Journal]:
    """A journal beside ``out`` for new judgements of dialogues that stand there; they take the
    place of the old ones at the end, also where the run stops, and after a kill at the next
    start."""
    try:
        yield Journal(_beside(out))
    finally:
        put_in_place(out)


def put_in_place(out: Path) -> None:
    """Replace in ``out`` the judgements of each dialogue that was wholly judged again."""
    beside = _beside(out)
    if not beside.exists():
        return
    newer = {rows[0].id: (lines, rows) for lines, rows in _by_dialogue(beside)}
    with _rewritten(out) as stream:
        for lines, rows in _by_dialogue(out):
            new_lines, new = newer.get(rows[0].id, (lines, rows))
            # A kill may leave half of a dialogue's turns.
            whole = [(r.turn, r.judge) for r in new] == [(r.turn, r.judge) for r in rows]
            stream.writelines(new_lines if whole else lines)
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
    with atomic_path(out) as partial, open_text(partial, "w") as stream:
        yield stream


def _by_dialogue(path: Path) -> Iterator[tuple[list[str], list[Judgement]]]:
    """The lines, and the judgements, of one dialogue after the other."""
    pairs = Journal(path).records(_judgement_and_line)
    for _, group in groupby(pairs, key=lambda pair: pair[0].id):
        rows, lines = zip(*group, strict=True)
        yield list(lines), list(rows)


def _judgement_and_line(record: object) -> tuple[Judgement, str]:
    judgement = parse_judgement(record)
    assert isinstance(record, dict)  # parse_judgement refused anything else
    return judgement, to_line(record)


def _begins(dialogue: Dialogue, level: ScoreLevel, turns: Sequence[int | None]) -> bool:
    """Whether what is judged of ``dialogue`` at ``level`` begins with ``turns``."""
    return [item.turn for item in requests_at(dialogue, level)][: len(turns)] == turns


def _refusal(out: Path, how: str, there: str, now: str) -> MedalError:
    return MedalError(
        f"{out} was written {how}:\n    there: {there}\n    now:   {now}", hint=_AGAIN
    )


def _other_input(out: Path, there: str) -> MedalError:
    return MedalError(
        f"{out} does not go with this input: the input has no {there} where {out.name} has it",
        hint=_AGAIN,
    )
