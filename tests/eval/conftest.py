"""Fixtures of the tests of benchmarks, reports, comparisons and trials."""

from collections.abc import Iterator

import pytest
from tests.browser import Browser

from .benchmark_case import counting_family, folder

__all__ = ["counting_family", "folder"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless chromium for the pages of one file of tests."""
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
