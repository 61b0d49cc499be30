"""OpenAI's protocol: the body of a chat request, its answer, and what a server's failure means.

Pydantic checks an answer before anything uses or caches it. Every message of a server or a library
goes through ``words``, which removes secrets; answers are not changed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, WrapValidator

from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.llm.cost import Count, Usage
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Finish,
    TokenChoice,
    failed,
)
from medal_judges.models.llm.settings import OpenAILLM
from medal_judges.records.signature import content_hash
from medal_judges.secrets import without_secrets

if TYPE_CHECKING:
    from openai import APIStatusError

logger = logging.getLogger(__name__)

# Fields of /models that stay the same while the weights do: vLLM reports a folder or hub id,
# llama.cpp size and vocabulary, others a digest. (vLLM's ``created`` is the time of the request.)
IDENTITY = (
    *("root", "parent", "meta", "digest", "sha", "model_sha", "sha256"),
    *("revision", "version", "weight_version", "quantization"),
)
SHOWN = 300  # characters of a server's message in a failure
LONGEST = 300.0  # seconds; a server that asks for a longer wait ends the run

# -- failures -------------------------------------------------------------------------------------

# retry: another try may succeed. refuse: this request fails. The others end the run, see STOPS;
# connect only if the server never answered, else it is a retry.
Action = Literal[
    "retry",
    "refuse",
    "connect",
    "key",
    "account",
    "permission",
    "model",
    "redirect",
    "wait",
]
# By HTTP status; other statuses: redirect for 3xx, retry for 5xx, else refuse.
ACTIONS: dict[int, Action] = {
    **{401: "key", 402: "account", 403: "permission", 404: "model"},
    **dict.fromkeys((408, 409, 425, 429), "retry"),
    501: "refuse",
}
# An empty account answers 429 like a rate limit (or 400), but a retry does not help.
_NO_CREDIT = {"insufficient_quota", "insufficient_balance", "billing_not_active"}
_NO_CREDIT |= {"billing_hard_limit_reached", "insufficient_funds", "payment_required"}
_RESUMES = "the same command then resumes: finished answers are cached"
STOPS = {  # action: (problem, hint)
    "connect": (
        "no server answers at {address}",
        f"start it, or change llm.base_url, which usually ends in /v1; {_RESUMES}",
    ),
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
        "if you trust that address, set llm.base_url to it",
    ),
    "wait": (
        "the server accepts no requests for now",
        f"wait until {{until}}; {_RESUMES}",
    ),
}


class ServerError(MedalError):
    """A server still fails after all retries; another run may succeed."""


class ServerStopError(ConfigError):
    """A server refuses every request (key, account, permission, model, or too long a wait), so the
    run stops at once; the hint says how to resume."""


class RequestError(Exception):
    """A request failed; a retry waits ``after`` seconds.

    ``billed``: the server may have written an answer and may charge for it. ``field``: the field of
    the request that the server blames. ``lost``: US dollars that all tries may have cost.
    """

    lost = 0.0

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
        self.field, self.after = field, after
        self.transient = action in ("retry", "connect")


def words(text: object) -> str:
    """Returns a server's message as one line of at most SHOWN characters, without secrets."""
    # Removed first: a cut through the middle of a key would leave half of it.
    line = " ".join(without_secrets(str(text)).split())[:SHOWN]
    return line.encode("utf-8", "backslashreplace").decode()


