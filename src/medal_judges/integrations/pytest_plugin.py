"""pytest: the fixtures ``judge`` and ``assert_quality``, and the options that choose the judge.

pytest loads this file by its entry point, so it imports nothing heavy until a fixture is used.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from medal_judges.integrations.chats import ScoredChats
    from medal_judges.models.base.judge import Judge


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--medal-judge`` and ``--medal-max-cost``."""
    judge = "judge of the fixtures judge and assert_quality: a shipped name, folder, YAML or hub id"
    cost = "US dollars that a judge behind an API may spend in this run"
    group = parser.getgroup("medal_judges", "judges of dialogue (medal-judges)")
    group.addoption(
        "--medal-judge",
        metavar="JUDGE",
        default="boxed",
        help=judge,
    )
    group.addoption(
        "--medal-max-cost",
        metavar="DOLLARS",
        type=float,
        help=cost,
    )


@pytest.fixture(scope="session")
def judge(request: pytest.FixtureRequest) -> Judge:
    """The judge of ``--medal-judge`` (default: the judge in the package), loaded once.

    To use another judge, define a fixture of this name in conftest.py.
    """
    from medal_judges.integrations.chats import load_judge

    option = request.config.getoption
    return load_judge(option("--medal-judge"), max_cost=option("--medal-max-cost"))


@pytest.fixture
def assert_quality(judge: Judge) -> Callable[..., ScoredChats]:
    """The function ``assert_quality(chats, overall=3.5)`` of quality.py with the fixture
    ``judge``."""
    from medal_judges.integrations.quality import assert_quality as asserted

    return partial(asserted, judge=judge)
