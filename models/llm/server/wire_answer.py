"""A server's answer, checked field by field before anything of it is used or kept."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from medal_judges.models.llm.protocol import ChatRequest, Completion, TokenChoice, Usage
from medal_judges.models.llm.server.retrying import TransientError
from medal_judges.models.llm.server.secrecy import Clean, words

logger = logging.getLogger(__name__)

NOT_A_COMPLETION = "the answer's body is not a chat completion"
ROUNDING = 1e-3  # a log-probability may be above 0 by so much


@dataclass(slots=True)
class AnswerReader:
    """Reads answers of one server. ``clean`` takes the key out of all that is said; ``price`` is in
    US dollars, None where it is not known."""

    clean: Clean
    price: Callable[[Usage], float | None]
    told: bool = False

    def read(
        self, answer: Any, request: ChatRequest, *, enforced: bool, highest: Usage
    ) -> Completion:
        """The completion in ``answer``, its price in ``usage.money``.

        An answer that says no believable number of tokens costs what ``highest`` would. Raises
        TransientError where the body is not a chat completion: servers under load send such.
        """
        inside = getattr(answer, "error", None)
        if inside:  # some gateways answer 200 and put the error inside
            said = inside.get("message") if isinstance(inside, Mapping) else inside
            raise TransientError(f"an error instead of an answer: {words(said, self.clean)}")
        try:
            choice = answer.choices[0]
            message, reason = choice.message, choice.finish_reason
            refusal = getattr(message, "refusal", None)
            text = self.clean(_text(message.content))
        except (AttributeError, IndexError, TypeError, KeyError) as error:
            raise TransientError(NOT_A_COMPLETION, billed=True) from error
        usage = self.usage(getattr(answer, "usage", None), highest, wrote=bool(text.strip()))
        if refusal:
            return _failed(f"the model refused: {words(refusal, self.clean)}", usage)
        if reason == "content_filter":
            return _failed("the server's content filter stopped the answer", usage)
        tokens = self._tokens(choice) if request.top_logprobs else ()
        if reason == "length":
            return Completion(text, finish="length", enforced=enforced, tokens=tokens, usage=usage)
        if not text.strip() and not request.accept_truncated:
            return _failed("an empty answer", usage)
        return Completion(text, enforced=enforced, tokens=tokens, usage=usage)

    def usage(self, told: Any, highest: Usage, *, wrote: bool = False) -> Usage:
        """The tokens that a server tells, with their price; none where they cannot be true (none
        for an answer that it ``wrote``), and then the price of ``highest``."""
        usage = read_usage(told)
        if usage is not None and (usage.output or not wrote):
            return replace(usage, money=self.price(usage))
        money = self.price(highest)
        if not self.told:
            self.told = True
            counted = "" if money is None else ": answers count at their highest price"
            logger.warning("the server tells no believable number of tokens%s", counted)
        return Usage(money=money)

    def _tokens(self, choice: Any) -> tuple[TokenChoice, ...]:
        """The tokens with their alternatives; none where one is no token with a log-probability."""
        content = getattr(getattr(choice, "logprobs", None), "content", None)
        tokens = [_token(each) for each in content] if isinstance(content, list) else []
        known = tuple(token for token in tokens if token is not None)
        whole = "".join(token.text for token in known)
        return known if len(known) == len(tokens) and self.clean(whole) == whole else ()


def _text(content: Any) -> str:
    """A message's text, also where it comes in parts. Raises TypeError for anything else."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError(f"content is a {type(content).__name__}")
    parts = [part for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
    said = [part["text"] for part in parts]
    if not all(isinstance(text, str) for text in said) or (content and not said):
        raise TypeError("content has parts without text")
    return "".join(said)


def _failed(reason: str, usage: Usage) -> Completion:
    return Completion("", finish="failed", failure=reason, usage=usage)


def read_usage(told: Any) -> Usage | None:
    """The numbers of tokens that ``told`` states; None where some are absent, negative or no whole
    numbers, or where a prompt would have taken no token."""
    if told is None:
        return None
    read, written = _part(told, "prompt_tokens_details"), _part(told, "completion_tokens_details")
    amounts = [
        _part(told, "prompt_tokens"),
        _part(told, "completion_tokens"),
        _part(read, "cached_tokens") or 0,
        _part(written, "reasoning_tokens") or 0,
    ]
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in amounts):
        return None
    given, output, cached, reasoning = amounts
    if given == 0 or cached > given:
        return None
    # Some servers count the reasoning in the total only; it is paid for as output.
    total = _part(told, "total_tokens")
    beside = total - given if isinstance(total, int) and not isinstance(total, bool) else 0
    return Usage(given, cached, max(output, reasoning, beside), reasoning)


def _part(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _token(told: Any) -> TokenChoice | None:
    """One token of an answer. Its alternatives are empty where the server reports none beside the
    token itself: it would pass for a certain one."""
    text, logprob = _part(told, "token"), read_logprob(_part(told, "logprob"))
    listed = _part(told, "top_logprobs")
    if not isinstance(text, str) or logprob is None or not isinstance(listed, list | None):
        return None
    others: dict[str, float] = {}
    for each in listed or ():
        name, value = _part(each, "token"), read_logprob(_part(each, "logprob"))
        if not isinstance(name, str) or value is None:
            return None
        others[name] = value
    others[text] = logprob
    return TokenChoice(text, logprob, others if len(others) > 1 else {})


def read_logprob(value: Any) -> float | None:
    """A natural-log probability; None for what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(float(value), 0.0) if math.isfinite(value) and value <= ROUNDING else None
