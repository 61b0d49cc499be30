"""Makes references: from scores of other chats by the same judge, or the one in the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from medal_judges.config import CONFIGS
from medal_judges.errors import DataError
from medal_judges.eval.scores.files import frame_of, score_files
from medal_judges.eval.scores.options import ScoreSelection
from medal_judges.eval.scores.reference import PERCENTS, Reference
from medal_judges.eval.scores.scores import Scores, load_scores
from medal_judges.records.signature import Signature
from medal_judges.storage.files import read_json

_LEAST = 20  # scored rows of a reference


def make_reference(scores: Scores, about: str) -> Reference:
    """Returns the reference of ``scores``. Raises DataError for one with few scored rows or without
    a graded dimension."""
    quantiles = {}
    for name in scores.graded:
        values = scores.scores[name]
        values = values[np.isfinite(values)]
        if len(values) >= _LEAST:
            quantiles[name] = np.percentile(values, PERCENTS).tolist()
    if not quantiles:
        problem = f"no graded dimension has {_LEAST} scores or more"
        raise DataError(about, None, problem, hint="take a larger file of scores")
    return Reference(about, _judge(scores), scores.unit, quantiles)


def _judge(scores: Scores) -> str:
    """Returns the signature of the one judge of ``scores`` without the version of the package."""
    return next(iter(scores.signatures), "").partition("|version:")[0]


def add_reference(scores: Scores, path: str | None, rubric: str | None) -> None:
    """Adds to ``scores`` the reference of the file of scores ``path``; without one, that of a
    packaged judge. ``rubric`` has the scales if the file states none.

    Raises DataError if the reference is of another judge or another setting, of another unit, or
    has no scores of the headline dimension.
    """
    if path is None:
        scores.reference = _packaged(scores)
        return
    options = ScoreSelection(scores=(path,), rubric=rubric)
    frame = frame_of(score_files(options.scores))
    others = load_scores(frame, options)
    about = f"the {others.rows:,} {others.unit}s of {Path(path).name}"
    reference = make_reference(others, about)
    problem = ""
    if (reference.judge, reference.unit) != (_judge(scores), scores.unit):
        problem = f"{reference.unit}s scored by {reference.judge}, not "
        problem += f"{scores.unit}s scored by {_judge(scores)}"
    elif scores.headline not in reference.quantiles:
        names = ", ".join(reference.quantiles)
        problem = f"scores of {names}, not of {scores.headline or 'issues alone'}"
    if problem:
        hint = "score its chats as those of the report: same judge, same settings"
        raise DataError(path, None, f"--relative-to has {problem}", hint=hint)
    scores.reference = reference


def _packaged(scores: Scores) -> Reference | None:
    """Returns the packaged reference of the judge of ``scores``; None if there is none of this
    judge, this revision and this unit."""
    judge = Signature.parse(_judge(scores)).judge
    path = CONFIGS / "references" / f"{judge}.json"
    if not judge.isidentifier() or not path.is_file():
        return None
    reference = Reference(**read_json(path))
    if (reference.judge, reference.unit) != (_judge(scores), scores.unit):
        return None
    return reference
