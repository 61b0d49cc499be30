"""The page in Debian's chromium: no sideways scroll, no console message, no request; themes.

Run with ``-m browser``. The browser is spoken to over a pipe in its own DevTools protocol, so no
driver package is needed. Screenshots stay in pytest's temporary folder (``--basetemp``).
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed"),
]
DESKTOP, PHONE = 1280, 390


class Browser:
    """A headless chromium on one page; events that came meanwhile are in ``events``."""

    def __init__(self, profile: Path) -> None:
        here_read, there_write = os.pipe()
        there_read, here_write = os.pipe()
        # chromium reads commands on descriptor 3 and answers on 4.
        wiring = f'exec chromium "$@" 3<&{there_read} 4>&{there_write}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            ["bash", "-c", wiring, "chromium", *flags, f"--user-data-dir={profile}"],
            pass_fds=(there_read, there_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there_read)
        os.close(there_write)
        self._read, self._write = os.fdopen(here_read, "rb"), os.fdopen(here_write, "wb")
        self._last = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Result of one command; raises RuntimeError with the browser's own words."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        parts = bytearray()
        while (byte := self._read.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser ended")
            parts += byte
        answer: dict[str, Any] = json.loads(parts)
        return answer

    def open(self, path: Path, width: int, scheme: str, query: str = "") -> None:
        """Load the page at a width and colour scheme and wait for it; clears ``events``."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.events = []
        self.call("Page.navigate", url=path.as_uri() + query)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """Value of a JavaScript expression on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page, not only the window."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def complaints(self) -> list[dict[str, Any]]:
        """Console messages, log entries and uncaught errors since the page was opened."""
        bad = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in bad]

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened."""
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def close(self) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(timeout=20)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


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
    assert browser.complaints() == []
    asked = [url for url in browser.requests() if not url.startswith("data:")]
    assert asked == [page.as_uri()]
    picture = tmp_path / f"{width}-{scheme}.png"
    browser.screenshot(picture)
    assert picture.stat().st_size > 50_000


def test_theme_follows_system_address_and_button(browser: Browser, report: Path) -> None:
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


def test_sorting_keeps_undefined_and_ceiling_last(browser: Browser, report: Path) -> None:
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
        assert browser.ask(f"{table}.tBodies[0].rows[{table}.tBodies[0].rows.length-1].className")


# Contrast of every visible text with the first opaque ground behind it, by WCAG's formula.
_CONTRAST = """
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgba = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c;
    canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const lum = c => { const f = c.slice(0, 3).map(v => { v /= 255;
    return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || e.closest('svg, script, .hidden, [hidden]')) continue;
    const style = getComputedStyle(e);
    let at = e, ground = [0, 0, 0, 0];
    while (at && ground[3] < 250) {
      ground = rgba(getComputedStyle(at).backgroundColor); at = at.parentElement; }
    const a = lum(rgba(style.color)), b = lum(ground);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) poor.push([e.tagName, e.className, e.textContent.slice(0, 30), ratio]);
  }
  return poor.slice(0, 20);
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(browser: Browser, report: Path, scheme: str) -> None:
    browser.open(report / "report.html", DESKTOP, scheme)
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.ask(_CONTRAST) == []


def test_a_tap_says_why_there_is_a_dash(browser: Browser, report: Path) -> None:
    browser.open(report / "report.html", PHONE, "light")
    toast = "document.getElementById('toast')"
    assert browser.ask(f"{toast}.hidden")
    browser.ask("document.querySelector('.undef').click()")
    assert browser.ask(f"{toast}.textContent") == "no number on dialogue_eval"
    click = "dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    browser.ask(f"document.querySelector('.pt').{click}")
    assert browser.ask(f"{toast}.textContent").startswith("fed-0000 · people ")
    browser.ask("document.body.click()")
    assert browser.ask(f"{toast}.hidden")


def test_a_legend_entry_keeps_one_chatbot(browser: Browser, report: Path) -> None:
    browser.open(report / "report.html", DESKTOP, "light")
    strip = "document.querySelector('#scatter .strip')"
    lit = f"{strip}.querySelectorAll('.pt:not(.faded)').length"
    every = browser.ask(lit)
    browser.ask(f"{strip}.querySelector('.legend button').click()")
    assert 0 < browser.ask(lit) < every
    browser.ask(f"{strip}.querySelector('.legend button').click()")
    assert browser.ask(lit) == every
