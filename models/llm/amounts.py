"""What requests took, added up as ``Judgement.usage`` has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    LanguageModel,
    Likelihood,
    Message,
    Usage,
)


def usage_of(llm: LanguageModel, request: ChatRequest, completion: Completion) -> Usage:
    """The completion's usage; where a server told none, the tokens of its texts as ``llm`` counts
    or estimates them, so that such a judge does not look free."""
    usage = completion.usage
    if completion.finish == "failed" or usage.input or usage.output:
        return usage
    read = llm.count_tokens(request.messages)
    both = llm.count_tokens((*request.messages, Message("assistant", completion.text)))
    return replace(usage, input=read, output=max(0, both - read))


def likelihood_usage(prompt: int, likelihoods: Iterable[Likelihood]) -> Usage:
    """A prompt of ``prompt`` tokens that is read once, and all texts whose likelihood it is asked
    for."""
    return Usage(input=prompt + sum(len(each.logprobs) for each in likelihoods))


def add_usage(amounts: dict[str, float], usage: Usage) -> None:
    """Add ``usage`` to ``amounts``."""
    record = {"tokens": float(usage.input + usage.output)} | usage.to_record()
    for key, value in record.items():
        amounts[key] = amounts.get(key, 0.0) + value


def spent(usages: Iterable[Usage]) -> dict[str, float]:
    """What the requests took together."""
    total: dict[str, float] = {}
    for usage in usages:
        add_usage(total, usage)
    return total
