"""Asynchronous work for callers that are not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run ``work`` to its end, also from inside a running loop (a notebook), on a thread then."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: dict[str, Any] = {}

    def on_thread() -> None:
        try:
            outcome["value"] = asyncio.run(work)
        except BaseException as error:  # handed to the caller's thread, whatever it is
            outcome["error"] = error

    thread = threading.Thread(target=on_thread)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]
