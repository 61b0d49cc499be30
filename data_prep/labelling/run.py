"""A labelling run: users are checked, what is well-formed is labelled, and rows are sorted.

Both judges write judgements that a second run resumes. The sorting into files needs no judge and is
done again each time: rows are read one after the other beside the judgements of both judges, so
that a file of any size fits, and all files appear together at the end, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from medal_judges.data_prep.labelling.labels import (
    WRONG_LANGUAGE,
    Labelling,
    as_malformed,
    as_well_formed,
    labelled,
    malformed_reasons,
    unlabelled,
)
from medal_judges.data_prep.labelling.language_check import LanguageChecker
from medal_judges.data_prep.labelling.summary import Comparison, Summary
from medal_judges.errors import MedalError
from medal_judges.inference.progress import scoring_bar
from medal_judges.inference.scoring import ScoreOptions, ScoreReport, score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import labelled_of
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.records.dialogue import ROLES, Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.files import atomic_path, atomic_write
from medal_judges.storage.jsonl import open_text, to_line
from medal_judges.storage.judgements import read_judgements

USERS = "user_judgements.jsonl"
LABELS = "judgements.jsonl"
REPORT = "report.json"
Kind = Literal["labelled", "malformed", "unlabelled"]
KINDS: tuple[Kind, ...] = ("labelled", "malformed", "unlabelled")
LANGUAGES = "language_check"


@dataclass(slots=True)
class LabellingRun:
    """``file`` is labelled by ``judge`` into the folder ``out``; ``user_judge`` is None where users
    are not checked, ``langs`` where languages are not. ``min_coverage``: the least share of users
    that must have got a verdict before anything is labelled. ``chats``: how the file is read; it is
    read several times."""

    file: str | Path
    out: Path
    judge: Judge
    user_judge: Judge | None = None
    langs: Sequence[str] | None = None
    min_coverage: float = 0.98
    overwrite: bool = False
    retry_failed: bool = False
    chats: ReadOptions = DEFAULT_READING

    def run(self) -> tuple[Summary, ScoreReport]:
        """Do what is left to do; returns the counts, and the report on the labelling judge.

        Raises CoverageError when too few users could be checked, and what score_to_file raises.
        """
        if self.user_judge is not None:
            checked = self._score((r.dialogue for r in self._rows()), self.user_judge, USERS)
            checked.require_coverage(self.min_coverage)
        elif self.overwrite:  # an earlier run's verdicts say nothing of this one
            (self.out / USERS).unlink(missing_ok=True)
        kept = (row.dialogue for row in well_formed(self._rows(), self._checks()))
        # A verdict that came later takes its dialogue out of those that were labelled, or adds it.
        malformed = {check.id for check in self._checks() or () if malformed_reasons(check)}
        report = self._score(kept, self.judge, LABELS, gone=malformed)
        checker = None if self.langs is None else LanguageChecker(self.langs)
        sorter = Sorter(Labelling(self.judge.dimensions, repeats_of(self.judge)), checker)
        judgements = read_judgements(self.out / LABELS)
        summary = sorter.sort(self._rows(), self._checks(), judgements, self.out)
        judges = {
            "labels_by": str(self.judge.signature()),
            "users_checked_by": self.user_judge and str(self.user_judge.signature()),
        }
        record = json.dumps(judges | summary.to_record(), indent=2, ensure_ascii=False)
        atomic_write(self.out / REPORT, record + "\n")
        return summary, report

    def _rows(self) -> Iterator[LabelledDialogue]:
        return labelled_of(self.file, self.chats, ReadingReport(keep=0))

    def _checks(self) -> Iterator[Judgement] | None:
        return None if self.user_judge is None else read_judgements(self.out / USERS)

    def _score(
        self,
        dialogues: Iterator[Dialogue],
        judge: Judge,
        name: str,
        gone: Container[str] = (),
    ) -> ScoreReport:
        with scoring_bar() as advance:
            return score_to_file(
                dialogues,
                judge,
                self.out / name,
                ScoreOptions(overwrite=self.overwrite, retry_failed=self.retry_failed),
                gone=gone,
                progress=advance,
            )


@dataclass(slots=True)
class Sorter:
    """Sorts rows into files by the judges' answers; ``checker`` is None where languages are not
    checked."""

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
        with _written_together(folder, [*KINDS, *([LANGUAGES] if self.checker else [])]) as files:
            for row in rows:
                check = None if checks is None else _next(checks, row)
                if self.checker is not None:
                    self._check_languages(self.checker, row, check, files[LANGUAGES])
                kind, sorted_row = self._sorted(row, check, judgements)
                self.summary.kinds[kind] += 1
                files[kind].write(to_line(sorted_row))
        if self.checker is None:  # of an earlier run
            (folder / f"{LANGUAGES}.jsonl").unlink(missing_ok=True)
        return self.summary

    def _sorted(
        self, row: LabelledDialogue, check: Judgement | None, judgements: Iterator[Judgement]
    ) -> tuple[Kind, LabelledDialogue]:
        if check is not None:
            why = malformed_reasons(check)
            self.summary.add_user(row, why, checked=bool(why) or check.scored)
            if why:
                return "malformed", as_malformed(row, check)
            row = as_well_formed(row, check)
        judgement = _next(judgements, row)
        if judgement.failure is not None:
            self.summary.failures[judgement.failure] += 1
        with_labels = labelled(row, judgement, self.asked)
        if not with_labels.labels:
            return "unlabelled", unlabelled(row, judgement)
        self.summary.add_labelled(with_labels)
        return "labelled", with_labels

    def _check_languages(
        self,
        checker: LanguageChecker,
        row: LabelledDialogue,
        check: Judgement | None,
        file: IO[str],
    ) -> None:
        languages = checker.check(row.dialogue)
        file.write(to_line(languages))
        for role in ROLES:
            mixed = languages.mixed(role)
            name = "no verdict" if mixed is None else "mixed" if mixed else "one language"
            self.summary.mixed[role][name] += 1
        if check is not None and WRONG_LANGUAGE in check.scores:
            self.summary.comparison = self.summary.comparison or Comparison()
            score = check.scores[WRONG_LANGUAGE]
            wrong = None if score is None else score >= 0.5
            self.summary.comparison.add(row.id, wrong, languages.mixed("user"))


def well_formed(
    rows: Iterable[LabelledDialogue], checks: Iterator[Judgement] | None
) -> Iterator[LabelledDialogue]:
    """The rows whose user was found to be in order, or could not be checked; all without
    ``checks``."""
    for row in rows:
        if checks is None or not malformed_reasons(_next(checks, row)):
            yield row


def _next(judgements: Iterator[Judgement], row: LabelledDialogue) -> Judgement:
    judgement = next(judgements, None)
    if judgement is None or judgement.id != row.id:
        there = "no more judgements" if judgement is None else f"a judgement of {judgement.id!r}"
        raise MedalError(
            f"{there} where row {row.id!r} stands: FILE was changed while it was labelled",
            hint="--overwrite starts again from the beginning; cached answers cost nothing",
        )
    return judgement


@contextmanager
def _written_together(folder: Path, names: Iterable[str]) -> Iterator[dict[str, IO[str]]]:
    """Files to write, which take their names when all is written."""
    with ExitStack() as renames, ExitStack() as files:
        paths = {n: renames.enter_context(atomic_path(folder / f"{n}.jsonl")) for n in names}
        yield {n: files.enter_context(open_text(path, "w")) for n, path in paths.items()}


def repeats_of(judge: Judge) -> int:
    """How many answers the judge asks for about each dialogue."""
    from medal_judges.models.prompted.judge import PromptedJudge

    return judge.config.repeats if isinstance(judge, PromptedJudge) else 1


def share_limiter(judges: Iterable[Judge]) -> None:
    """Let judges that pay take from one limiter, so that --max-cost holds for their sum."""
    models = [model for judge in judges for model in judge.language_models()]
    limiters = [model.limiter for model in models if model.limiter is not None]
    for model in models if limiters else ():
        model.spend_from(limiters[0])
