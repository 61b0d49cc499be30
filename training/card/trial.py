"""What a card says of its judge's trial: trial.json in the folder, if it is of this very judge."""

from __future__ import annotations

from pathlib import Path

from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import read_golden
from medal_judges.records.signature import Signature
from medal_judges.stats.trial_results import TRIAL_NAME, TrialResult, read_trial


def trial_of(folder: Path) -> TrialResult | None:
    """The trial of the judge in ``folder``; None without a trial.json, and where that is of another
    judge or revision. Raises DataError for a file that is no trial."""
    path = folder / TRIAL_NAME
    if not path.is_file():
        return None
    result = read_trial(path)
    own = Signature.parse(read_golden(folder)["signature"])
    tried = Signature.parse(result.signature)
    same = (tried.revision, tried.base, tried.rubric) == (own.revision, own.base, own.rubric)
    return result if same else None


def require_trial(folder: Path) -> None:
    """Raise ConfigError where ``folder`` has no trial of the judge that is in it."""
    if trial_of(folder) is not None:
        return
    old = (folder / TRIAL_NAME).is_file()
    what = "has the trial of another judge or revision" if old else "has no trial.json"
    raise ConfigError(
        f"{folder} {what}: nobody who loads it can see what it falls for",
        hint=f"medal trial {folder} --out trial --save; or push it as it is with --no-trial",
    )
