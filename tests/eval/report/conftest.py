from pathlib import Path

import pytest
from tests.eval.report.support_log import write_log

from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.report import Report, make_report
from medal_judges.reading.dialogues import ReadingReport


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Scores and chats of 700 conversations."""
    return write_log(tmp_path_factory.mktemp("log"), 700)


@pytest.fixture(scope="session")
def outcome(log: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The whole report on it, with its page."""
    options = ReportOptions(
        scores=str(log[0]),
        chats=str(log[1]),
        by=("version", "lang"),
        over="time:day",
        cluster="user",
        fail_under=("overall=3.0",),
        out=tmp_path_factory.mktemp("report"),
    )
    return make_report(options, ReadingReport())
