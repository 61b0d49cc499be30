"""A headless chromium for tests of pages: spoken to over a pipe in its own DevTools protocol."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

# The mark of a file of tests that open pages: run with -m browser.
CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(
        shutil.which("chromium") is None, reason="chromium is not installed"
    ),
]
DESKTOP, PHONE = 1280, 390

# Contrast of every visible text with the first opaque ground behind it, by WCAG's formula.
CONTRAST = """
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


class Browser:
    """A headless chromium on one page; events that came meanwhile are in ``events``."""

    def __init__(self, profile: Path) -> None:
        here_read, there_write = os.pipe()
        there_read, here_write = os.pipe()
        # chromium reads commands on descriptor 3 and answers on 4.
        wiring = f'exec chromium "$@" 3<&{there_read} 4>&{there_write}'
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", wiring, "chromium", *flags, f"--user-data-dir={profile}"],
            pass_fds=(there_read, there_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there_read)
        os.close(there_write)
        self._read, self._write = (
            os.fdopen(here_read, "rb"),
            os.fdopen(here_write, "wb"),
        )
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
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.events = []
        self.call("Page.navigate", url=path.as_uri() + query)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """Value of a JavaScript expression on the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 20) -> Any:
        """Value of a JavaScript expression once it is true; fails after ``seconds``."""
        end = time.monotonic() + seconds
        while not (value := self.ask(expression)):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)
        return value

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
        sent = [
            e for e in self.events if e.get("method") == "Network.requestWillBeSent"
        ]
        return [event["params"]["request"]["url"] for event in sent]

    def close(self) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(timeout=20)
