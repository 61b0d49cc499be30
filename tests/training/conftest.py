from collections.abc import Mapping
from pathlib import Path

import pytest

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.golden import check_golden

from ..forked import Forked


@pytest.fixture(autouse=True)
def forked_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check at the end of a run is in a forked process; that in a fresh one costs 3 s, and is
    tested in models/test_golden.py."""

    def check(folder: Path, options: Mapping[str, object] | None = None) -> None:
        if Forked(lambda: check_golden(folder, options)).wait():
            raise JudgeLoadError(f"{folder}: other scores")

    monkeypatch.setattr("medal_judges.training.run.check_in_fresh_process", check)
