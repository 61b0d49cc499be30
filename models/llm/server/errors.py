"""What a server's failure means: retry, a failure of one request, or the end of the run.

Everything that a server sends goes through ``Clean``, which removes the key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

from medal_judges.errors import ConfigError, MedalError

PROVIDER = "https://api.openai.com/v1"  # the client's own default
SHOWN = 300  # characters of a server's own words in a failure
LONGEST = 300.0  # seconds; a server that asks for a longer wait ends the run
Clean = Callable[[str], str]
# retry: another try may succeed. refuse: this request fails. The others end the run, see STOPS.
Action = Literal[
    "retry", "refuse", "key", "account", "permission", "model", "redirect", "wait"
]  # fmt: skip
# By HTTP status; other statuses: redirect for 3xx, retry for 5xx, else refuse.
ACTIONS: dict[int, Action] = {
    **{401: "key", 402: "account", 403: "permission", 404: "model"},
    **dict.fromkeys((408, 409, 425, 429), "retry"),
}
# An empty account answers 429 like a rate limit (or 400), but waiting does not fill it.
_NO_CREDIT = {"insufficient_quota", "insufficient_balance", "billing_not_active"}
_NO_CREDIT |= {"billing_hard_limit_reached", "insufficient_funds", "payment_required"}
_RESUMES = "the same command then resumes: finished answers are cached"
STOPS = {  # action: (problem, hint)
    "key": (
        "the server at {address} refuses the key in {variable}",
        "export {variable}=...; another variable: llm.api_key_env=NAME",
    ),
    "account": (
        "the account behind {variable} has no credit left",
        f"add credit at the provider, or export another key; {_RESUMES}",
    ),
    "permission": (
        "the server at {address} does not permit this",
        f"check that the key in {{variable}} may use this model from here; {_RESUMES}",
    ),
    "model": (
        "the server at {address} does not know this model",
        "llm.model is a name that the server lists under /models; llm.base_url usually ends in /v1",
    ),
    "redirect": (
        "the server at {address} redirects; dialogues and key are not sent to another address",
        "if you trust that address, give it as llm.base_url",
    ),
    "wait": ("the server takes no requests for now", f"wait until {{until}}; {_RESUMES}"),
}


class ServerError(MedalError):
    """A server still fails after all retries; another run may succeed."""


class ServerStopError(ConfigError):
    """A server refuses every request (key, account, permission, model, or too long a wait). The run
    stops at once, instead of a failure in every row; the hint says how to resume."""


class RequestError(Exception):
    """A request failed. A retry comes after ``after`` seconds. ``billed``: the server may have
    written an answer, and charge for it. ``field``: the part of the request that the server names
    as the cause."""

    def __init__(
        self,
        reason: str,
        action: Action = "refuse",
        *,
        billed: bool = False,
        status: int | None = None,
        field: str | None = None,
        after: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.action, self.billed, self.status = action, billed, status
        self.field, self.after, self.transient = field, after, action == "retry"


def cleaner(secret: str | None) -> Clean:
    """A function that replaces ``secret`` in a text by ***."""
    return (lambda text: text.replace(secret, "***")) if secret else (lambda text: text)


def words(text: object, clean: Clean) -> str:
    """A server's words as one line of at most SHOWN characters, without the key."""
    # Cleaned first: a cut through the middle of the key would leave half of it.
    return " ".join(clean(str(text)).split())[:SHOWN]


def map_error(error: Exception, clean: Clean, address: str) -> Exception:
    """The RequestError for an error of the openai client; any other error unchanged."""
    import openai

    if isinstance(error, openai.APITimeoutError | asyncio.TimeoutError):
        return RequestError(f"no answer in time from {address}", "retry", billed=True)
    if isinstance(error, openai.APIConnectionError):
        cause = words(error.__cause__ or error, clean)
        if type(error.__cause__).__name__.startswith("Connect"):  # it was never sent
            return RequestError(f"no connection to {address}: {cause}", "retry")
        return RequestError(f"the connection to {address} broke: {cause}", "retry", billed=True)
    if isinstance(error, openai.APIResponseValidationError | ValueError | RecursionError):
        return RequestError("the answer's body is not valid JSON", "retry", billed=True)
    if not isinstance(error, openai.APIStatusError):
        return error
    body = error.body if isinstance(error.body, dict) else {}
    status, headers, after = error.status_code, error.response.headers, None
    reason = f"HTTP {status}: {words(body.get('message') or error.message, clean)}"
    action = ACTIONS.get(status, "retry" if status >= 500 else "refuse")
    if 300 <= status < 400:
        action, place = "redirect", address_of(words(headers.get("location", "?"), clean))
        reason = f"HTTP {status}: it points to {place}"
    elif not _NO_CREDIT.isdisjoint((str(body.get("code")), str(body.get("type")))):
        action = "account"
    elif status == 403 and "flagged_input" in str(body.get("metadata")):
        action = "refuse"  # a gateway's moderation is about the text of this request (OpenRouter)
    elif action == "retry" and (after := retry_after(headers)) is not None and after > LONGEST:
        action, reason = "wait", f"{reason}; the server asks to wait {after:.0f} s"
    return RequestError(reason, action, status=status, field=error.param, after=after)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait before the next try (a number or an HTTP date); None if the header is absent
    or unreadable."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), 365 * 86400.0) if seconds == seconds else None  # NaN


def address_of(base_url: str | None) -> str:
    """A server's address without user, password and query."""
    parts = urlsplit(base_url or PROVIDER)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def stop_error(
    failure: RequestError, name: str, address: str, variable: str
) -> ServerStopError | None:
    """The error that ends the run; None if ``failure`` is about one request only."""
    if failure.action not in STOPS:
        return None
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time.time() + (failure.after or 0)))
    facts = {"address": address, "variable": variable, "until": until}
    problem, hint = (text.format(**facts) for text in STOPS[failure.action])
    return ServerStopError(f"{name}: {problem}: {failure}", hint=hint)
