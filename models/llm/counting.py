"""A language model that counts instead of answering: what a dry run asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medal_judges.errors import ConfigError
from medal_judges.models.llm.answer_store import chat_key, model_key
from medal_judges.models.llm.cost import CostEstimate, Usage
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
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
    """``inner`` that is asked nothing: requests are counted, each once, and fail.

    Answers that are kept already are given back, so that what follows from them is counted too.
    ``likelihoods`` says whether the server can be taken to tell likelihoods; that is found out by
    asking it, which a dry run does not.
    """

    def __init__(self, inner: LanguageModel, *, likelihoods: bool = True) -> None:
        super().__init__(inner)
        self.likelihoods, self.key = likelihoods, model_key(inner)
        self.asked: dict[str, ChatRequest] = {}
        self.known: set[str] = set()
        self.continuations = self.continuation_tokens = 0

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """The kept answers, and failures that say that nothing was sent."""
        for index, request in enumerate(requests):
            on_answer(index, self._counted(request))

    def _counted(self, request: ChatRequest) -> Completion:
        key = chat_key(self.key, request)
        if (kept := self.inner.kept(request)) is not None:
            self.known.add(key)
            return kept
        self.asked.setdefault(key, request)
        return failed(NOT_SENT)

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

    def counted(self) -> CostEstimate:
        """What was counted. Likelihoods are in the requests and in the input."""
        written = self.continuations if self.capabilities.api else 0  # a server writes one token
        more = Usage(input=self.continuation_tokens, output=written)
        total = self.inner.estimate(list(self.asked.values()), more)
        requests = total.requests + self.continuations
        return replace(total, requests=requests, kept=len(self.known))
