"""A language model that counts requests instead of answering them, for a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medal_judges.errors import ConfigError
from medal_judges.models.llm.cache import chat_key, model_key
from medal_judges.models.llm.cost import CostEstimate, Usage
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    OnAnswer,
    Wrapper,
    failed,
)

NOT_SENT = "a dry run: nothing was sent"


class CountingModel(Wrapper):
    """Counts each distinct request to ``inner`` once and answers with a failure.

    Cached answers are returned, so that requests that depend on them are counted too.
    ``likelihoods`` says whether to assume that the server returns likelihoods.
    """

    def __init__(self, inner: LanguageModel, *, likelihoods: bool = True) -> None:
        super().__init__(inner)
        self.likelihoods, self.key = likelihoods, model_key(inner)
        self.asked: dict[str, ChatRequest] = {}
        self.known: set[str] = set()
        self.continuations = self.continuation_tokens = 0

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Cached answers, and failures for the rest."""
        for index, request in enumerate(requests):
            key, cached = chat_key(self.key, request), self.inner.kept(request)
            if cached is not None:
                self.known.add(key)
            else:
                self.asked.setdefault(key, request)
            on_answer(index, cached or failed(NOT_SENT))

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Placeholders of one token each. Raises ConfigError if the server returns none."""
        if not self.likelihoods:
            raise ConfigError(f"{self.name} does not return log-probabilities")
        for each in (each for group in groups for each in group):
            turn = Message(each.role, f"{each.prefill} {each.text}")
            self.continuations += 1
            self.continuation_tokens += self.inner.count_tokens([*each.messages, turn])
        return [[Likelihood((-1.0,), -1.0 if joint else None) for _ in g] for g in groups]

    def counted(self) -> CostEstimate:
        """The estimate for all counted requests, likelihoods among them."""
        written = self.continuations if self.capabilities.api else 0  # a server writes one token
        more = Usage(input=self.continuation_tokens, output=written)
        total = self.inner.estimate(list(self.asked.values()), more)
        requests = total.requests + self.continuations
        return replace(total, requests=requests, kept=len(self.known))
