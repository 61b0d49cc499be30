"""What a server's failure means: it passes, it stays, or it ends the run, with what to tell.

Everything that a server sends back goes through ``Clean``: the key never comes out of it.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from medal_judges.errors import ConfigError, MedalError

if TYPE_CHECKING:
    from openai import APIStatusError

PROVIDER = "https://api.openai.com/v1"  # the client's own, where no base_url is given
NO_KEY = "none"  # what the client is given for servers that ask for none
SHOWN = 300  # characters of a server's own words in a failure
HIDDEN = "***"
TRANSIENT = (408, 409, 425, 429)  # and every 5xx
# An empty account answers 429 like a rate limit (or 402, 400), but waiting does not fill it.
_NO_CREDIT = frozenset(
    (
        *("insufficient_quota", "insufficient_balance", "billing_not_active"),
        *("billing_hard_limit_reached", "insufficient_funds", "payment_required"),
    )
)
_PART = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_YEAR = 365 * 86400.0  # no wait is longer, whatever a server says
LONGEST = 300.0  # seconds; a server that asks to wait for longer ends the run
_RESUMES = "the same command then resumes: what is answered is kept"
# Why no request of this run will be answered, until the user has done something.
Stop = Literal["key", "account", "permission", "model", "wait", "redirect"]
Clean = Callable[[str], str]


class ServerError(MedalError):
    """A server failed for the time being, also when asked again."""


class ServerStopError(ConfigError):
    """A server refuses every request (key, account, permission, model, or a wait of its own choice
    that is too long to sit through). The run stops at once: an outage of the account would become a
    failure of every row. The hint says what to do before the same command resumes."""


class RequestError(Exception):
    """A request failed; ``billed``: the server may have written an answer, and charge for it."""

    billed: bool


class PermanentError(RequestError):
    """The server will not answer this request, however often it is asked; the text says why.

    ``status`` is None for an answer that came, is ``billed`` and cannot be used. ``field``: the
    part of the request that the server names as the cause. ``stop``: none of the other requests
    would be answered either; ``after`` is then how long the server asks to wait (seconds), if it
    does.
    """

    def __init__(
        self,
        reason: str,
        status: int | None = None,
        field: str | None = None,
        *,
        stop: Stop | None = None,
        after: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.status, self.field, self.stop, self.after = status, field, stop, after
        self.billed = status is None


class TransientError(RequestError):
    """This try failed; another may not. ``after``: how long the server asks to wait (seconds)."""

    def __init__(self, reason: str, after: float | None = None, *, billed: bool = False) -> None:
        super().__init__(reason)
        self.after, self.billed = after, billed


def cleaner(secret: str | None) -> Clean:
    """A function that takes ``secret`` out of a text; one that changes nothing without a key."""
    if not secret or secret == NO_KEY:
        return lambda text: text
    return lambda text: text.replace(secret, HIDDEN)


def words(text: object, clean: Clean) -> str:
    """What a server said, as one line of at most SHOWN characters and without the key."""
    # Cleaned first: a cut through the middle of the key would leave half of it.
    return " ".join(clean(str(text)).split())[:SHOWN]


def is_transient(status: int) -> bool:
    """Whether a failure with this HTTP status passes by itself."""
    return status in TRANSIENT or status >= 500


def map_error(error: Exception, clean: Clean, address: str) -> Exception:
    """TransientError or PermanentError for an error of the openai client; others come back as they
    are. ``clean`` takes the key out of what the server says; ``address``: which server it is."""
    import openai

    if isinstance(error, openai.APITimeoutError | asyncio.TimeoutError):
        return TransientError(f"no answer in time from {address}", billed=True)
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, clean)
    if isinstance(error, openai.APIConnectionError):
        cause = words(error.__cause__ or error, clean)
        if type(error.__cause__).__name__.startswith("Connect"):  # it was never sent
            return TransientError(f"no connection to {address}: {cause}")
        return TransientError(f"the connection to {address} broke: {cause}", billed=True)
    if isinstance(error, openai.APIResponseValidationError | ValueError | RecursionError):
        return TransientError("the answer's body is not what the protocol says", billed=True)
    return error


def _of_status(error: APIStatusError, clean: Clean) -> Exception:
    body = error.body if isinstance(error.body, dict) else {}
    status, said = error.status_code, words(body.get("message") or error.message, clean)
    reason = f"HTTP {status}: {said}"
    if 300 <= status < 400:
        place = address_of(words(error.response.headers.get("location", "?"), clean))
        return PermanentError(f"HTTP {status}: it points to {place}", status, stop="redirect")
    stop = _stop(status, body)
    if stop is not None or not is_transient(status):
        return PermanentError(reason, status, error.param, stop=stop)
    after = retry_after(error.response.headers)
    if after is not None and after > LONGEST:
        reason = f"{reason}; the server asks to wait {after:.0f} s"
        return PermanentError(reason, status, stop="wait", after=after)
    return TransientError(reason, after)


def _stop(status: int, body: Mapping[str, object]) -> Stop | None:
    if status == 402 or not _NO_CREDIT.isdisjoint((str(body.get("code")), str(body.get("type")))):
        return "account"
    about = body.get("metadata")
    if (
        status == 403
        and isinstance(about, dict)
        and ("flagged_input" in about or "reasons" in about)
    ):
        return None  # a gateway's word on the text of this one request (OpenRouter's moderation)
    stops: dict[int, Stop] = {401: "key", 403: "permission", 404: "model"}
    return stops.get(status)


def duration(text: str | None) -> float | None:
    """Seconds of ``6m0s``, ``20ms``, ``1.5`` (seconds) or an HTTP date; None for anything else."""
    if not text:
        return None
    text = text.strip()
    try:
        return _bounded(float(text))
    except ValueError:
        pass
    parts = _PART.findall(text)
    if parts and "".join(n + u for n, u in parts) == text:
        return _bounded(sum(float(number) * _SECONDS[unit] for number, unit in parts))
    return _until(text)


def _bounded(seconds: float) -> float | None:
    return None if math.isnan(seconds) else min(max(0.0, seconds), _YEAR)


def _until(text: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return _bounded(parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait before the next try, in seconds; None where it is silent."""
    milliseconds = duration(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    return duration(headers.get("retry-after"))


def address_of(base_url: str | None) -> str:
    """Where a server is, without user, password and query."""
    parts = urlsplit(base_url or PROVIDER)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def stop_error(
    failure: PermanentError, name: str, address: str, key_variable: str, *, has_key: bool
) -> ServerStopError | None:
    """What to tell the user of ``failure``; None where it is about one request only."""
    refused = f"the key in {key_variable}" if has_key else f"a request without a key ({address})"
    wait = time.time() + (failure.after or 0)
    told: dict[str, tuple[str, str]] = {
        "effort": (
            "the server takes no such reasoning_effort",
            "leave llm.reasoning_effort out, or give one of those that it names",
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
            f"see that the key in {key_variable} may use this model, and from here; {_RESUMES}",
        ),
        "model": (
            f"the server at {address} does not know it",
            "llm.model is a name that the server lists under /models; llm.base_url usually ends "
            "in /v1",
        ),
        "redirect": (
            f"the server at {address} sends elsewhere; no dialogue and no key go there unasked",
            "if you trust that address, give it as llm.base_url",
        ),
        "wait": (
            "",
            f"wait until {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime(wait))}; {_RESUMES}",
        ),
    }
    effort = failure.field == "reasoning_effort" or "reasoning_effort" in str(failure)
    reason = "effort" if effort else failure.stop
    if reason is None:
        return None
    problem, hint = told[reason]
    return ServerStopError(": ".join(filter(None, (name, problem, str(failure)))), hint=hint)
