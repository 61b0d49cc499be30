"""What a server's failure means: it is transient, permanent for one request, or it ends the run.

Everything that a server sends goes through ``Clean``, which removes the key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from medal_judges.errors import ConfigError, MedalError

if TYPE_CHECKING:
    from openai import APIStatusError

PROVIDER = "https://api.openai.com/v1"  # the client's own default
NO_KEY = "none"  # for servers that ask for no key
SHOWN = 300  # characters of a server's own words in a failure
TRANSIENT = (408, 409, 425, 429)  # and every 5xx
# An empty account answers 429 like a rate limit (or 402, 400), but waiting does not fill it.
_NO_CREDIT = {
    *("insufficient_quota", "insufficient_balance", "billing_not_active"),
    *("billing_hard_limit_reached", "insufficient_funds", "payment_required"),
}
LONGEST = 300.0  # seconds; a server that asks for a longer wait ends the run
_RESUMES = "the same command then resumes: finished answers are cached"
# Why no request of this run will succeed until the user does something.
Stop = Literal["key", "account", "permission", "model", "wait", "redirect"]
Clean = Callable[[str], str]


class ServerError(MedalError):
    """A server still fails after all retries; another run may succeed."""


class ServerStopError(ConfigError):
    """A server refuses every request (key, account, permission, model, or too long a wait). The run
    stops at once, instead of a failure in every row; the hint says how to resume."""


class RequestError(Exception):
    """A request failed.

    ``transient``: another try may succeed, after ``after`` seconds. ``billed``: the server may have
    written an answer, and charge for it. ``status`` is the HTTP status, ``field`` the part of the
    request that the server names as the cause. ``stop``: the other requests would fail too.
    """

    def __init__(
        self,
        reason: str,
        *,
        transient: bool = False,
        billed: bool = False,
        status: int | None = None,
        field: str | None = None,
        stop: Stop | None = None,
        after: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.transient, self.billed, self.status = transient, billed, status
        self.field, self.stop, self.after = field, stop, after


def cleaner(secret: str | None) -> Clean:
    """A function that replaces ``secret`` in a text by ***."""
    if not secret or secret == NO_KEY:
        return lambda text: text
    return lambda text: text.replace(secret, "***")


def words(text: object, clean: Clean) -> str:
    """A server's words as one line of at most SHOWN characters, without the key."""
    # Cleaned first: a cut through the middle of the key would leave half of it.
    return " ".join(clean(str(text)).split())[:SHOWN]


def map_error(error: Exception, clean: Clean, address: str) -> Exception:
    """The RequestError for an error of the openai client; any other error unchanged."""
    import openai

    if isinstance(error, openai.APITimeoutError | asyncio.TimeoutError):
        return RequestError(f"no answer in time from {address}", transient=True, billed=True)
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, clean)
    if isinstance(error, openai.APIConnectionError):
        cause = words(error.__cause__ or error, clean)
        if type(error.__cause__).__name__.startswith("Connect"):  # it was never sent
            return RequestError(f"no connection to {address}: {cause}", transient=True)
        reason = f"the connection to {address} broke: {cause}"
        return RequestError(reason, transient=True, billed=True)
    if isinstance(error, openai.APIResponseValidationError | ValueError | RecursionError):
        return RequestError("the answer's body is not valid JSON", transient=True, billed=True)
    return error


def _of_status(error: APIStatusError, clean: Clean) -> RequestError:
    body = error.body if isinstance(error.body, dict) else {}
    status, headers = error.status_code, error.response.headers
    reason = f"HTTP {status}: {words(body.get('message') or error.message, clean)}"
    about = body.get("metadata")
    stop: Stop | None = None
    if 300 <= status < 400:
        stop, place = "redirect", address_of(words(headers.get("location", "?"), clean))
        reason = f"HTTP {status}: it points to {place}"
    elif status == 402 or not _NO_CREDIT.isdisjoint((str(body.get("code")), str(body.get("type")))):
        stop = "account"
    elif status in (401, 404):
        stop = "key" if status == 401 else "model"
    # A gateway's moderation is about the text of this one request (OpenRouter).
    elif status == 403 and not (
        isinstance(about, dict) and {"flagged_input", "reasons"} & {*about}
    ):
        stop = "permission"
    if stop is not None or not (status in TRANSIENT or status >= 500):
        return RequestError(reason, status=status, field=error.param, stop=stop)
    after = retry_after(headers)
    if after is not None and after > LONGEST:
        reason = f"{reason}; the server asks to wait {after:.0f} s"
        return RequestError(reason, status=status, stop="wait", after=after)
    return RequestError(reason, transient=True, status=status, after=after)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait before the next try (a number or an HTTP date); None if the header is absent
    or unreadable."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) * unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - time.time()
            except (TypeError, ValueError, OverflowError):
                continue
        if seconds == seconds:  # not NaN
            return min(max(0.0, seconds), 365 * 86400.0)
    return None


def address_of(base_url: str | None) -> str:
    """A server's address without user, password and query."""
    parts = urlsplit(base_url or PROVIDER)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def stop_error(
    failure: RequestError, name: str, address: str, key_variable: str, *, has_key: bool
) -> ServerStopError | None:
    """The error that ends the run; None if ``failure`` is about one request only."""
    refused = f"the key in {key_variable}" if has_key else f"a request without a key ({address})"
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time.time() + (failure.after or 0)))
    problems: dict[str, tuple[str, str]] = {
        "effort": (
            "the server does not support this reasoning_effort",
            "leave llm.reasoning_effort out, or give one that the server names",
        ),
        "key": (
            f"the server refuses {refused}",
            f"export {key_variable}=...; another variable: llm.api_key_env=NAME",
        ),
        "account": (
            f"the account behind {key_variable} has no credit left",
            f"add credit at the provider, or export another key; {_RESUMES}",
        ),
        "permission": (
            f"the server at {address} does not permit this",
            f"check that the key in {key_variable} may use this model from here; {_RESUMES}",
        ),
        "model": (
            f"the server at {address} does not know this model",
            "llm.model is a name that the server lists under /models; llm.base_url usually ends "
            "in /v1",
        ),
        "redirect": (
            f"the server at {address} redirects; dialogues and key are not sent to another address",
            "if you trust that address, give it as llm.base_url",
        ),
        "wait": ("", f"wait until {until}; {_RESUMES}"),
    }
    effort = failure.field == "reasoning_effort" or "reasoning_effort" in str(failure)
    reason = "effort" if effort else failure.stop
    if reason is None:
        return None
    problem, hint = problems[reason]
    return ServerStopError(": ".join(filter(None, (name, problem, str(failure)))), hint=hint)
