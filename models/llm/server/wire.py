"""Chat requests on the wire of OpenAI's protocol, what a server refuses of them, and its answers,
checked field by field before anything of them is used or kept.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.protocol import ChatRequest, Completion, TokenChoice, failed
from medal_judges.models.llm.server.errors import Clean, PermanentError, TransientError, words
from medal_judges.models.llm.settings import OpenAILLM
from medal_judges.records.signature import content_hash

logger = logging.getLogger(__name__)

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
NOT_A_COMPLETION = "the answer's body is not a chat completion"
ROUNDING = 1e-3  # a log-probability may be above 0 by so much
# What servers say of a model in /models and keep saying while it is the same: vLLM its folder or
# hub id, llama.cpp its size and vocabulary, others a digest. (vLLM's ``created`` is the time of
# asking.)
_TELLING = (
    *("root", "parent", "meta", "digest", "sha", "model_sha", "sha256"),
    *("revision", "version", "weight_version", "quantization"),
)


@dataclass(slots=True)
class Accepted:
    """What a server takes of a request, as far as its refusals have told: without the fields
    ``dropped``, and with ``top_logprobs`` alternatives a token at most."""

    dropped: frozenset[str] = frozenset()  # replaced, never changed: threads read it meanwhile
    top_logprobs: int = MOST_ALTERNATIVES

    def copy(self) -> Accepted:
        """As it is now, whatever is learnt later."""
        return replace(self)

    def tags(self) -> list[str]:
        """What tells a request that was built by this from one that was not."""
        fewer = self.top_logprobs < MOST_ALTERNATIVES and "logprobs" not in self.dropped
        return [*sorted(self.dropped), *([f"top{self.top_logprobs}"] if fewer else [])]

    def learn(self, failure: PermanentError, body: Mapping[str, object]) -> str | None:
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
            self.dropped |= {refused}
        return refused


def chat_body(
    config: OpenAILLM, request: ChatRequest, limit: int, accepted: Accepted
) -> dict[str, Any]:
    """Body of a request whose answer may have ``limit`` tokens, without what the server is known to
    refuse."""
    # Newer models refuse max_tokens, older servers do not know its other name.
    names = _LIMITS[::-1] if config.thinks else _LIMITS
    limited = next((name for name in names if name not in accepted.dropped), "")
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        limited: limit,
        "temperature": request.temperature,
        "top_p": request.top_p,
    }
    if config.reasoning_effort is not None:
        body["reasoning_effort"] = config.reasoning_effort
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


def _fewer_alternatives(reason: str, body: Mapping[str, object], named: str | None) -> int | None:
    """How many alternatives the server would report, by its refusal of more.

    None where that is not what it complains of, or where it names no number of at least two: a
    token that is its own only alternative would pass for a certain one.
    """
    asked = body.get("top_logprobs")
    if not isinstance(asked, int) or not _about_alternatives(reason, named):
        return None
    told = [int(number) for number in _WHOLE_NUMBER.findall(reason)]
    bounds = {int(number) for groups in _BELOW.findall(reason) for number in groups if number}
    fitting = [number - (number in bounds) for number in told if number <= asked]
    fewer = max((number for number in fitting if number < asked), default=0)
    return fewer if fewer >= 2 else None


def _about_alternatives(reason: str, named: str | None) -> bool:
    # Whole words: "logprobs" also stands in vLLM's refusal, which names no field.
    return named in _ALTERNATIVES or re.search(r"\b(top_)?logprobs\b", reason) is not None


def _refused_field(reason: str, body: Mapping[str, object], named: str | None) -> str | None:
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


# -- answers ----------------------------------------------------------------------------------


@dataclass(slots=True)
class AnswerReader:
    """Reads answers of one server. ``clean`` takes the key out of all that is said; ``price`` is in
    US dollars, None where it is not known."""

    clean: Clean
    price: Callable[[Usage], float | None]
    warned: bool = False

    def read(
        self, answer: object, request: ChatRequest, *, enforced: bool, highest: Usage
    ) -> Completion:
        """The completion in ``answer`` (a JSON value), its price in ``usage.money``.

        An answer that says no believable number of tokens costs what ``highest`` would. Raises
        TransientError where the body is not a chat completion: servers under load send such.
        """
        if inside := get(answer, "error"):  # some gateways answer 200 and put the error inside
            said = words(get(inside, "message") or inside, self.clean)
            raise TransientError(f"an error instead of an answer: {said}")
        try:
            choice = get(answer, "choices")[0]
            message, reason = choice["message"], get(choice, "finish_reason")
            text = self.clean(_text(message.get("content")))
        except (AttributeError, IndexError, TypeError, KeyError) as error:
            raise TransientError(NOT_A_COMPLETION, billed=True) from error
        usage = self.usage(get(answer, "usage"), highest, wrote=bool(text.strip()))
        if refusal := get(message, "refusal"):
            return failed(f"the model refused: {words(refusal, self.clean)}", usage)
        if reason == "content_filter":
            return failed("the server's content filter stopped the answer", usage)
        tokens = self._tokens(choice) if request.top_logprobs else ()
        if reason == "length":
            return Completion(text, finish="length", enforced=enforced, tokens=tokens, usage=usage)
        if not text.strip() and not request.accept_truncated:
            return failed("an empty answer", usage)
        return Completion(text, enforced=enforced, tokens=tokens, usage=usage)

    def usage(self, told: object, highest: Usage, *, wrote: bool = False) -> Usage:
        """The tokens that a server tells, with their price; none where they cannot be true (none
        for an answer that it ``wrote``), and then the price of ``highest``."""
        usage = _read_usage(told)
        if usage is not None and (usage.output or not wrote):
            return replace(usage, money=self.price(usage))
        money = self.price(highest)
        if not self.warned:
            self.warned = True
            counted = "" if money is None else ": answers count at their highest price"
            logger.warning("the server tells no believable number of tokens%s", counted)
        return Usage(money=money)

    def _tokens(self, choice: object) -> tuple[TokenChoice, ...]:
        """The tokens with their alternatives; none where one is no token with a log-probability."""
        content = get(get(choice, "logprobs"), "content")
        tokens = [_token(each) for each in content] if isinstance(content, list) else []
        known = tuple(token for token in tokens if token is not None)
        whole = "".join(token.text for token in known)
        return known if len(known) == len(tokens) and self.clean(whole) == whole else ()


def get(value: object, name: str) -> Any:
    """A field of a JSON object; None where there is none."""
    return value.get(name) if isinstance(value, Mapping) else None


def _text(content: object) -> str:
    """A message's text, also where it comes in parts. Raises TypeError for anything else."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError(f"content is a {type(content).__name__}")
    said = [get(part, "text") for part in content if get(part, "type") == "text"]
    if not all(isinstance(text, str) for text in said) or (content and not said):
        raise TypeError("content has parts without text")
    return "".join(said)


