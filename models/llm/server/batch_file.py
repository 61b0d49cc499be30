"""The lines of a batch: requests as they are uploaded, results as they are downloaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from medal_judges.models.llm.server.retrying import PASSING
from medal_judges.models.llm.server.secrecy import Clean, words

ENDPOINT = "/v1/chat/completions"
MAX_REQUESTS = 50_000
MAX_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class Result:
    """What a batch says of one request: the ``body`` of a chat completion, or the ``reason`` why
    there is none with the HTTP ``status`` where it has one; ``transient`` where the request may be
    answered in another batch."""

    key: str
    body: Mapping[str, Any] | None = None
    reason: str = ""
    status: int | None = None
    transient: bool = False


def request_line(key: str, body: Mapping[str, Any]) -> bytes:
    """One line of the upload; ``key`` comes back beside the answer."""
    record = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(record).encode() + b"\n"


def split(
    lines: Iterable[tuple[str, bytes]],
    *,
    max_requests: int = MAX_REQUESTS,
    max_bytes: int = MAX_BYTES,
) -> Iterator[tuple[list[str], bytes]]:
    """(key, line) pairs as (keys, file) within a provider's limits, in order.

    A line that is longer than ``max_bytes`` is a file of its own: the provider says what it thinks
    of that.
    """
    keys: list[str] = []
    parts: list[bytes] = []
    size = 0
    for key, line in lines:
        if keys and (len(keys) == max_requests or size + len(line) > max_bytes):
            yield keys, b"".join(parts)
            keys, parts, size = [], [], 0
        keys.append(key)
        parts.append(line)
        size += len(line)
    if keys:
        yield keys, b"".join(parts)


def read_results(content: bytes, clean: Clean = str) -> Iterator[Result]:
    """Results in an output or error file; lines that are none are left out (their requests then
    count as unanswered). ``clean`` takes the key out of what the server says."""
    for line in content.split(b"\n"):
        try:
            record = json.loads(line)
            key = str(record["custom_id"])
            response, error = record.get("response") or {}, record.get("error")
            status, body = response.get("status_code"), response.get("body")
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if error is None and status == 200 and isinstance(body, Mapping):
            yield Result(key, body)
        else:
            # Without a status the batch itself failed it (expired, a server's error).
            passes = not isinstance(status, int) or status in PASSING or status >= 500
            reason = words(_reason(error, status, body), clean)
            yield Result(key, None, reason, status if isinstance(status, int) else None, passes)


def _reason(error: object, status: object, body: object) -> str:
    inner = body.get("error") if isinstance(body, Mapping) else None
    said = error if isinstance(error, Mapping) else inner
    told = [str(said[k]) for k in ("code", "message") if said.get(k)] if said else []
    head = f"HTTP {status}" if status is not None else "in the batch"
    return f"{head}: {': '.join(told) or 'no reason given'}"
