"""What the tests of other people's tools share: chats, and the versions that they ran against."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import pytest

Chat = list[dict[str, str]]


@pytest.fixture
def chat() -> Callable[..., Chat]:
    """``chat(words)``: an answer of so many words; the judge `length` finds more of them better."""

    def made(words: int, said: str = "word") -> Chat:
        answer = " ".join([said] * words)
        return [
            {"role": "user", "content": "Hi!"},
            {"role": "assistant", "content": answer},
        ]

    return made


@pytest.fixture(autouse=True)
def _tool_version(
    request: pytest.FixtureRequest, record_property: Callable[..., None]
) -> None:
    """The tool of ``@pytest.mark.integrations("NAME")`` with its version, in the test's report."""
    mark = request.node.get_closest_marker("integrations")
    for name in mark.args if mark else ():
        record_property("tool", f"{name} {version(name)}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the versions that the tests ran against."""
    reports = [each for kind in terminalreporter.stats.values() for each in kind]
    told = {
        v
        for each in reports
        for k, v in getattr(each, "user_properties", ())
        if k == "tool"
    }
    if told:
        terminalreporter.write_line(f"tools: {', '.join(sorted(told))}")