def _read_usage(told: object) -> Usage | None:
    """The numbers of tokens that ``told`` states; None where some are absent, negative or no whole
    numbers, or where a prompt would have taken no token."""
    cached = get(get(told, "prompt_tokens_details"), "cached_tokens") or 0
    reasoning = get(get(told, "completion_tokens_details"), "reasoning_tokens") or 0
    given, output = get(told, "prompt_tokens"), get(told, "completion_tokens")
    amounts = (given, output, cached, reasoning)
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in amounts):
        return None
    if given == 0 or cached > given:
        return None
    # Some servers count the reasoning in the total only; it is paid for as output.
    total = get(told, "total_tokens")
    beside = total - given if isinstance(total, int) and not isinstance(total, bool) else 0
    return Usage(given, cached, max(output, reasoning, beside), reasoning)


def _token(told: object) -> TokenChoice | None:
    """One token of an answer. Its alternatives are empty where the server reports none beside the
    token itself: it would pass for a certain one."""
    text, logprob = get(told, "token"), read_logprob(get(told, "logprob"))
    listed = get(told, "top_logprobs")
    if not isinstance(text, str) or logprob is None or not isinstance(listed, list | None):
        return None
    others: dict[str, float] = {}
    for each in listed or ():
        name, value = get(each, "token"), read_logprob(get(each, "logprob"))
        if not isinstance(name, str) or value is None:
            return None
        others[name] = value
    others[text] = logprob
    return TokenChoice(text, logprob, others if len(others) > 1 else {})


def read_logprob(value: object) -> float | None:
    """A natural-log probability; None for what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(float(value), 0.0) if math.isfinite(value) and value <= ROUNDING else None


def identity_in(listing: object, model: str) -> str | None:
    """A hash of what ``listing``, the answer of /models, says of ``model``; None where it says
    nothing that tells one set of weights from another."""
    entries = get(listing, "data")
    for entry in entries if isinstance(entries, list) else ():
        if get(entry, "id") == model:
            told = {key: entry[key] for key in _TELLING if entry.get(key) is not None}
            return content_hash(told) if told else None
    return None
