"""A trial's page in Debian's chromium: it fits, is silent, asks nothing, and can be read.

Run with ``-m browser``; see tests/browser.py.
"""

from pathlib import Path

import pytest
from tests.browser import CHROMIUM, CONTRAST, DESKTOP, PHONE, Browser

from medal_judges.eval.trial.trial import Trial, trial_page

pytestmark = CHROMIUM


@pytest.fixture(scope="module")
def page(finished: tuple[Trial, Path]) -> Path:
    trial, out = finished
    return trial_page(trial).write(out)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_fits_is_silent_and_can_be_read(
    browser: Browser, page: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    browser.open(page, width, scheme)
    browser.screenshot(tmp_path / f"closed-{width}-{scheme}.png")
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    asked = [url for url in browser.requests() if not url.startswith("data:")]
    assert asked == [page.as_uri()]
    assert browser.ask(CONTRAST) == []
    browser.screenshot(tmp_path / f"{width}-{scheme}.png")


def test_the_two_versions_stand_side_by_side(browser: Browser, page: Path) -> None:
    """Next to each other where there is room, one below the other on a phone."""
    tops = "[...document.querySelector('.side').children].map(e => e.getBoundingClientRect().top)"
    show = "document.querySelectorAll('#worst details').forEach(d => d.open = true)"
    browser.open(page, DESKTOP, "light")
    browser.ask(show)
    left, right = browser.ask(tops)
    assert left == right
    browser.open(page, PHONE, "light")
    browser.ask(show)
    above, below = browser.ask(tops)
    assert above < below


def test_a_tap_says_which_bound_decided(browser: Browser, page: Path) -> None:
    browser.open(page, PHONE, "light")
    browser.ask("document.querySelector('td.light.red[title]').click()")
    assert "red from" in browser.ask("document.getElementById('toast').textContent")
