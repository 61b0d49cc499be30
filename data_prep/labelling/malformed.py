"""Dialogues whose simulated user broke: played the assistant, or wrote in another language.

MEDAL, section 3.4 and appendix C.3: a judge finds them, and they are taken out before anything is
labelled. Here they move to a file of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from medal_judges.data_prep.labelling.labels import comments_of
from medal_judges.judgement import Judgement
from medal_judges.labelled import LabelledDialogue

WRONG_LANGUAGE = "wrong_language"
MALFORMED = "malformed"
USER_CHECK = "user_check"


def reasons(check: Judgement) -> tuple[str, ...]:
    """The dimensions that the check found (a score of at least 0.5), in the rubric's order."""
    return tuple(name for name, score in check.scores.items() if score is not None and score >= 0.5)


def found(check: Judgement, name: str) -> bool | None:
    """Whether the check found ``name``; None where it gave no score for it."""
    score = check.scores.get(name)
    return None if score is None else score >= 0.5


def moved(row: LabelledDialogue, check: Judgement) -> LabelledDialogue:
    """``row`` with ``extra["malformed"]``: ``reasons``, the judge's ``comments`` and signature."""
    told: dict[str, Any] = {
        "reasons": list(reasons(check)),
        "comments": comments_of(check),
        "by": check.judge,
    }
    return replace(row, extra={**row.extra, MALFORMED: told})


def kept(row: LabelledDialogue, check: Judgement) -> LabelledDialogue:
    """``row`` with ``extra["user_check"]``: who found it in order, and what could not be told."""
    told: dict[str, Any] = {"by": check.judge}
    if check.failure is not None:
        told["failure"] = check.failure
    return replace(row, extra={**row.extra, USER_CHECK: told})
