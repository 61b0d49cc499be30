"""Which failures of a remote model pass by themselves, and how long to wait for that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from medal_judges.models.llm.server.rates import LONGEST, RateGate, retry_after
from medal_judges.models.llm.server.secrecy import Clean, words

T = TypeVar("T")
logger = logging.getLogger(__name__)

PASSING = (408, 409, 425, 429)  # and every 5xx
# An empty account answers 429 like a rate limit (or 402, 400), but waiting does not fill it.
_NO_CREDIT = frozenset(
    (
        *("insufficient_quota", "insufficient_balance", "billing_not_active"),
        *("billing_hard_limit_reached", "insufficient_funds", "payment_required"),
    )
)
# Why no request of this run will be answered, until the user has done something.
Stop = Literal["key", "account", "permission", "model", "wait"]


class PermanentError(Exception):
    """The server will not answer this request, however often it is asked; the text says why.

    ``status`` is None for an answer that came and cannot be used. ``field``: the part of the
    request that the server names as the cause. ``stop``: none of the other requests would be
    answered either; ``after`` is then how long the server asks to wait (seconds), if it does.
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


class TransientError(Exception):
    """This try failed; another may not. ``after``: how long the server asks to wait (seconds).

    ``billed``: the server may have written an answer, and charge for it, that did not arrive here.
    """

    def __init__(self, reason: str, after: float | None = None, *, billed: bool = False) -> None:
        super().__init__(reason)
        self.after, self.billed = after, billed


async def with_retries(
    call: Callable[[], Awaitable[T]], gate: RateGate, *, attempts: int, longest_wait: float
) -> T:
    """``call()``, again after a TransientError: full-jitter back-off, never sooner than asked for.

    Raises the last TransientError after ``attempts`` tries, and PermanentError at once.
    """
    from tenacity import (
        AsyncRetrying,
        RetryCallState,
        retry_if_exception_type,
        stop_after_attempt,
        wait_random_exponential,
    )

    jitter = wait_random_exponential(multiplier=0.5, max=longest_wait)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = getattr(error, "after", None)
        logger.debug("try %d failed: %s", state.attempt_number, error)
        if asked is not None:
            gate.hold(asked)  # the limit is everybody's, not this request's alone
        return float(max(jitter(state), asked or 0.0))

    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(TransientError),
        stop=stop_after_attempt(attempts),
        wait=wait,
        reraise=True,
    ):
        with attempt:
            await gate.wait()
            return await call()
    raise AssertionError("AsyncRetrying returns or raises")


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
    if isinstance(error, openai.APIResponseValidationError | ValueError):
        return TransientError("the answer's body is not what the protocol says", billed=True)
    return error


def _of_status(error: Any, clean: Clean) -> Exception:
    body = error.body if isinstance(error.body, dict) else {}
    status, said = error.status_code, words(body.get("message") or error.message, clean)
    reason = f"HTTP {status}: {said}"
    stop = _stop(status, body)
    if stop is not None:
        return PermanentError(reason, status, error.param, stop=stop)
    if status not in PASSING and status < 500:
        return PermanentError(reason, status, error.param)
    after = retry_after(error.response.headers)
    if after is not None and after > LONGEST:
        reason = f"{reason}; the server asks to wait {after:.0f} s"
        return PermanentError(reason, status, stop="wait", after=after)
    return TransientError(reason, after)


def _stop(status: int, body: dict[str, Any]) -> Stop | None:
    if status == 402 or not _NO_CREDIT.isdisjoint((str(body.get("code")), str(body.get("type")))):
        return "account"
    if status == 403 and _moderated(body):
        return None
    stops: dict[int, Stop] = {401: "key", 403: "permission", 404: "model"}
    return stops.get(status)


def _moderated(body: dict[str, Any]) -> bool:
    """Whether a gateway's 403 is about the text of this one request (OpenRouter's moderation)."""
    about = body.get("metadata")
    return isinstance(about, dict) and ("flagged_input" in about or "reasons" in about)
