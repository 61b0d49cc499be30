"""Any server that speaks OpenAI's protocol: a provider's, vLLM's, llama.cpp's, one of one's own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError
from medal_judges.models.llm.answer_store import chat_key, model_key
from medal_judges.models.llm.cost import (
    BudgetExceeded,
    CostEstimate,
    PriceFile,
    Usage,
)
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
from medal_judges.models.llm.server.errors import PermanentError, ServerError, TransientError
from medal_judges.models.llm.server.likelihood import likelihoods
from medal_judges.models.llm.server.wire import SHORT, Accepted, chat_body, identity_in
from medal_judges.models.llm.settings import OpenAILLM

if TYPE_CHECKING:
    from openai import AsyncOpenAI

logger = logging.getLogger(__name__)

REASONING_TOKENS = 32_768  # MEDAL, section 5.3.1
PATIENCE = 10.0  # seconds that a server may take to say what it serves


class RemoteModel(ServedModel):
    """The client. ``chat_each`` hands each answer on as it arrives; ``chat`` collects them."""

    def __init__(self, config: OpenAILLM, prices: PriceFile | None = None) -> None:
        super().__init__(config, prices)
        self.accepted = Accepted()  # as far as the server's refusals have told

    def fingerprint(self) -> Mapping[str, str]:
        """The model's name is the server's to say; ``likelihood``: how its prompts are rendered."""
        own = {"backend": "openai", "reasoning": str(self.config.thinks)}
        if self.config.reasoning_effort is not None:
            own["reasoning_effort"] = self.config.reasoning_effort
        if self.template is None:
            return own | {"likelihood": "transcript"}
        return own | {"likelihood": "template", **self.template.fingerprint()}

    def served_identity(self) -> str | None:
        """See LanguageModel; a provider's own models have their version in the name."""
        return None if self.config.base_url is None else run(self._identity())

    async def _identity(self) -> str | None:
        import openai

        async with self.open() as client:
            try:
                raw = await client.models.with_raw_response.list(timeout=PATIENCE)
                return identity_in(raw.http_response.json(), self.config.model)
            except ValueError:
                return None  # it has no such list
            except Exception as error:
                # A wrong key is told when something is asked.
                if isinstance(error, openai.APIStatusError) and error.status_code < 500:
                    return None
                mapped = self.mapped(error)
                raise ServerError(f"{self.name}: {mapped}") from None

    # -- limits and money ---------------------------------------------------------------------

    def limit(self, request: ChatRequest) -> int:
        """Output tokens asked for: a reasoning model's thinking counts as output."""
        asked = request.max_tokens
        return max(asked, REASONING_TOKENS) if self.config.thinks else asked

    def longer(self, request: ChatRequest) -> int | None:
        """The limit with which an answer that was cut is asked for again; None where a cut was
        meant, or where no more fits the window."""
        if request.accept_truncated:
            return None
        limit = self.limit(request)
        fits = min(2 * limit, self.context - self.count_tokens(request.messages))
        return fits if limit > SHORT and fits > limit else None

    def highest(self, request: ChatRequest, limit: int) -> Usage:
        """The most tokens that a request can take whose answer may have ``limit``."""
        return Usage(input=self.count_tokens(request.messages), output=limit)

    def estimate(
        self, requests: Sequence[ChatRequest], likelihoods: Usage | None = None
    ) -> CostEstimate:
        total = likelihoods or Usage(money=None)
        more = 0.0
        for request in requests:
            total += self.highest(request, self.limit(request))
            if longer := self.longer(request):
                more += self.cost(self.highest(request, longer)) or 0.0
        money = self.cost(total)
        return CostEstimate(
            requests=len(requests),
            input=total.input,
            output=total.output,
            money=money,
            longer=None if money is None else money + more,
        )

    # -- chat -------------------------------------------------------------------------------

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        return collect(self.chat_each, requests)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Ask all, a bounded number at a time; ``on_answer(index, completion)`` as each arrives.

        Raises ConfigError when the server refuses the key or does not know the model, and
        CostLimitError where the limit of cost would be passed, once what is under way is in.
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
                        stopped.append(error)  # the others' answers under way are paid: let them in
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
        """An answer that was cut is asked for once more with twice the limit."""
        limit, longer = self.limit(request), self.longer(request)
        first = await self._ask(client, request, limit)
        if request.accept_truncated:
            return first
        if first.finish != "length" or longer is None:
            return marked_cut(first, limit)
        try:
            again = await self._ask(client, request, longer)
        except BudgetExceeded:
            reason = f"cut at {limit} tokens, and the limit of cost does not allow a longer one"
            return replace(first, finish="failed", failure=reason, transient=True)
        both = first.usage + again.usage
        if again.finish == "failed":
            reason = f"cut at {limit} tokens; with {longer}: {again.failure}"
            return replace(again, failure=reason, usage=both)
        return marked_cut(replace(again, usage=both), longer)

    async def _ask(self, client: AsyncOpenAI, request: ChatRequest, limit: int) -> Completion:
        """The answer of at most ``limit`` tokens, without the fields that the server refuses; what
        it does not answer is a failed completion."""
        start = time.perf_counter()
        highest, free = self.highest(request, limit), Usage(money=self.cost(Usage()))
        while True:
            body, known = (
                chat_body(self.config, request, limit, self.accepted),
                self.accepted.tags(),
            )
            send = partial(self._send, client, replace(request, max_tokens=limit), body, highest)
            try:
                done = await self.call(send, highest, lambda answer: answer.usage)
                break
            except TransientError as error:
                done = failed(str(error), free, transient=True)
                break
            except PermanentError as failure:
                refused = self.accepted.learn(failure, body)
                if refused is None:
                    if stopped := self.stop_error(failure):
                        raise stopped from None
                    done = failed(str(failure), free)
                    break
                if self.accepted.tags() != known:
                    logger.warning("%s refuses %s: asked without from here on", self.name, refused)
        return done.with_usage(seconds=time.perf_counter() - start)

    async def _send(
        self, client: AsyncOpenAI, request: ChatRequest, body: dict[str, Any], highest: Usage
    ) -> Completion:
        # A server that keeps to such keys answers a request that is sent again from its store.
        key = "-".join([chat_key(model_key(self), request), *self.accepted.tags()])
        raw = await client.chat.completions.with_raw_response.create(
            **body, extra_headers={"Idempotency-Key": key}
        )
        self.gate.observe(raw.headers, highest.input)
        answer, enforced = raw.http_response.json(), "response_format" in body
        return self.reader.read(answer, request, enforced=enforced, highest=highest)

    # -- likelihood -------------------------------------------------------------------------

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Through the completions endpoint with ``echo``, which vLLM and some others have; see
        likelihood.py. Raises ConfigError where the server has none, and ServerError where it fails
        for the time being."""
        flat = [continuation for group in groups for continuation in group]
        told = iter(run(likelihoods(self, flat, joint)))
        return [[next(told) for _ in group] for group in groups]


def require_no_prefill(requests: Sequence[ChatRequest]) -> None:
    """Raise ConfigError for a request that a server cannot answer."""
    if any(request.prefill for request in requests):
        raise ConfigError("a server cannot be given the beginning of its answer (prefill)")


def marked_cut(completion: Completion, limit: int) -> Completion:
    """A cut answer with its reason; one without a word is none."""
    if completion.finish != "length" or limit <= SHORT:
        return completion
    reason = f"the answer was cut at its limit of {limit} tokens"
    if completion.text.strip():
        return replace(completion, failure=reason)
    return replace(completion, finish="failed", failure=f"{reason}, before its first word")
