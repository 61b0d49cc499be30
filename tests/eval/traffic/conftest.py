from pathlib import Path

import pytest
from tests.eval.traffic.support_log import write_log

from medal_judges.eval.traffic.gate import Gate
from medal_judges.eval.traffic.reading import TrafficOptions
from medal_judges.eval.traffic.report import (
    TrafficInput,
    TrafficOutcome,
    TrafficRequest,
    report_traffic,
)
from medal_judges.eval.traffic.times import TimeColumn
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.report.progress import ProgressBar
from medal_judges.storage.judgements import read_judgements


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Scores and chats of 700 conversations."""
    return write_log(tmp_path_factory.mktemp("log"), 700)


@pytest.fixture(scope="session")
def outcome(log: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> TrafficOutcome:
    """The whole report on it, with its page."""
    scores, chats = log
    options = TrafficOptions(["version"], TimeColumn("time", "day"), "user")
    request = TrafficRequest(options, [Gate("under", "overall", 3.0)], title="Support log")
    source = TrafficInput(lambda: read_judgements(scores), lambda: read_dialogues(chats))
    bar = ProgressBar("", visible=False)
    return report_traffic(source, request, tmp_path_factory.mktemp("report"), bar)
