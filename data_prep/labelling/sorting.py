"""The last step of a labelling run: every row goes to one of three files, with what was said of it.

Rows are read one after the other beside the judgements of both judges, so that a file of any size
fits; all files appear together at the end, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from medal_judges.data_prep.labelling.comparison import Comparison
from medal_judges.data_prep.labelling.labels import Labelling, labelled, unlabelled
from medal_judges.data_prep.labelling.language_check import LanguageChecker
from medal_judges.data_prep.labelling.malformed import (
    WRONG_LANGUAGE,
    found,
    kept,
    moved,
    reasons,
)
from medal_judges.data_prep.labelling.summary import Summary
from medal_judges.dialogue import ROLES
from medal_judges.errors import MedalError
from medal_judges.jsonl import open_text, to_line
from medal_judges.judgement import Judgement
from medal_judges.labelled import LabelledDialogue

Kind = Literal["labelled", "malformed", "unlabelled"]
KINDS: tuple[Kind, ...] = ("labelled", "malformed", "unlabelled")
LANGUAGES = "language_check"


@dataclass(slots=True)
class Sorter:
    """Sorts rows into ``files``; ``checker`` is None where languages are not looked at."""

    asked: Labelling
    checker: LanguageChecker | None = None
    summary: Summary = field(init=False)

    def __post_init__(self) -> None:
        self.summary = Summary(self.asked)

    def sort(
        self,
        rows: Iterable[LabelledDialogue],
        checks: Iterator[Judgement] | None,
        judgements: Iterator[Judgement],
        folder: Path,
    ) -> Summary:
        """Write labelled.jsonl, malformed.jsonl, unlabelled.jsonl and, with a ``checker``,
        language_check.jsonl; returns what was counted.

        ``checks`` has one judgement a row, in order (None: users were not checked);
        ``judgements`` one for each row that is not malformed. Raises MedalError where they are
        of other rows.
        """
        with _together(folder, [*KINDS, *([LANGUAGES] if self.checker else [])]) as files:
            for row in rows:
                check = None if checks is None else _next(checks, row)
                self._look_at_languages(row, check, files.get(LANGUAGES))
                kind, told = self._sorted(row, check, judgements)
                self.summary.kinds[kind] += 1
                files[kind].write(to_line(told))
        return self.summary

    def _sorted(
        self, row: LabelledDialogue, check: Judgement | None, judgements: Iterator[Judgement]
    ) -> tuple[Kind, LabelledDialogue]:
        if check is not None:
            why = reasons(check)
            self.summary.add_user(row, why, checked=bool(why) or check.scored)
            if why:
                return "malformed", moved(row, check)
            row = kept(row, check)
        judgement = _next(judgements, row)
        if judgement.failure is not None:
            self.summary.failures[judgement.failure] += 1
        told = labelled(row, judgement, self.asked)
        if not told.labels:
            return "unlabelled", unlabelled(row, judgement)
        self.summary.add_labelled(told)
        return "labelled", told

    def _look_at_languages(
        self, row: LabelledDialogue, check: Judgement | None, file: IO[str] | None
    ) -> None:
        if self.checker is None or file is None:
            return
        seen = self.checker.check(row.dialogue)
        file.write(to_line(seen))
        for role in ROLES:
            mixed = seen.mixed(role)
            name = "no verdict" if mixed is None else "mixed" if mixed else "one language"
            self.summary.mixed[role][name] += 1
        if check is not None and WRONG_LANGUAGE in check.scores:
            self.summary.comparison = self.summary.comparison or Comparison()
            said = found(check, WRONG_LANGUAGE)
            self.summary.comparison.add(row.id, said, seen.mixed("user"))


def well_formed(
    rows: Iterable[LabelledDialogue], checks: Iterator[Judgement] | None
) -> Iterator[LabelledDialogue]:
    """The rows whose user was found to be in order, or could not be checked; all without
    ``checks``."""
    for row in rows:
        if checks is None or not reasons(_next(checks, row)):
            yield row


def _next(judgements: Iterator[Judgement], row: LabelledDialogue) -> Judgement:
    judgement = next(judgements, None)
    if judgement is None or judgement.id != row.id:
        there = "no more judgements" if judgement is None else f"a judgement of {judgement.id!r}"
        raise MedalError(
            f"{there} where row {row.id!r} stands: FILE was changed while it was labelled",
            hint="--overwrite starts anew; answers that are kept cost nothing",
        )
    return judgement


@contextmanager
def _together(folder: Path, names: Iterable[str]) -> Iterator[dict[str, IO[str]]]:
    """Files to write, which take their names when all is written."""
    partial = {name: folder / f".partial-{os.getpid()}-{name}.jsonl" for name in names}
    try:
        with ExitStack() as stack:
            yield {n: stack.enter_context(open_text(path, "w")) for n, path in partial.items()}
        for name, path in partial.items():
            path.replace(folder / f"{name}.jsonl")
        if LANGUAGES not in partial:  # of an earlier run
            (folder / f"{LANGUAGES}.jsonl").unlink(missing_ok=True)
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)
