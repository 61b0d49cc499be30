"""One small trial of the oracle and the three failing judges, for all tests that look at it."""

from pathlib import Path

import pytest

from medal_judges.eval.trial.config import TrialConfig
from medal_judges.eval.trial.trial import Trial, TrialJudge, run_trial

from .judges import ByLength, LastTurnOnly, Obedient, Oracle

SMALL = TrialConfig(dialogues=12, languages=("en", "de", "zh"), per_check=24)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, Path]:
    """The trial and the folder it is in."""
    out = tmp_path_factory.mktemp("trial")
    judges = [
        TrialJudge(kind.__name__, kind(out))
        for kind in (Oracle, ByLength, Obedient, LastTurnOnly)
    ]
    return run_trial(judges, out, SMALL), out
