"""The page in Debian's chromium: no sideways scroll, no console message, no request; themes.

Run with ``-m browser``. The browser is spoken to over a pipe in its own DevTools protocol, so no
driver package is needed. Screenshots stay in pytest's temporary folder (``--basetemp``).
"""

from pathlib import Path

import pytest
from tests.browser import CHROMIUM, CONTRAST, DESKTOP, PHONE, Browser

pytestmark = CHROMIUM


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_fits_is_silent_and_asks_nothing(
    browser: Browser, report: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    page = report / "report.html"
    browser.open(page, width, scheme)
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == [] and browser.ask(CONTRAST) == []
    asked = [url for url in browser.requests() if not url.startswith("data:")]
    assert asked == [page.as_uri()]
    picture = tmp_path / f"{width}-{scheme}.png"
    browser.screenshot(picture)
    assert picture.stat().st_size > 50_000


def test_theme_follows_system_address_and_button(
    browser: Browser, report: Path
) -> None:
    page = report / "report.html"
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.open(page, DESKTOP, "light")
    light = browser.ask(ground)
    browser.open(page, DESKTOP, "dark")
    dark = browser.ask(ground)
    assert light != dark
    browser.open(page, DESKTOP, "light", "?theme=dark")
    assert browser.ask(ground) == dark
    browser.ask("document.getElementById('theme').click()")
    assert browser.ask(ground) == light
    browser.ask("localStorage.clear()")


def test_sorting_keeps_undefined_and_ceiling_last(
    browser: Browser, report: Path
) -> None:
    browser.open(report / "report.html", DESKTOP, "light")
    table = "document.querySelector('table.sortable')"
    values = f"[...{table}.tBodies[0].rows].map(r => r.cells[2].dataset.sort)"
    press = f"{table}.tHead.rows[0].cells[2].querySelector('button').click()"
    for sign in (-1, 1):
        browser.ask(press)
        found = browser.ask(values)[:-1]
        numbers = [float(v) for v in found if v]
        assert numbers == sorted(numbers, key=lambda v: sign * v)
        assert all(found[: len(numbers)]) and not any(found[len(numbers) :])
        assert browser.ask(
            f"{table}.tBodies[0].rows[{table}.tBodies[0].rows.length-1].className"
        )
