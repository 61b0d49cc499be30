"""A model on any server that speaks OpenAI's protocol: a provider's, vLLM's, llama.cpp's, ..."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError
from medal_judges.models.llm.cache import chat_key, model_key
from medal_judges.models.llm.cost import BudgetExceeded, Usage
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    Likelihood,
    OnAnswer,
    collect,
    failed,
)
from medal_judges.models.llm.server.connection import ServedModel, run
from medal_judges.models.llm.server.errors import RequestError
from medal_judges.models.llm.server.likelihood import likelihoods
from medal_judges.models.llm.server.wire import refused_field

if TYPE_CHECKING:
    from openai import AsyncOpenAI

logger = logging.getLogger(__name__)


class RemoteModel(ServedModel):
    """Sends chats and continuations to the server."""

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        return collect(self.chat_each, requests)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """See LanguageModel; at most ``max_in_flight`` requests run at a time.

        Raises ConfigError if the server refuses the key or does not know the model, and
        CostLimitError at the limit of cost, once the running requests are finished.
        """
        require_no_prefill(requests)
        if requests:
            run(self._all(requests, on_answer))

    async def _all(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        waiting = iter(enumerate(requests))
        done = 0
        stopped: list[Exception] = []
        async with self.open() as client:

            async def worker() -> None:
                nonlocal done
                for i, request in waiting:
                    if stopped:
                        return
                    try:
                        completion = await self._answer(client, request)
                    except (BudgetExceeded, ConfigError) as error:
                        stopped.append(error)  # the others' running requests are paid: finish them
                        return
                    on_answer(i, completion)
                    done += 1

            workers = [asyncio.create_task(worker()) for _ in range(self.config.max_in_flight)]
            try:
                await asyncio.gather(*workers)
            finally:
                for each in workers:
                    each.cancel()
        if stopped and isinstance(stopped[0], BudgetExceeded):
            raise self.limiter.error(done, len(requests))
        if stopped:
            raise stopped[0]

    async def _answer(self, client: AsyncOpenAI, request: ChatRequest) -> Completion:
        """The answer, or a failed completion. A field that the server refuses is left out from then
        on."""
        start = time.perf_counter()
        while True:
            dropped, alternatives, body = self.dropped, self.alternatives, self.body(request)
            # Some servers answer a repeated request with the same key from their store.
            key = chat_key(model_key(self), replace(request, max_tokens=self.limit(request)))
            headers = {"Idempotency-Key": "-".join([key, *sorted(dropped), f"top{alternatives}"])}

            async def send(
                body: dict[str, Any] = body, headers: dict[str, str] = headers
            ) -> Completion:
                chat = client.chat.completions.with_raw_response
                raw = await chat.create(**body, extra_headers=headers)
                return self.read(raw.http_response.json(), request, body)

            try:
                done = await self.call(send, self.highest(request), lambda answer: answer.usage)
                break
            except RequestError as failure:
                refused = None if failure.transient else refused_field(failure, body)
                if refused is None:
                    if not failure.transient and (stopped := self.stop_error(failure)):
                        raise stopped from None
                    free = Usage(money=self.cost(Usage()))
                    done = failed(str(failure), free, transient=failure.transient)
                    break
                if isinstance(refused, int):
                    self.alternatives = min(self.alternatives, refused)
                else:
                    self.dropped |= {refused}
                if (self.dropped, self.alternatives) != (dropped, alternatives):
                    what = f"over {refused} top_logprobs" if isinstance(refused, int) else refused
                    logger.warning("%s refuses %s, which is left out from now on", self.name, what)
        return done.with_usage(seconds=time.perf_counter() - start)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Through a completions endpoint with ``echo``, see likelihood.py. Raises ConfigError if
        the server has none, ServerError if it fails for now."""
        flat = [continuation for group in groups for continuation in group]
        found = iter(run(likelihoods(self, flat, joint)))
        return [[next(found) for _ in group] for group in groups]


def require_no_prefill(requests: Sequence[ChatRequest]) -> None:
    """Raise ConfigError for a request with prefill."""
    if any(request.prefill for request in requests):
        raise ConfigError("a server does not support prefill")
