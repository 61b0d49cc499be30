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

_JUDGE, _COST = "medal_judge", "medal_max_cost"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--medal-judge`` and ``--medal-max-cost``, and ini settings of the same names."""
    judge = "judge of the fixtures judge and assert_quality: a shipped name, folder, YAML or hub id"
    cost = "US dollars that a judge behind an API may spend in this run"
    group = parser.getgroup("medal_judges", "judges of dialogue (medal-judges)")
    group.addoption("--medal-judge", metavar="JUDGE", help=judge)
    group.addoption("--medal-max-cost", metavar="DOLLARS", type=float, help=cost)
    parser.addini(_JUDGE, judge, default="boxed")
    parser.addini(_COST, cost, default="")


@pytest.fixture(scope="session")
def judge(request: pytest.FixtureRequest) -> Judge:
    """The judge of ``--medal-judge`` (default: the judge in the package), loaded once.

    To use another judge, define a fixture of this name in conftest.py.
    """
    from medal_judges.errors import ConfigError
    from medal_judges.integrations.chats import load_judge

    config = request.config
    cost = config.getoption(_COST)
    setting = config.getini(_COST)
    if cost is None and setting:
        try:
            cost = float(setting)
        except ValueError as error:
            problem = f"{_COST}: expected dollars, such as 0.50, not {setting!r}"
            raise ConfigError(problem) from error
    return load_judge(config.getoption(_JUDGE) or config.getini(_JUDGE), max_cost=cost)


@pytest.fixture
def assert_quality(judge: Judge) -> Callable[..., ScoredChats]:
    """The function ``assert_quality(chats, overall=3.5)`` of quality.py with the fixture
    ``judge``."""
    from medal_judges.integrations.quality import assert_quality as asserted

    return partial(asserted, judge=judge)
