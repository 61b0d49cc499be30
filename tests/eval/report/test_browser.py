"""The page of a traffic report in Debian's chromium: it fits, is silent, asks for nothing; its
list of conversations searches, filters, sorts and opens. Run with -m browser."""

from pathlib import Path

import pytest
from tests.browser import CHROMIUM, CONTRAST, DESKTOP, PHONE, Browser

from medal_judges.eval.report.report import Report

pytestmark = CHROMIUM
SHOWN = "[...document.querySelectorAll('.conversation .id')].map(e => e.textContent)"
MARKS = "[...document.querySelectorAll('.conversation .mark')].map(e => e.textContent)"
STATUS = "document.querySelector('#conversation-list .count').textContent"


@pytest.fixture(scope="module")
def page(outcome: Report) -> Path:
    assert outcome.page is not None
    return outcome.page


def _set(browser: Browser, label: str, value: str, event: str = "change") -> None:
    find = (
        "[...document.querySelectorAll('.controls label')]"
        f".find(l => l.firstChild.data.trim() === {label!r}).querySelector('input, select')"
    )
    browser.ask(
        f"(() => {{ const e = {find}; e.value = {value!r};"
        f" e.dispatchEvent(new Event('{event}')); }})()"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_fits_is_silent_and_asks_nothing(
    browser: Browser, page: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    browser.open(page, width, scheme)
    browser.wait_for(f"{STATUS} === '700 of 700 conversations'")
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.wait_for("document.querySelectorAll('.conversation .chat').length === 25")
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    asked = [
        url for url in browser.requests() if not url.startswith(("data:", "blob:"))
    ]
    assert asked == [page.as_uri()]
    assert browser.ask("document.title") == "Support log"
    assert browser.ask("document.images.length") == 0
    assert browser.ask(CONTRAST) == []
    browser.screenshot(tmp_path / f"{width}-{scheme}.png")


def test_search_filter_and_sort(browser: Browser, page: Path) -> None:
    browser.open(page, DESKTOP, "light")
    browser.wait_for(f"{STATUS} === '700 of 700 conversations'")
    worst = [float(mark) for mark in browser.ask(MARKS)]
    assert worst == sorted(worst) and len(worst) == 25
    _set(browser, "Sort", "best")
    best = [
        float(mark) for mark in browser.wait_for(f"{STATUS} && {MARKS}") if mark != "–"
    ]
    assert not best or best[0] > worst[-1]
    _set(browser, "Sort", "worst")
    _set(browser, "lang", "0")
    arabic = browser.wait_for(f"!{STATUS}.startsWith('700') && {STATUS}")
    count = int(arabic.split()[0])
    assert 30 < count < 120  # a tenth or so
    _set(browser, "to", "3", "input")
    low = browser.wait_for(f"!{STATUS}.startsWith('{count} ') && {STATUS}")
    assert int(low.split()[0]) < count
    assert all(float(mark) <= 3 for mark in browser.ask(MARKS))
    _set(browser, "to", "", "input")
    _set(browser, "lang", "")
    _set(browser, "Search", "onerror=alert", "input")
    found = browser.wait_for(
        f"!{STATUS}.startsWith('700') && !{STATUS}.includes('…') && {STATUS}"
    )
    assert 20 < int(found.split()[0]) < 60
    assert browser.ask("document.title") == "Support log" and browser.complaints() == []
    _set(browser, "Search", "nothing has these words", "input")
    browser.wait_for(f"{STATUS} === '0 of 700 conversations'")
    assert browser.ask(SHOWN) == []


def test_an_opened_conversation_is_whole_and_coloured(
    browser: Browser, page: Path
) -> None:
    browser.open(page, DESKTOP, "light")
    browser.wait_for(f"{STATUS} === '700 of 700 conversations'")
    fold = "document.querySelector('.conversation')"
    browser.ask(f"{fold}.open = true")
    browser.wait_for(f"{fold}.querySelector('.turn') !== null")
    turns = browser.ask(f"{fold}.querySelectorAll('.turn').length")
    assert turns % 2 == 0 and turns >= 2
    assert (
        browser.ask(f"{fold}.querySelectorAll('.turn.pos, .turn.neg').length") == turns
    )
    assert "The same advice" in browser.ask(f"{fold}.textContent")
    browser.ask("document.querySelector('.more').click()")
    assert len(browser.ask(SHOWN)) == 50
