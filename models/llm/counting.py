"""A language model that counts instead of answering: what a dry run asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.errors import ConfigError
from medal_judges.models.llm.batched import asks_in_batches
from medal_judges.models.llm.cache import CachedModel, marked_from_cache
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    Usage,
)
from medal_judges.models.llm.request_key import chat_key, model_key
from medal_judges.models.llm.server.prices import Estimate

NOT_SENT = "a dry run: nothing was sent"


class CountingModel(LanguageModel):
    """``inner`` that is asked nothing: requests are counted, each once, and fail.

    Answers that are kept already are given back, so that what follows from them is counted too.
    ``likelihoods`` says whether the server can be taken to tell likelihoods; that is found out by
    asking it, which a dry run does not.
    """

    def __init__(self, inner: LanguageModel, *, likelihoods: bool = True) -> None:
        self.inner, self.likelihoods = inner, likelihoods
        self.name, self.context, self.key = inner.name, inner.context, model_key(inner)
        self.asked: dict[str, ChatRequest] = {}
        self.kept: set[str] = set()
        self.continuations = 0
        self.continuation_tokens = 0

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """As the inner model counts."""
        return self.inner.count_tokens(messages)

    def fingerprint(self) -> Mapping[str, str]:
        """The inner model's."""
        return self.inner.fingerprint()

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """The kept answers, and failures that say that nothing was sent."""
        return [self._counted(request) for request in requests]

    def _counted(self, request: ChatRequest) -> Completion:
        key = chat_key(self.key, request)
        if isinstance(self.inner, CachedModel) and (kept := self.inner.kept(request)):
            self.kept.add(key)
            return marked_from_cache(kept)
        self.asked.setdefault(key, request)
        return Completion("", finish="failed", failure=NOT_SENT)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Placeholders of one token each. Raises ConfigError where the server tells none."""
        if not self.likelihoods:
            raise ConfigError(f"{self.name} tells no likelihoods")
        for group in groups:
            for each in group:
                self.continuations += 1
                said = Message(each.role, f"{each.prefill} {each.text}")
                self.continuation_tokens += self.inner.count_tokens([*each.messages, said])
        return [[Likelihood((-1.0,), -1.0 if joint else None) for _ in g] for g in groups]

    def estimate(self) -> Estimate:
        """What was counted. Likelihoods are in the requests and in the input."""
        remote = remote_of(self.inner)
        requests = list(self.asked.values())
        if remote is None:
            read = sum(self.count_tokens(request.messages) for request in requests)
            written = sum(request.max_tokens for request in requests)
            counted = Estimate(requests=len(requests), input=read, output=written)
        else:
            counted = self._by_batch(remote, remote.estimate(requests))
        more = self._likelihood_cost(remote)
        return replace(
            counted,
            requests=counted.requests + self.continuations,
            kept=len(self.kept),
            input=counted.input + self.continuation_tokens,
            output=counted.output + self.continuations * (remote is not None),
            money=None if counted.money is None else counted.money + more,
            longer=None if counted.longer is None else counted.longer + more,
        )

    def _by_batch(self, remote: Any, found: Estimate) -> Estimate:
        """``found`` less what a batch saves, where the requests go through the batch API."""
        if found.money is None or found.longer is None or not asks_in_batches(self.inner):
            return found
        paid = 1 - remote.batch_discount
        return replace(found, money=found.money * paid, longer=found.longer * paid)

    def _likelihood_cost(self, remote: Any) -> float:
        if remote is None:
            return 0.0
        usage = Usage(input=self.continuation_tokens, output=self.continuations)
        return float(remote.cost(usage) or 0.0)


def remote_of(llm: LanguageModel) -> Any:
    """The model behind a server that ``llm`` is or stands before; None for a local one."""
    found: Any = llm
    while not hasattr(found, "estimate"):  # a cache or a batch stands before it
        found = getattr(found, "inner", None) or getattr(found, "remote", None)
        if found is None:
            return None
    return found
