"""The judge's trial on its card: trial.json in the folder, if it belongs to this judge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError, DataError
from medal_judges.models.base.golden import read_golden
from medal_judges.records.signature import Signature

TRIAL_NAME = "trial.json"


def trial_of(folder: Path) -> Mapping[str, Any] | None:
    """Returns the record of ``medal trial`` on the judge in ``folder`` (eval/trial/results.py).

    None without trial.json, or if it is of another judge or revision. Raises DataError for a file
    that is not a trial.
    """
    path = folder / TRIAL_NAME
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        tried = Signature.parse(record["signature"])
        verdicts = [(finding["group"], finding["verdict"]) for finding in record["findings"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            path, None, f"not the trial of a judge: {error}", hint="medal trial JUDGE writes one"
        ) from error
    own = Signature.parse(read_golden(folder)["signature"])
    same = (tried.revision, tried.base, tried.rubric) == (own.revision, own.base, own.rubric)
    return record | {"verdicts": verdicts} if same else None


def require_trial(folder: Path) -> None:
    """Raises ConfigError if ``folder`` has no trial of the judge that is in it."""
    if trial_of(folder) is not None:
        return
    old = (folder / TRIAL_NAME).is_file()
    what = "has the trial of another judge or revision" if old else "has no trial.json"
    raise ConfigError(
        f"{folder} {what}: users of the judge could not see its weaknesses",
        hint=f"medal trial {folder} --out trial --save; or push without it: --no-trial",
    )
