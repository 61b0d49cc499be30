"""Resumes a file of judgements: decides which lines of an earlier run stay and what is scored
again.

The lines are in the order of the input. A dialogue with a transient failure is scored again: its
new judgements go to a journal beside the file, and replace the old ones at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import IO, Any, NamedTuple

from medal_judges.errors import MedalError
from medal_judges.inference.metadata import input_hash, metadata_of
from medal_judges.models.base.judge import (
    NO_ASSISTANT_TURN,
    ScoreLevel,
    UnknownLanguage,
    is_refusal,
    requests_at,
    with_language,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement, judgement_parser, unscored
from medal_judges.storage.files import atomic_path
from medal_judges.storage.jsonl import Journal, open_text, to_line

_AGAIN = "give another --out, or --overwrite to start again from the beginning"
NOT_YET = "not judged yet"
_Line = dict[str, Any]  # the JSON object of a line, without dimensions


class _EarlierDialogue(NamedTuple):
    """A dialogue of an earlier run, with its lines. ``judgements`` is None if it is scored
    again."""

    dialogue: Dialogue
    lines: list[_Line]
    judgements: list[Judgement] | None


@dataclass(frozen=True, slots=True)
class Expected:
    """Properties that all lines of the file must share.

    ``gone``: ids that may be in the file but not in the input; their lines are removed. ``window``:
    lines of an unfinished run are cut to a multiple of that many dialogues, because the last digits
    of a network's scores depend on the other dialogues of the batch.
    """

    judge: str
    dimensions: tuple[Dimension, ...]
    level: ScoreLevel
    retry_failed: bool
    gone: Container[str]
    keep: tuple[str, ...]
    detect: bool
    unknown_language: UnknownLanguage
    window: int

    def require_same(self, first: Judgement, out: Path) -> None:
        """Raises MedalError if ``first`` was made by another judge, for other dimensions or with
        other metadata."""
        if first.judge != self.judge:
            how = "by another judge or with other settings"
            raise _refusal(out, how, first.judge, self.judge)
        if set(first.dimensions) != set(self.dimensions):
            in_file = ", ".join(dimension.name for dimension in first.dimensions)
            expected = ", ".join(dimension.name for dimension in self.dimensions)
            raise _refusal(
                out, "for other dimensions", in_file or "none is stated", expected
            )
        if set(first.meta) != set(self.keep):
            in_file = ", ".join(first.meta) or "nothing"
            expected = ", ".join(self.keep) or "nothing"
            raise _refusal(out, "with other metadata (--keep)", in_file, expected)

    def asks_again(self, judgement: Judgement) -> bool:
        """Says whether a judgement without a score is tried again."""
        if self.retry_failed and not judgement.scored:
            return judgement.failure != NO_ASSISTANT_TURN
        return judgement.transient

    def require_same_rules(
        self, rows: Sequence[Judgement], dialogue: Dialogue, out: Path
    ) -> None:
        """Raises MedalError if ``rows`` of ``dialogue`` were made at another level or by another
        rule for languages.

        Rows may be missing: after a kill the last dialogue can have only some of its turns.
        """
        turns = [row.turn for row in rows]
        levels: list[ScoreLevel] = ["dialogue", "turn", "last"]
        fitting = [
            level for level in levels if _turns(dialogue, level)[: len(turns)] == turns
        ]
        if self.level not in fitting:
            in_file = " or ".join(fitting) or f"turns {turns} of {rows[0].id!r}"
            raise _refusal(out, "at another level", in_file, self.level)
        for row in rows:
            if row.failure != NOT_YET:
                self._require_same_language(row, dialogue, out)

    def _require_same_language(
        self, row: Judgement, dialogue: Dialogue, out: Path
    ) -> None:
        another_rule = "by another rule for languages"
        if row.detected_language is None:
            _, language = with_language(dialogue, self.detect)
            if language is not None:
                raise _refusal(
                    out, another_rule, "--no-detect-language", "--detect-language"
                )
        elif not self.detect:
            raise _refusal(
                out, another_rule, "--detect-language", "--no-detect-language"
            )
        is_refused = is_refusal(row)
        if row.unknown_language is None or (is_refused and self.retry_failed):
            return
        rule_in_file = "warn"
        if is_refused:
            rule_in_file = "refuse"
        if self.unknown_language != rule_in_file:
            raise _refusal(
                out,
                another_rule,
                f"--unknown-language {rule_in_file}",
                f"--unknown-language {self.unknown_language}",
            )


def resume(
    dialogues: Iterator[Dialogue],
    expected: Expected,
    out: Path,
    keep: Callable[[Sequence[Judgement]], None],
) -> tuple[Iterator[Dialogue], list[Dialogue], int]:
    """Cuts ``out`` to the lines that stay. Returns the dialogues that follow them, the dialogues to
    score again, and how many changed.

    ``keep`` receives the judgements of each finished dialogue. Raises MedalError if ``out`` does
    not fit ``expected`` and ``dialogues``, and leaves it unchanged.
    """
    again: list[Dialogue] = []
    changed: list[str] = []
    window: list[_EarlierDialogue] = []
    with atomic_path(out) as partial, open_text(partial, "w") as stream:
        writer = _Writer(stream, expected.dimensions)

        def settle() -> None:
            for earlier in window:
                writer.write(earlier.lines)
                if earlier.judgements is None:
                    again.append(earlier.dialogue)
                else:
                    keep(earlier.judgements)
            window.clear()

        for earlier in _earlier(dialogues, expected, out, changed):
            unsettled = [dialogue for dialogue, *_ in window]
            turn_count = len(_turns(earlier.dialogue, expected.level))
            if earlier.judgements is not None and len(earlier.judgements) < turn_count:
                # A kill can leave a part of the last dialogue's turns: score it again.
                return (
                    chain(unsettled, [earlier.dialogue], dialogues),
                    again,
                    len(changed),
                )
            if any(map(expected.asks_again, earlier.judgements or ())):
                earlier = earlier._replace(judgements=None)
            window.append(earlier)
            if len(window) == expected.window:
                settle()
        if window:
            following = next(dialogues, None)
            if following is not None:
                unsettled = [dialogue for dialogue, *_ in window]
                return chain(unsettled, [following], dialogues), again, len(changed)
        settle()
    return dialogues, again, len(changed)


def _earlier(
    dialogues: Iterator[Dialogue], expected: Expected, out: Path, changed: list[str]
) -> Iterator[_EarlierDialogue]:
    """Yields each dialogue up to the last one in ``out`` with its lines and judgements.

    For a dialogue that changed since, or is missing in between, it yields placeholder lines and
    None; ids of the former are added to ``changed``.
    """
    for lines, rows in _by_dialogue(out):
        if rows[0].id in expected.gone:
            continue
        expected.require_same(rows[0], out)
        for dialogue in dialogues:
            meta = metadata_of(dialogue, expected.keep)
            input = input_hash(dialogue, meta)
            if dialogue.id == rows[0].id and input == rows[0].input:
                expected.require_same_rules(rows, dialogue, out)
                yield _EarlierDialogue(dialogue, lines, rows)
                break
            if dialogue.id == rows[0].id:
                changed.append(dialogue.id)
            placeholders = []
            for request in requests_at(dialogue, expected.level):
                waiting = unscored(
                    request.dialogue,
                    expected.judge,
                    expected.dimensions,
                    NOT_YET,
                    request.turn,
                )
                waiting = replace(waiting, transient=True, meta=meta, input=input)
                placeholders.append(waiting.to_record(before=expected.dimensions))
            yield _EarlierDialogue(dialogue, placeholders, None)
            if dialogue.id == rows[0].id:
                break
        else:
            problem = f"the input has no {rows[0].id} where {out.name} has it"
            raise MedalError(f"{out} does not fit this input: {problem}", hint=_AGAIN)


def put_in_place(out: Path, newer: Path) -> None:
    """Replaces the judgements in ``out`` of each dialogue that is complete in the file ``newer``,
    then deletes ``newer``."""
    if not newer.exists():
        return
    newer_by_id = {rows[0].id: (lines, rows) for lines, rows in _by_dialogue(newer)}
    with atomic_path(out) as partial, open_text(partial, "w") as stream:
        writer = None
        for lines, rows in _by_dialogue(out):
            writer = writer or _Writer(stream, rows[0].dimensions)
            newer_lines, newer_rows = newer_by_id.get(rows[0].id, (lines, rows))
            # A kill can leave a part of a dialogue's turns.
            newer_turns = [(row.turn, row.judge) for row in newer_rows]
            if newer_turns == [(row.turn, row.judge) for row in rows]:
                lines = newer_lines
            writer.write(lines)
    newer.unlink()


class _Writer:
    """Writes lines whose ``dimensions`` are the same; the first line states them."""

    def __init__(self, stream: IO[str], dimensions: Sequence[Dimension]) -> None:
        self._stream = stream
        self._stated = {
            "dimensions": [dimension.to_record() for dimension in dimensions]
        }

    def write(self, lines: Iterable[_Line]) -> None:
        for line in lines:
            self._stream.write(to_line(line | self._stated))
            self._stated = {}


def _by_dialogue(path: Path) -> Iterator[tuple[list[_Line], list[Judgement]]]:
    """Yields the lines and the judgements of one dialogue after another."""
    parse = judgement_parser()

    def parsed(record: object) -> tuple[Judgement, _Line]:
        judgement = parse(record)
        assert isinstance(record, dict)  # else ``parse`` raises
        record.pop("dimensions", None)
        return judgement, record

    for _, group in groupby(Journal(path).records(parsed), key=lambda pair: pair[0].id):
        rows, lines = zip(*group, strict=True)
        yield list(lines), list(rows)


def _turns(dialogue: Dialogue, level: ScoreLevel) -> list[int | None]:
    return [request.turn for request in requests_at(dialogue, level)]


def _refusal(out: Path, how: str, in_file: str, expected: str) -> MedalError:
    return MedalError(
        f"{out} was written {how}:\n    there: {in_file}\n    now:   {expected}",
        hint=_AGAIN,
    )
