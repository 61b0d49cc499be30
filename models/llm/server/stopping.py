"""A server that will answer nothing of this run: stopped at once, with what to do.

To go on would turn an outage of the account into a failure of every row.
"""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from medal_judges.errors import ConfigError
from medal_judges.models.llm.server.retrying import PermanentError

PROVIDER = "https://api.openai.com/v1"  # the client's own, where no base_url is given
_GOES_ON = "the same command then goes on: what is answered is kept"


class ServerStopError(ConfigError):
    """A server refuses every request (key, account, permission, model, or a wait of its own choice
    that is too long to sit through); the hint says what to do before the same command goes on."""


def address_of(base_url: str | None) -> str:
    """Where a server is, without user, password and query."""
    parts = urlsplit(base_url or PROVIDER)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def stop_error(
    failure: PermanentError, name: str, base_url: str | None, key_variable: str, *, has_key: bool
) -> ServerStopError | None:
    """What to tell the user of ``failure``; None where it is about one request only."""
    at = address_of(base_url)
    if failure.field == "reasoning_effort" or "reasoning_effort" in str(failure):
        return ServerStopError(
            f"{name}: the server takes no such reasoning_effort: {failure}",
            hint="leave llm.reasoning_effort out, or give one of those that it names",
        )
    if failure.stop == "key":
        told = f"the key in {key_variable}" if has_key else f"a request without a key ({at})"
        return ServerStopError(
            f"{name}: the server refuses {told}: {failure}",
            hint=f"export {key_variable}=...; another variable: llm.api_key_env=NAME",
        )
    if failure.stop == "account":
        return ServerStopError(
            f"{name}: the account behind {key_variable} has no credit left: {failure}",
            hint=f"add credit at the provider, or export another key; {_GOES_ON}",
        )
    if failure.stop == "permission":
        return ServerStopError(
            f"{name}: the server at {at} does not permit this: {failure}",
            hint=f"see that the key in {key_variable} may use this model, and from here; "
            f"{_GOES_ON}",
        )
    if failure.stop == "model":
        return ServerStopError(
            f"{name}: the server at {at} does not know it: {failure}",
            hint="llm.model is a name that the server lists under /models; "
            "llm.base_url usually ends in /v1",
        )
    if failure.stop == "wait":
        then = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time.time() + (failure.after or 0)))
        return ServerStopError(f"{name}: {failure}", hint=f"wait until {then}; {_GOES_ON}")
    return None
