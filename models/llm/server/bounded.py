"""Answers of a server, held to a size: an endless one fills no memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from medal_judges.models.llm.server.errors import TransientError

LARGEST = 1 << 26  # bytes; a chat completion with all log-probabilities is far smaller
LARGEST_FILE = 1 << 31  # the output of a batch of 50,000 requests


async def bounded(response: Any) -> None:
    """A response hook of httpx (or of httpx2, which newer openai brings): the body is read up to a
    size, and not unpacked (a small packed one could be of any size; none was asked for).

    Raises TransientError.
    """
    if response.headers.get("content-encoding", "identity") != "identity":
        await response.aclose()
        raise TransientError("a packed answer, which was not asked for", billed=True)
    most = LARGEST_FILE if response.request.url.path.endswith("/content") else LARGEST
    response.stream = _bounded_stream(response.stream, most)


def _bounded_stream(stream: Any, most: int) -> Any:
    # The client asks for an instance of its own library's class.
    base: Any = next(c for c in type(stream).__mro__ if c.__name__ == "AsyncByteStream")

    class Bounded(base):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            seen = 0
            async for block in stream:
                seen += len(block)
                if seen > most:
                    raise TransientError(f"an answer larger than {most:,} bytes", billed=True)
                yield block

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
