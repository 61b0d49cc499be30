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
    """Returns the reference of ``scores``, of each graded dimension with _LEAST scores or more."""
    quantiles = {}
    for name in scores.graded:
        values = scores.scores[name]
        values = values[np.isfinite(values)]
        if len(values) >= _LEAST:
            quantiles[name] = np.percentile(values, PERCENTS).tolist()
    # Another version of the package gives the same scores.
    signature = next(iter(scores.signatures), "")
    judge = signature.partition("|version:")[0]
    return Reference(about, judge, scores.unit, quantiles)


def add_reference(scores: Scores, path: str | None, rubric: str | None) -> None:
    """Adds to ``scores`` the reference of the file of scores ``path``; without one, that of a
    packaged judge. ``rubric`` has the scales if the file states none.

    Raises DataError if the reference is of another judge, another setting or another unit, or has
    few scores of the headline dimension.
    """
    itself = make_reference(scores, "")
    if path is None:
        scores.reference = _packaged(itself)
        return
    selection = ScoreSelection(scores=(path,), rubric=rubric)
    files = score_files(selection.scores)
    others = load_scores(frame_of(files), selection)
    about = f"the {others.rows:,} {others.unit}s of {Path(path).name}"
    reference = make_reference(others, about)
    problem = ""
    if not reference.is_like(itself):
        problem = f"{reference.unit}s scored by {reference.judge}, not "
        problem += f"{itself.unit}s scored by {itself.judge}"
    elif scores.headline not in reference.quantiles:
        headline = scores.headline or "a graded dimension of the report"
        problem = f"fewer than {_LEAST} scores of {headline}"
    if problem:
        hint = "score its chats as those of the report: same judge, same settings"
        raise DataError(path, None, f"--relative-to has {problem}", hint=hint)
    scores.reference = reference


def _packaged(itself: Reference) -> Reference | None:
    """Returns the packaged reference of the judge that ``itself`` is of; None if there is none of
    its revision and unit."""
    judge = Signature.parse(itself.judge).judge
    path = CONFIGS / "references" / f"{judge}.json"
    if not judge.isidentifier() or not path.is_file():
        return None
    reference = Reference(**read_json(path))
    if reference.is_like(itself):
        return reference
    return None