def map_error(error: Exception, address: str) -> Exception:
    """The RequestError for an error of the openai client; any other error unchanged."""
    import openai

    if isinstance(error, openai.APITimeoutError | asyncio.TimeoutError):
        return RequestError(f"no answer in time from {address}", "retry", billed=True)
    if isinstance(error, openai.APIConnectionError):
        if isinstance(error.__cause__, RequestError):
            return error.__cause__
        cause = words(error.__cause__ or error)
        if type(error.__cause__).__name__.startswith("Connect"):  # it was never sent
            return RequestError(f"no connection to {address}: {cause}", "connect")
        return RequestError(
            f"the connection to {address} broke: {cause}", "retry", billed=True
        )
    if isinstance(error, UnicodeEncodeError):  # an answer that is quoted in the request
        return RequestError("the request contains half a surrogate pair")
    if isinstance(
        error, openai.APIResponseValidationError | ValueError | RecursionError
    ):
        return RequestError("the answer's body is not valid JSON", "retry", billed=True)
    if not isinstance(error, openai.APIStatusError):
        return error
    return _status_error(error)


def _status_error(error: APIStatusError) -> RequestError:
    body = error.body if isinstance(error.body, dict) else {}
    status, headers, after = error.status_code, error.response.headers, None
    reason = f"HTTP {status}: {words(body.get('message') or error.message)}"
    usual: Action = "refuse"
    if status >= 500:
        usual = "retry"
    action = ACTIONS.get(status, usual)
    if 300 <= status < 400:
        action = "redirect"
        target, _, _ = words(headers.get("location", "?")).partition("?")
        reason = f"HTTP {status}: it points to {target}"
    elif not _NO_CREDIT.isdisjoint((str(body.get("code")), str(body.get("type")))):
        action = "account"
    elif status == 403 and "flagged_input" in str(body.get("metadata")):
        action = "refuse"  # a gateway's moderation is about the text of this request (OpenRouter)
    elif action == "retry":
        after = retry_after(headers)
        if after is not None and after > LONGEST:
            action, reason = "wait", f"{reason}; the server asks to wait {after:.0f} s"
    field = error.param if isinstance(error.param, str) else None
    return RequestError(reason, action, status=status, field=field, after=after)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait before the next try, from a number or an HTTP date; None if the header is
    absent or unreadable."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    if math.isnan(seconds):
        return None
    return min(max(0.0, seconds), 365 * 86400.0)


def stop_error(
    failure: RequestError, name: str, address: str, variable: str
) -> MedalError | None:
    """The error that ends the run; None if ``failure`` is about one request only."""
    if failure.action not in STOPS:
        return None
    end = time.gmtime(time.time() + (failure.after or 0))
    until = time.strftime("%Y-%m-%d %H:%M UTC", end)
    facts = {"address": address, "variable": variable, "until": until}
    problem, hint = STOPS[failure.action]
    reason = f"{name}: {problem.format(**facts)}: {failure}"
    return ServerStopError(reason, hint=hint.format(**facts))


# -- requests -------------------------------------------------------------------------------------

# Fields that a request can do without if a server refuses them; without response_format a schema is
# not enforced.
_OPTIONAL = (
    "response_format",
    "temperature",
    "top_p",
    "seed",
    "logprobs",
    "presence_penalty",
    "frequency_penalty",
)
_LIMITS = ("max_tokens", "max_completion_tokens")
_UNKNOWN = re.compile(
    r"support|unrecogni|unknown|unexpected|not permitted|not allowed|extra|invalid|instead",
    re.I,
)
_TOO_MUCH = re.compile(r"too large|at most|maximum|exceed|less than|context", re.I)


