"""Rate limits as a server states them in its response headers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping

_PART = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST = 300.0  # seconds; a server that asks to wait for longer ends the run


def duration(text: str | None) -> float | None:
    """Seconds of ``6m0s``, ``20ms``, ``1.5`` (seconds) or an HTTP date; None for anything else."""
    if not text:
        return None
    text = text.strip()
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    parts = _PART.findall(text)
    if parts and "".join(n + u for n, u in parts) == text:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return _until(text)


def _until(text: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait before the next try, in seconds; None where it is silent."""
    milliseconds = duration(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    return duration(headers.get("retry-after"))


class RateGate:
    """Holds requests back while the server has none, or no tokens, left to give.

    ``observe`` reads x-ratelimit-remaining-{requests,tokens} and their reset times. Where a limit
    is used up, ``wait`` waits until it is set back: asking earlier would only be refused.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.opens = 0.0

    def observe(self, headers: Mapping[str, str], need: int = 1) -> None:
        """``need``: tokens that a next request takes."""
        for kind, wanted in (("requests", 1), ("tokens", need)):
            remaining = headers.get(f"x-ratelimit-remaining-{kind}")
            reset = duration(headers.get(f"x-ratelimit-reset-{kind}"))
            if remaining is None or reset is None or not remaining.isdigit():
                continue
            if int(remaining) < wanted:
                self.hold(reset)

    def hold(self, seconds: float) -> None:
        """Let nothing through for ``seconds``."""
        self.opens = max(self.opens, self.clock() + min(seconds, LONGEST))

    async def wait(self) -> None:
        """Until requests may go out."""
        while (left := self.opens - self.clock()) > 0:
            await asyncio.sleep(left)
