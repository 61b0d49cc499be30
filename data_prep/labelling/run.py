"""A labelling run: users are checked, what is well-formed is labelled, and rows are sorted.

Both judges run as in ``medal score``, whose journal a second run resumes. The sorting into files
needs no judge and is repeated each time: rows are read beside the judgements of both judges, so
that a file of any size fits, and all files appear together at the end, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from medal_judges.data_prep.labelling.labels import (
    WRONG_LANGUAGE,
    labelled,
    malformed_reasons,
    with_check,
)
from medal_judges.data_prep.labelling.language_check import LanguageChecker
from medal_judges.data_prep.labelling.summary import Summary
from medal_judges.errors import MedalError
from medal_judges.inference.scoring import ScoreOptions, ScoreReport, score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import labelled_of
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.records.dialogue import ROLES, Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.progress import ProgressBar
from medal_judges.storage.files import atomic_path, atomic_write
from medal_judges.storage.jsonl import open_text, to_line
from medal_judges.storage.judgements import read_judgements

USERS = "user_judgements.jsonl"
LABELS = "judgements.jsonl"
REPORT = "report.json"
KINDS = ("labelled", "malformed", "unlabelled")
LANGUAGES = "language_check"


@dataclass(slots=True)
class LabellingRun:
    """``judge`` labels ``file`` into the folder ``out``. ``user_judge`` None does not check users,
    ``langs`` None does not check languages. ``min_coverage``: minimum share of users with a verdict
    before anything is labelled. The file is read several times, by ``reading``."""

    file: str | Path
    out: Path
    judge: Judge
    user_judge: Judge | None = None
    langs: Sequence[str] | None = None
    min_coverage: float = 0.98
    overwrite: bool = False
    retry_failed: bool = False
    reading: ReadOptions = DEFAULT_READING

    def run(self) -> tuple[Summary, ScoreReport]:
        """Do what is left; returns the counts, and the report on the labelling judge.

        Raises CoverageError if too few users could be checked, and what score_to_file raises.
        """
        if self.user_judge is not None:
            checked = self._score((r.dialogue for r in self._rows()), self.user_judge, USERS)
            checked.require_coverage(self.min_coverage)
        elif self.overwrite:  # an earlier run's verdicts do not count here
            (self.out / USERS).unlink(missing_ok=True)
        kept = (row.dialogue for row in well_formed(self._rows(), self._checks()))
        # A later verdict removes its dialogue from those that were labelled, or adds it.
        malformed = {check.id for check in self._checks() or () if malformed_reasons(check)}
        report = self._score(kept, self.judge, LABELS, gone=malformed)
        checker = None if self.langs is None else LanguageChecker(self.langs)
        summary = Summary(self.judge.dimensions, repeats_of(self.judge))
        judgements = read_judgements(self.out / LABELS)
        sort_rows(self._rows(), self._checks(), judgements, self.out, summary, checker)
        judges = {
            "labels_by": str(self.judge.signature()),
            "users_checked_by": self.user_judge and str(self.user_judge.signature()),
        }
        record = json.dumps(judges | summary.to_record(), indent=2, ensure_ascii=False)
        atomic_write(self.out / REPORT, record + "\n")
        return summary, report

    def _rows(self) -> Iterator[LabelledDialogue]:
        return labelled_of(self.file, self.reading, ReadingReport())

    def _checks(self) -> Iterator[Judgement] | None:
        return None if self.user_judge is None else read_judgements(self.out / USERS)

    def _score(
        self, dialogues: Iterator[Dialogue], judge: Judge, name: str, gone: Container[str] = ()
    ) -> ScoreReport:
        options = ScoreOptions(overwrite=self.overwrite, retry_failed=self.retry_failed)
        with ProgressBar("scoring") as bar:
            return score_to_file(
                dialogues, judge, self.out / name, options, gone=gone, progress=bar.advance
            )


def sort_rows(
    rows: Iterable[LabelledDialogue],
    checks: Iterator[Judgement] | None,
    judgements: Iterator[Judgement],
    folder: Path,
    summary: Summary,
    checker: LanguageChecker | None = None,
) -> None:
    """Write labelled.jsonl, malformed.jsonl, unlabelled.jsonl and, with a ``checker``,
    language_check.jsonl, and count in ``summary``.

    ``checks`` has one judgement a row, in order (None: users were not checked); ``judgements`` one
    for each row that is not malformed. Raises MedalError if they are of other rows.
    """
    names = [*KINDS, *([LANGUAGES] if checker else [])]
    with ExitStack() as renames, ExitStack() as open_files:
        paths = {n: renames.enter_context(atomic_path(folder / f"{n}.jsonl")) for n in names}
        files = {n: open_files.enter_context(open_text(path, "w")) for n, path in paths.items()}
        for row in rows:
            check = None if checks is None else _next(checks, row)
            if checker is not None:
                languages = checker.check(row.dialogue)
                files[LANGUAGES].write(to_line(languages))
                for role in ROLES:
                    mixed = languages[role]["mixed"]
                    found = "no verdict" if mixed is None else "mixed" if mixed else "one language"
                    summary.mixed[role][found] += 1
                if check is not None and WRONG_LANGUAGE in check.scores:
                    score = check.scores[WRONG_LANGUAGE]
                    wrong = None if score is None else score >= 0.5
                    summary.compare(row.id, wrong, languages["user"]["mixed"])
            kind = "labelled"
            if check is not None:
                why = malformed_reasons(check)
                summary.add_user(row, why, checked=bool(why) or check.scored)
                row = with_check(row, check)
                kind = "malformed" if why else kind
            if kind == "labelled":
                judgement = _next(judgements, row)
                if judgement.failure is not None:
                    summary.failures[judgement.failure] += 1
                before = row.labels
                row = labelled(row, judgement, summary.dimensions, summary.repeats)
                if row.labels is before:
                    kind = "unlabelled"
                else:
                    summary.add_labelled(row)
            summary.kinds[kind] += 1
            files[kind].write(to_line(row))
    if checker is None:  # of an earlier run
        (folder / f"{LANGUAGES}.jsonl").unlink(missing_ok=True)


def well_formed(
    rows: Iterable[LabelledDialogue], checks: Iterator[Judgement] | None
) -> Iterator[LabelledDialogue]:
    """The rows whose user is in order, or could not be checked; all without ``checks``."""
    for row in rows:
        if checks is None or not malformed_reasons(_next(checks, row)):
            yield row


def _next(judgements: Iterator[Judgement], row: LabelledDialogue) -> Judgement:
    judgement = next(judgements, None)
    if judgement is None or judgement.id != row.id:
        there = "no more judgements" if judgement is None else f"a judgement of {judgement.id!r}"
        raise MedalError(
            f"{there} at row {row.id!r}: FILE was changed while it was labelled",
            hint="--overwrite starts again from the beginning; cached answers cost nothing",
        )
    return judgement


def repeats_of(judge: Judge) -> int:
    """How many answers the judge gives on each dialogue."""
    from medal_judges.models.prompted.judge import PromptedJudge

    return judge.config.repeats if isinstance(judge, PromptedJudge) else 1


def share_limiter(judges: Iterable[Judge]) -> None:
    """Let judges that pay share one limiter, so that --max-cost holds for their sum."""
    models = [model for judge in judges for model in judge.language_models()]
    limiters = [model.limiter for model in models if model.limiter is not None]
    for model in models if limiters else ():
        model.spend_from(limiters[0])
