"""OpenAI's protocol: the body of a chat request, the fields that a server refuses, and answers,
which pydantic checks before anything uses or caches them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, WrapValidator

from medal_judges.models.llm.cost import Count, Usage
from medal_judges.models.llm.protocol import ChatRequest, Completion, TokenChoice, failed
from medal_judges.models.llm.server.errors import Clean, RequestError, words
from medal_judges.models.llm.settings import OpenAILLM
from medal_judges.records.signature import content_hash

logger = logging.getLogger(__name__)

MOST_ALTERNATIVES = 20  # per token; no server of this protocol reports more
# Fields that a request can do without if a server refuses them; without response_format a schema is
# not enforced.
_OPTIONAL = ("response_format", "temperature", "top_p", "seed", "logprobs", "presence_penalty")
_LIMITS = ("max_tokens", "max_completion_tokens")
_UNKNOWN = re.compile(
    r"support|unrecogni|unknown|unexpected|not permitted|not allowed|extra|invalid|instead", re.I
)
_TOO_MUCH = re.compile(r"too large|at most|maximum|exceed|less than|context", re.I)
# Fields of /models that stay the same while the weights do: vLLM reports a folder or hub id,
# llama.cpp size and vocabulary, others a digest. (vLLM's ``created`` is the time of the request.)
_TELLING = (
    *("root", "parent", "meta", "digest", "sha", "model_sha", "sha256"),
    *("revision", "version", "weight_version", "quantization"),
)


def chat_body(
    config: OpenAILLM, request: ChatRequest, limit: int, dropped: frozenset[str]
) -> dict[str, Any]:
    """The body of a request for at most ``limit`` tokens, without the fields ``dropped``."""
    # Newer models refuse max_tokens, older servers do not know its other name.
    names = _LIMITS[::-1] if config.thinks else _LIMITS
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        next((name for name in names if name not in dropped), ""): limit,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "reasoning_effort": config.reasoning_effort,
        "presence_penalty": request.presence_penalty or None,
        "seed": request.seed,
    }
    if request.schema is not None:
        schema = {"name": "answer", "strict": True, "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.top_logprobs and "logprobs" not in dropped:
        most = min(request.top_logprobs, MOST_ALTERNATIVES)
        body |= {"logprobs": True, "top_logprobs": most}
    return {k: v for k, v in body.items() if k and k not in dropped and v is not None}


def refused_field(failure: RequestError, body: Mapping[str, object]) -> str | None:
    """The field of ``body`` that a refusal complains about and that can be left out."""
    if failure.status not in (400, 422):
        return None
    reason, named = str(failure).partition(": ")[2], re.split(r"[.\[]", failure.field or "")[0]
    if "logprobs" in body and re.search(r"\b(top_)?logprobs\b", f"{named} {reason}"):
        return "logprobs"
    fields = [name for name in (*_LIMITS, *_OPTIONAL) if name in body]
    about = named if named in fields else None
    if about is None and _UNKNOWN.search(reason):
        about = next((name for name in fields if re.search(rf"\b{name}\b", reason)), None)
        if "json_schema" in reason and "response_format" in body:
            about = "response_format"
    # A limit of tokens that is only too high stays: it bounds the cost.
    return None if about in _LIMITS and _TOO_MUCH.search(reason) else about


def identity_in(listing: object, model: str) -> str | None:
    """A hash of what ``listing``, the answer of /models, says about ``model``; None if it says
    nothing that distinguishes one set of weights from another."""
    entries = listing.get("data") if isinstance(listing, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("id") == model:
            facts = {key: entry[key] for key in _TELLING if entry.get(key) is not None}
            return content_hash(facts) if facts else None
    return None


# -- answers ----------------------------------------------------------------------------------


def _or_none(value: object, handler: Callable[[object], Any]) -> Any:
    try:
        return handler(value)
    except ValidationError:
        return None


OrNone = WrapValidator(_or_none)  # a field of another form is absent
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

    prompt_tokens: Annotated[int, Field(strict=True, ge=1)]
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
    clean: Clean,
) -> Completion:
    """The completion in ``answer`` (a JSON value), with its price.

    An answer without a believable number of tokens costs what ``highest`` would. Raises
    RequestError if the body is not a chat completion: servers under load send such.
    """
    if isinstance(answer, dict) and (inside := answer.get("error")):  # some gateways answer 200
        message = (inside.get("message") if isinstance(inside, dict) else None) or inside
        raise RequestError(f"an error instead of an answer: {words(message, clean)}", "retry")
    try:
        read = _Answer.model_validate(answer)
    except (ValidationError, RecursionError):
        reason = "the answer's body is not a chat completion"
        raise RequestError(reason, "retry", billed=True) from None
    choice = read.choices[0]
    text = clean(choice.message.content or "")
    usage = priced(read.usage, highest, price, wrote=bool(text.strip()))
    if choice.message.refusal:
        return failed(f"the model refused: {words(choice.message.refusal, clean)}", usage)
    if choice.finish_reason == "content_filter":
        return failed("the server's content filter stopped the answer", usage)
    finish: Any = "length" if choice.finish_reason == "length" else "stop"
    if finish == "stop" and not text.strip() and not request.accept_truncated:
        return failed("an empty answer", usage)
    tokens: list[TokenChoice] = []
    for each in (choice.logprobs and request.top_logprobs and choice.logprobs.content) or ():
        others = {a.token: min(a.logprob, 0.0) for a in each.top_logprobs or ()}
        others[each.token] = own = min(each.logprob, 0.0)
        # A token that is its own only alternative would pass for certain.
        tokens.append(TokenChoice(each.token, own, others if len(others) > 1 else {}))
    whole = "".join(token.text for token in tokens)
    if clean(whole) != whole:
        tokens = []
    return Completion(text, finish, enforced=enforced, tokens=tuple(tokens), usage=usage)


def priced(
    told: WireUsage | None,
    highest: Usage,
    price: Callable[[Usage], float | None],
    *,
    wrote: bool = False,
) -> Usage:
    """The tokens that a server reports, with their price; without believable numbers (an answer
    that it ``wrote`` has some) no tokens and the price of ``highest``."""
    if told is not None:
        cached = (told.prompt_tokens_details or _Details()).cached_tokens or 0
        reasoning = (told.completion_tokens_details or _Details()).reasoning_tokens or 0
        # Some servers count the reasoning in the total only; it is billed as output.
        output = max(told.completion_tokens, (told.total_tokens or 0) - told.prompt_tokens)
        output = max(output, reasoning)
        if cached <= told.prompt_tokens and (output or not wrote):
            usage = Usage(told.prompt_tokens, cached, output, reasoning)
            return replace(usage, money=price(usage))
    money = price(highest)
    counted = "" if money is None else ": answers count at their highest price"
    _warn(f"the server reports no believable number of tokens{counted}")
    return Usage(money=money)


@cache
def _warn(text: str) -> None:
    """Log a warning once."""
    logger.warning(text)
