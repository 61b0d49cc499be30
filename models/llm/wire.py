"""Chat requests and answers as they stand on the wire of OpenAI's protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from medal_judges.models.llm.protocol import ChatRequest, Completion, TokenChoice, Usage
from medal_judges.models.llm.retrying import PassingError

REASONING_TOKENS = 32_768  # MEDAL, section 5.3.1
# A limit this small is meant: the judge reads the first tokens only and expects the answer cut.
SHORT = 32
# Fields that a server may refuse and that one can do without; a schema is then not enforced.
_OPTIONAL = (
    *("response_format", "temperature", "top_p", "seed", "top_logprobs", "logprobs"),
    "presence_penalty",
)
_LIMITS = ("max_tokens", "max_completion_tokens")
_UNKNOWN = re.compile(
    r"support|unrecogni|unknown|unexpected|not permitted|not allowed|extra|invalid|instead", re.I
)
_TOO_MUCH = re.compile(r"too large|at most|maximum|exceed|less than|context", re.I)


def chat_body(
    model: str, request: ChatRequest, limit: int, reasoning: bool, dropped: set[str]
) -> dict[str, Any]:
    """Body of a chat request, without the fields that the server is known to refuse."""
    # Newer models refuse max_tokens, older servers do not know its other name.
    limited = next((n for n in (_LIMITS[::-1] if reasoning else _LIMITS) if n not in dropped), "")
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        limited: limit,
        "temperature": request.temperature,
        "top_p": request.top_p,
    }
    if request.presence_penalty:
        body["presence_penalty"] = request.presence_penalty
    if request.seed is not None:
        body["seed"] = request.seed
    if request.schema is not None:
        schema = {"name": "answer", "strict": True, "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": min(request.top_logprobs, 20)}
    if "logprobs" in dropped:  # the other goes with it
        dropped = dropped | {"top_logprobs"}
    return {name: value for name, value in body.items() if name and name not in dropped}


def dropped_field(
    reason: str, body: Mapping[str, Any], status: int | None, named: str | None = None
) -> str | None:
    """The field of ``body`` that a 400 or 422 complains of and that can be left out.

    ``named`` is the field that the error itself gives as its cause. A limit of tokens that is only
    too high is not left out: it bounds what an answer costs.
    """
    if status not in (400, 422):
        return None
    fields = [f for f in (*_OPTIONAL, *_LIMITS) if f in body]
    said = [f for f in fields if f == (named or "").split(".")[0].split("[")[0]]
    if not said and _UNKNOWN.search(reason):
        said = [f for f in fields if re.search(rf"\b{f}\b", reason)]
        if "json_schema" in reason and "response_format" in body:
            said = ["response_format"]
    limits = [f for f in said if f in _LIMITS]
    if limits and _TOO_MUCH.search(reason):
        return None
    return limits[0] if limits else (said[0] if said else None)


def read_completion(answer: Any, request: ChatRequest, *, enforced: bool) -> Completion:
    """The completion in a server's answer.

    Raises PassingError where the body is not a chat completion: servers under load send such.
    """
    inside = getattr(answer, "error", None)
    if isinstance(inside, dict):  # some gateways answer 200 and put the error inside
        raise PassingError(f"an error instead of an answer: {inside.get('message')}"[:300])
    try:
        choice = answer.choices[0]
        message, reason = choice.message, choice.finish_reason
        usage = _usage(answer.usage)
        refusal = getattr(message, "refusal", None)
        text = message.content or ""
        tokens = _tokens(choice) if request.top_logprobs else ()
    except (AttributeError, IndexError, TypeError) as error:
        raise PassingError("the answer's body is not a chat completion", billed=True) from error
    if refusal:
        return _failed(f"the model refused: {refusal}"[:300], usage)
    if reason == "content_filter":
        return _failed("the server's content filter stopped the answer", usage)
    if reason == "length":
        return Completion(text, finish="length", enforced=enforced, tokens=tokens, usage=usage)
    if not text.strip() and not request.as_it_is:
        return _failed("an empty answer", usage)
    return Completion(text, enforced=enforced, tokens=tokens, usage=usage)


def _failed(reason: str, usage: Usage) -> Completion:
    return Completion("", finish="failed", failure=reason, usage=usage)


def _usage(found: Any) -> Usage:
    if found is None:
        return Usage()
    read = getattr(found, "prompt_tokens_details", None)
    written = getattr(found, "completion_tokens_details", None)
    return Usage(
        input=found.prompt_tokens or 0,
        cached=getattr(read, "cached_tokens", None) or 0,
        output=found.completion_tokens or 0,
        reasoning=getattr(written, "reasoning_tokens", None) or 0,
    )


def _tokens(choice: Any) -> tuple[TokenChoice, ...]:
    found = getattr(choice.logprobs, "content", None) if choice.logprobs else None
    return tuple(
        TokenChoice(
            each.token,
            each.logprob,
            {a.token: a.logprob for a in each.top_logprobs} | {each.token: each.logprob},
        )
        for each in found or ()
    )
