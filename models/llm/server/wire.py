"""Chat requests on the wire of OpenAI's protocol, and what a server refuses of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from medal_judges.models.llm.protocol import ChatRequest
from medal_judges.models.llm.server.retrying import PermanentError

REASONING_TOKENS = 32_768  # MEDAL, section 5.3.1
# A limit this small is meant: the judge reads the first tokens only and expects the answer cut.
SHORT = 32
MOST_ALTERNATIVES = 20  # per token; no server of this protocol reports more
# Fields that a server may refuse and that one can do without; a schema is then not enforced.
_OPTIONAL = ("response_format", "temperature", "top_p", "seed", "logprobs", "presence_penalty")
_LIMITS = ("max_tokens", "max_completion_tokens")
_ALTERNATIVES = ("top_logprobs", "logprobs")  # one means nothing here without the other
_UNKNOWN = re.compile(
    r"support|unrecogni|unknown|unexpected|not permitted|not allowed|extra|invalid|instead", re.I
)
_TOO_MUCH = re.compile(r"too large|at most|maximum|exceed|less than|context", re.I)
_WHOLE_NUMBER = re.compile(r"(?<![\w.-])\d{1,4}(?![\w-]|\.\d)")
_BELOW = re.compile(r"less than (\d{1,4})|< (\d{1,4})|(\d{1,4}) ?\(exclusive\)", re.I)


@dataclass(slots=True)
class Accepted:
    """What a server takes of a request, as far as its refusals have told: without the fields
    ``dropped``, and with ``top_logprobs`` alternatives a token at most."""

    dropped: set[str] = field(default_factory=set)
    top_logprobs: int = MOST_ALTERNATIVES

    def copy(self) -> Accepted:
        """As it is now, whatever is learnt later."""
        return replace(self, dropped=set(self.dropped))

    def tags(self) -> list[str]:
        """What tells a request that was built by this from one that was not."""
        fewer = self.top_logprobs < MOST_ALTERNATIVES and "logprobs" not in self.dropped
        return [*sorted(self.dropped), *([f"top{self.top_logprobs}"] if fewer else [])]

    def learn(self, failure: PermanentError, body: Mapping[str, Any]) -> str | None:
        """Note what ``failure`` complains of in ``body``, so that it can be asked again; returns
        that in words, None where the request cannot do without it."""
        if failure.status not in (400, 422):
            return None
        fewer = _fewer_alternatives(str(failure), body, failure.field)
        if fewer is not None:
            self.top_logprobs = min(fewer, self.top_logprobs)
            return f"more than {self.top_logprobs} top_logprobs"
        refused = _refused_field(str(failure), body, failure.field)
        if refused is not None:
            self.dropped.add(refused)
        return refused


def chat_body(
    model: str,
    request: ChatRequest,
    limit: int,
    accepted: Accepted,
    *,
    reasoning: bool = False,
    effort: str | None = None,
) -> dict[str, Any]:
    """Body of a chat request, without what the server is known to refuse."""
    # Newer models refuse max_tokens, older servers do not know its other name.
    names = _LIMITS[::-1] if reasoning else _LIMITS
    limited = next((name for name in names if name not in accepted.dropped), "")
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        limited: limit,
        "temperature": request.temperature,
        "top_p": request.top_p,
    }
    if effort is not None:
        body["reasoning_effort"] = effort
    if request.presence_penalty:
        body["presence_penalty"] = request.presence_penalty
    if request.seed is not None:
        body["seed"] = request.seed
    if request.schema is not None:
        schema = {"name": "answer", "strict": True, "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.top_logprobs and "logprobs" not in accepted.dropped:
        most = min(request.top_logprobs, accepted.top_logprobs)
        body |= {"logprobs": True, "top_logprobs": most}
    return {name: value for name, value in body.items() if name and name not in accepted.dropped}


def _fewer_alternatives(reason: str, body: Mapping[str, Any], named: str | None) -> int | None:
    """How many alternatives the server would report, by its refusal of more.

    None where that is not what it complains of, or where it names no number of at least two: a
    token that is its own only alternative would pass for a certain one.
    """
    asked = body.get("top_logprobs")
    if asked is None or not _about_alternatives(reason, named):
        return None
    told = [int(number) for number in _WHOLE_NUMBER.findall(reason)]
    bounds = {int(number) for found in _BELOW.findall(reason) for number in found if number}
    fitting = [number - (number in bounds) for number in told if number <= asked]
    fewer = max((number for number in fitting if number < asked), default=0)
    return fewer if fewer >= 2 else None


def _about_alternatives(reason: str, named: str | None) -> bool:
    # Whole words: "logprobs" also stands in vLLM's refusal, which names no field.
    return named in _ALTERNATIVES or re.search(r"\b(top_)?logprobs\b", reason) is not None


def _refused_field(reason: str, body: Mapping[str, Any], named: str | None) -> str | None:
    """The field of ``body`` that a refusal is about and that can be left out.

    ``named`` is the field that the error itself gives as its cause. A limit of tokens that is only
    too high is not left out: it bounds what an answer costs.
    """
    named = (named or "").split(".")[0].split("[")[0]
    fields = [name for name in (*_OPTIONAL, *_LIMITS) if name in body]
    about = [name for name in fields if name == named]
    if not about and "logprobs" in body and _about_alternatives(reason, named):
        about = ["logprobs"]
    if not about and _UNKNOWN.search(reason):
        about = [name for name in fields if re.search(rf"\b{name}\b", reason)]
        if "json_schema" in reason and "response_format" in body:
            about = ["response_format"]
    limits = [name for name in about if name in _LIMITS]
    if limits and _TOO_MUCH.search(reason):
        return None
    return limits[0] if limits else (about[0] if about else None)
