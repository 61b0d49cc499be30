"""The page in Debian's chromium: it fits, is silent, and shows reasons. Run with -m browser."""

from pathlib import Path

import pytest
from tests.browser import CHROMIUM, CONTRAST, DESKTOP, PHONE, Browser

from medal_judges.eval.report.report import Report

pytestmark = CHROMIUM


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_it_fits_is_silent_and_its_reasons_are_in_sight(
    browser: Browser, outcome: Report, tmp_path: Path, width: int
) -> None:
    assert outcome.page is not None
    browser.open(outcome.page, width, "light")
    reasons = "[...document.querySelectorAll('#worst summary')]"
    ends = browser.ask(f"{reasons}.map(e => e.getBoundingClientRect().right)")
    assert ends and max(ends) <= width
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    assert browser.requests() == [outcome.page.as_uri()]
    assert browser.ask(CONTRAST) == []
    search = "document.querySelector('#worst input')"
    browser.ask(f"{search}.value = 'no such words'")
    browser.ask(f"{search}.dispatchEvent(new Event('input'))")
    shown = f"{reasons}.filter(e => e.offsetParent !== null).length"
    assert browser.ask(shown) == 0
    browser.screenshot(tmp_path / f"{width}.png")