def chat_body(
    config: OpenAILLM, request: ChatRequest, limit: int, dropped: frozenset[str]
) -> dict[str, Any]:
    """The body of a request for at most ``limit`` tokens, without the fields ``dropped``. No part
    of the cache's key, which the request's own fields make."""
    # Newer models refuse max_tokens; older servers do not know max_completion_tokens.
    names = _LIMITS[::-1] if config.thinks else _LIMITS
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
    }
    allowed = [name for name in names if name not in dropped]
    if allowed and not request.unlimited:
        body[allowed[0]] = limit
    body |= {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "reasoning_effort": config.reasoning_effort,
        "presence_penalty": request.presence_penalty or None,
        "frequency_penalty": request.frequency_penalty or None,
        "seed": request.seed,
    }
    if request.schema is not None:
        schema = {"name": "answer", "strict": True, "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.top_logprobs and "logprobs" not in dropped:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    return {k: v for k, v in body.items() if k not in dropped and v is not None}


def refused_field(failure: RequestError, body: Mapping[str, object]) -> str | None:
    """The field of ``body`` that a refusal complains about and that can be left out, of which the
    caller warns."""
    if failure.status not in (400, 422):
        return None
    fields = [name for name in (*_LIMITS, *_OPTIONAL) if name in body]
    reason = str(failure).partition(": ")[2]
    blamed = re.split(r"[.\[]", failure.field or "")[0]
    field = _blamed_field(blamed, reason, fields)
    # A limit of tokens that is only too high stays: it bounds the cost.
    if field in _LIMITS and _TOO_MUCH.search(reason):
        return None
    return field


def _blamed_field(blamed: str, reason: str, fields: Sequence[str]) -> str | None:
    """The one of ``fields`` that a server blames by its name ``blamed`` or in its ``reason``."""
    if "logprobs" in fields and re.search(r"\b(top_)?logprobs\b", f"{blamed} {reason}"):
        return "logprobs"
    if blamed in fields:
        return blamed
    if not _UNKNOWN.search(reason):
        return None
    if "json_schema" in reason and "response_format" in fields:
        return "response_format"
    names = re.findall(r"\w+", reason)
    return next((field for field in fields if field in names), None)


# -- answers --------------------------------------------------------------------------------------


class ModelListing(BaseModel):
    """The models that a server lists."""

    data: list[dict[str, Any]]

    def identity(self, model: str) -> str | None:
        """A hash of what the list says about the weights of ``model``; None if it says nothing."""
        for entry in self.data:
            if entry.get("id") == model:
                facts = {key: entry.get(key) for key in IDENTITY}
                facts = {key: fact for key, fact in facts.items() if fact is not None}
                return content_hash(facts) if facts else None
        return None


def _or_none(value: object, handler: Callable[[object], Any]) -> Any:
    try:
        return handler(value)
    except ValidationError:
        return None


OrNone = WrapValidator(_or_none)  # an invalid field counts as absent
# A natural log may be slightly above 0 by rounding.
WireLogprob = Annotated[float, Field(strict=True, le=1e-3, allow_inf_nan=False)]


class _Alternative(BaseModel):
    token: str = Field(strict=True)
    logprob: WireLogprob


class _Token(_Alternative):
    top_logprobs: list[_Alternative] | None = None


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Message(BaseModel):
    content: Annotated[str, Field(strict=True)] | None = None
    refusal: Any = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: Any = None
    logprobs: Annotated[_Logprobs | None, OrNone] = None


class _Details(BaseModel):
    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None


class WireUsage(BaseModel):
    """The numbers of tokens that a server reports."""

    prompt_tokens: Annotated[Count, Field(ge=1)]
    completion_tokens: Count
    total_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Answer(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: Annotated[WireUsage | None, OrNone] = None


class _EchoLogprobs(BaseModel):
    token_logprobs: list[WireLogprob | None]


class _EchoChoice(BaseModel):
    logprobs: _EchoLogprobs


class Echo(BaseModel):
    """The answer of a completions endpoint that echoes its prompt."""

    choices: list[_EchoChoice] = Field(min_length=1)
    usage: Annotated[WireUsage | None, OrNone] = None


def read_answer(
    answer: object,
    request: ChatRequest,
    *,
    enforced: bool,
    highest: Usage,
    price: Callable[[Usage], float | None],
) -> Completion:
    """The completion in ``answer`` (a JSON value), with its price (see ``priced``).

    Raises RequestError if the body is not a chat completion: servers under load send such bodies.
    """
    checked = _checked(answer)
    choice = checked.choices[0]
    text = choice.message.content or ""
    usage = priced(checked.usage, highest, price, wrote=bool(text.strip()))
    if reason := _no_answer(choice, text, request):
        return failed(reason, usage)
    finish: Finish = "stop"
    if choice.finish_reason == "length":
        finish = "length"
    tokens: tuple[TokenChoice, ...] = ()
    if request.top_logprobs and choice.logprobs:
        tokens = tuple(map(_token_choice, choice.logprobs.content or ()))
    return Completion(text, finish, enforced=enforced, tokens=tokens, usage=usage)


def _checked(answer: object) -> _Answer:
    """The fields of a chat completion. Raises RequestError for another body."""
    # Some gateways answer 200 with an error.
    if isinstance(answer, dict) and (problem := answer.get("error")):
        if isinstance(problem, dict):
            problem = problem.get("message") or problem
        raise RequestError(f"an error instead of an answer: {words(problem)}", "retry")
    try:
        return _Answer.model_validate(answer)
    except (ValidationError, RecursionError):
        reason = "the answer's body is not a chat completion"
        raise RequestError(reason, "retry", billed=True) from None


def _no_answer(choice: _Choice, text: str, request: ChatRequest) -> str | None:
    """The reason why ``text`` is no answer to ``request``; None if it is one."""
    if choice.message.refusal:
        return f"the model refused: {words(choice.message.refusal)}"
    if without_secrets(text) != text:
        return "the answer contains the key or the password of the server"
    if choice.finish_reason == "content_filter":
        return "the server's content filter stopped the answer"
    may_be_empty = request.accept_truncated or choice.finish_reason == "length"
    if not text.strip() and not may_be_empty:
        return "an empty answer"
    return None


def _token_choice(token: _Token) -> TokenChoice:
    alternatives = {a.token: min(a.logprob, 0.0) for a in token.top_logprobs or ()}
    alternatives[token.token] = logprob = min(token.logprob, 0.0)
    if len(alternatives) == 1:
        # A token that is its own only alternative would pass for certain.
        alternatives = {}
    return TokenChoice(token.token, logprob, alternatives)


def read_echo(answer: object, length: int) -> tuple[list[float], WireUsage | None]:
    """The log-probabilities of all but the first of a prompt's ``length`` tokens, and the reported
    usage. Raises RequestError."""
    try:
        echo = Echo.model_validate(answer)
    except ValidationError:
        raise RequestError("the server echoes no log-probabilities") from None
    echoed = echo.choices[0].logprobs.token_logprobs[1:length]
    logprobs = [min(logprob, 0.0) for logprob in echoed if logprob is not None]
    if len(logprobs) < length - 1:
        raise RequestError("the server does not echo a log-probability for each token")
    return logprobs, echo.usage


def priced(
    reported: WireUsage | None,
    highest: Usage,
    price: Callable[[Usage], float | None],
    *,
    wrote: bool = False,
) -> Usage:
    """The tokens that a server reports, with their price. If the numbers are missing or implausible
    (no output tokens, although the server ``wrote`` an answer): no tokens, at the price of
    ``highest``."""
    if reported is not None:
        prompt_details = reported.prompt_tokens_details or _Details()
        answer_details = reported.completion_tokens_details or _Details()
        cached = prompt_details.cached_tokens or 0
        reasoning = answer_details.reasoning_tokens or 0
        # Some servers count the reasoning in the total only; it is billed as output.
        beyond_prompt = (reported.total_tokens or 0) - reported.prompt_tokens
        output = max(reported.completion_tokens, beyond_prompt, reasoning)
        if cached <= reported.prompt_tokens and (output or not wrote):
            usage = Usage(reported.prompt_tokens, cached, output, reasoning)
            return replace(usage, money=price(usage))
    money = price(highest)
    consequence = ""
    if money is not None:
        consequence = ": answers count at their highest price"
    _warn_once(consequence)
    return Usage(money=money)


@cache
def _warn_once(consequence: str) -> None:
    logger.warning("the server reports no plausible number of tokens%s", consequence)
