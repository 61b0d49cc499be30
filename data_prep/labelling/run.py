"""A labelling run: users are checked, what is well-formed is labelled, and rows are sorted.

Both judges write judgements that a second run resumes; the sorting needs no judge and is done again
each time.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medal_judges.data_prep.labelling.labels import Labelling, Survey
from medal_judges.data_prep.labelling.language_check import LanguageChecker
from medal_judges.data_prep.labelling.malformed import reasons
from medal_judges.data_prep.labelling.sorting import Sorter, well_formed
from medal_judges.data_prep.labelling.summary import Summary
from medal_judges.dialogue import Dialogue
from medal_judges.errors import ConfigError
from medal_judges.inference.progress import scoring_bar
from medal_judges.inference.scoring import ScoreOptions, ScoreReport, score_to_file
from medal_judges.jsonl import read_judgements, read_labelled
from medal_judges.judgement import Judgement
from medal_judges.labelled import LabelledDialogue
from medal_judges.models.base.judge import Judge

USERS = "user_judgements.jsonl"
LABELS = "judgements.jsonl"
REPORT = "report.json"


@dataclass(slots=True)
class LabellingRun:
    """``file`` is labelled by ``judge`` into the folder ``out``; ``user_judge`` is None where users
    are not checked. ``min_coverage``: the least share of users that must have got a verdict before
    anything is labelled."""

    file: Path
    out: Path
    judge: Judge
    user_judge: Judge | None = None
    languages: bool = True
    min_coverage: float = 0.98
    overwrite: bool = False
    retry_failed: bool = False

    @property
    def asked(self) -> Labelling:
        """What the labelling judge is asked."""
        return Labelling(self.judge.dimensions, repeats_of(self.judge))

    def run(self, survey: Survey) -> tuple[Summary, ScoreReport]:
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
        report = self._score(kept, self.judge, LABELS, gone=self._malformed())
        checker = LanguageChecker(survey.langs) if self.languages else None
        sorter = Sorter(self.asked, checker)
        judgements = read_judgements(self.out / LABELS)
        summary = sorter.sort(self._rows(), self._checks(), judgements, self.out)
        told = json.dumps(self._told() | summary.to_record(), indent=2, ensure_ascii=False)
        (self.out / REPORT).write_text(told + "\n", encoding="utf-8")
        return summary, report

    def _rows(self) -> Iterator[LabelledDialogue]:
        return read_labelled(self.file)

    def _checks(self) -> Iterator[Judgement] | None:
        return None if self.user_judge is None else read_judgements(self.out / USERS)

    def _malformed(self) -> set[str]:
        checks = self._checks() or ()
        return {check.id for check in checks if reasons(check)}

    def _score(
        self,
        dialogues: Iterator[Dialogue],
        judge: Judge,
        name: str,
        gone: Container[str] = (),
    ) -> ScoreReport:
        with scoring_bar(str(self.file)) as advance:
            return score_to_file(
                dialogues,
                judge,
                self.out / name,
                ScoreOptions(overwrite=self.overwrite, retry_failed=self.retry_failed),
                gone=gone,
                progress=advance,
            )

    def _told(self) -> dict[str, Any]:
        users = None if self.user_judge is None else str(self.user_judge.signature())
        return {"labels_by": str(self.judge.signature()), "users_checked_by": users}


def repeats_of(judge: Judge) -> int:
    """How many answers the judge asks for about each dialogue."""
    config = getattr(judge, "config", None)
    return int(getattr(config, "repeats", 1)) if judge.family == "prompted" else 1


def require_repeats(judge: Judge, repeats: int) -> None:
    """Raise ConfigError for several repeats of a judge that always says the same."""
    if repeats > 1 and repeats_of(judge) == 1:
        raise ConfigError(
            f"--repeats goes with prompted judges; one of family {judge.family!r} gives the same "
            "answer each time"
        )


def share_limiter(judge: Judge, other: Judge) -> None:
    """Let two judges that pay take from one limiter, so that --max-cost holds for their sum."""
    from medal_judges.models.llm.counting import remote_of

    models = [getattr(each, "llm", None) for each in (judge, other)]
    first, second = (None if llm is None else remote_of(llm) for llm in models)
    if first is not None and second is not None:
        second.limiter = first.limiter
