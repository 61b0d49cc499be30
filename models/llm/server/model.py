"""Any server that speaks OpenAI's protocol: a provider's, vLLM's, llama.cpp's, one of one's own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.llm.cache import collect
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
from medal_judges.models.llm.server.background import run
from medal_judges.models.llm.server.likelihood import ServerError, likelihoods, load_template
from medal_judges.models.llm.server.prices import Estimate, PriceFile
from medal_judges.models.llm.server.rates import RateGate
from medal_judges.models.llm.server.retrying import (
    PermanentError,
    TransientError,
    map_error,
    with_retries,
)
from medal_judges.models.llm.server.secrecy import NO_KEY, cleaner
from medal_judges.models.llm.server.served import ask_identity
from medal_judges.models.llm.server.spending import BudgetExceeded, CostLimiter
from medal_judges.models.llm.server.stopping import ServerStopError, address_of, stop_error
from medal_judges.models.llm.server.wire import REASONING_TOKENS, SHORT, Accepted, chat_body
from medal_judges.models.llm.server.wire_answer import AnswerReader
from medal_judges.models.llm.token_estimate import prompt_tokens_above

logger = logging.getLogger(__name__)

T = TypeVar("T")
OnAnswer = Callable[[int, Completion], None]


class RemoteModel(LanguageModel):
    """The client. ``chat_each`` hands each answer on as it arrives; ``chat`` collects them."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None,
        key: str | None,
        prices: PriceFile,
        key_variable: str = "OPENAI_API_KEY",
        max_in_flight: int = 8,
        timeout: float = 120.0,
        attempts: int = 6,
        longest_wait: float = 60.0,
        max_cost: float | None = None,
        reasoning: bool = False,
        reasoning_effort: str | None = None,
        context: int = 128_000,
        tokenizer: str | None = None,
    ) -> None:
        self.model, self.context = model, context
        self.name = f"openai/{Path(model).name if model.startswith(('/', '.')) else model}"
        self.base_url, self.timeout, self.effort = base_url, timeout, reasoning_effort
        self.reasoning = reasoning or reasoning_effort not in (None, "none")
        self.max_in_flight, self.attempts, self.longest_wait = max_in_flight, attempts, longest_wait
        self.price = prices.find(model, base_url)
        self.batch_discount = prices.batch_discount
        if max_cost is not None and self.price is None:
            raise ConfigError(
                f"no price of {model} at this server is known, so max_cost could not be kept",
                hint="give a file of prices with llm.prices=PATH (configs/prices.yaml is the form)",
            )
        self.limiter = CostLimiter(max_cost)
        self.accepted = Accepted()  # as far as its refusals have told
        self.template = load_template(tokenizer) if tokenizer else None
        self._secret, self.key_variable = key, key_variable
        self.clean = cleaner(key)
        self.reader = AnswerReader(self.clean, self.cost)
        self._gate = RateGate()

    def fingerprint(self) -> Mapping[str, str]:
        """The model's name is the server's to say; ``likelihood``: how its prompts are rendered."""
        own = {"backend": "openai", "reasoning": str(self.reasoning)}
        if self.effort is not None:
            own["reasoning_effort"] = self.effort
        if self.template is None:
            return own | {"likelihood": "transcript"}
        return own | {"likelihood": "template", **self.template.fingerprint()}

    def served_identity(self) -> str | None:
        """See LanguageModel; a provider's own models have their version in the name."""
        return None if self.base_url is None else run(self._identity())

    async def _identity(self) -> str | None:
        async with self._client() as client:
            try:
                return await ask_identity(client, self.model)
            except Exception as error:
                raise ServerError(f"{self.name}: {self.mapped(error)}") from None

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """By the tokenizer where one was named, else an estimate from above."""
        if self.template is not None:
            return len(self.template.prefix(messages, "assistant"))
        return prompt_tokens_above(messages)

    # -- money ------------------------------------------------------------------------------

    def highest_usage(self, request: ChatRequest) -> Usage:
        """The most tokens that a request can take."""
        return Usage(input=self.count_tokens(request.messages), output=self.limit(request))

    def limit(self, request: ChatRequest) -> int:
        """Output tokens asked for: a reasoning model's thinking counts as output."""
        return max(request.max_tokens, REASONING_TOKENS) if self.reasoning else request.max_tokens

    def longer(self, request: ChatRequest) -> int | None:
        """The limit with which an answer that was cut is asked for again; None where a cut was
        meant, or where no more fits the window."""
        if request.accept_truncated:
            return None
        limit = self.limit(request)
        room = min(2 * limit, self.context - self.count_tokens(request.messages))
        return room if limit > SHORT and room > limit else None

    def cost(self, usage: Usage) -> float | None:
        """US dollars, None where the price is not known."""
        return None if self.price is None else self.price.of(usage)

    def estimate(self, requests: Sequence[ChatRequest]) -> Estimate:
        """What ``requests`` can take at most, without sending anything."""
        usages = [self.highest_usage(request) for request in requests]
        total = Usage(input=sum(u.input for u in usages), output=sum(u.output for u in usages))
        again = [
            replace(usage, output=self.longer(request) or 0)
            for usage, request in zip(usages, requests, strict=True)
            if self.longer(request)
        ]
        money = self.cost(total)
        more = sum(self.cost(usage) or 0.0 for usage in again)
        return Estimate(
            requests=len(requests),
            input=total.input,
            output=total.output,
            money=money,
            longer=None if money is None else money + more,
        )

    # -- chat -------------------------------------------------------------------------------

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """See LanguageModel."""
        return collect(self.chat_each, requests)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Ask all, a bounded number at a time; ``on_answer(index, completion)`` as each arrives.

        Raises ConfigError when the server refuses the key or does not know the model, and
        CostLimitError where the limit of cost would be passed, once what is under way is in.
        """
        if any(request.prefill for request in requests):
            raise ConfigError("a server cannot be given the beginning of its answer (prefill)")
        if requests:
            run(self._all(requests, on_answer))

    async def _all(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        self.limiter.fresh_loop()
        waiting = iter(enumerate(requests))
        done = 0
        stopped: list[Exception] = []
        async with self._client() as client:

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

            workers = [asyncio.create_task(worker()) for _ in range(self.max_in_flight)]
            try:
                await asyncio.gather(*workers)
            finally:
                for each in workers:
                    each.cancel()
        if stopped and isinstance(stopped[0], BudgetExceeded):
            raise self.limiter.error(done, len(requests))
        if stopped:
            raise stopped[0]

    def _client(self) -> Any:
        from openai import AsyncOpenAI

        if self._secret is None:  # told now: an estimate and kept answers need none
            name = self.key_variable
            raise NotAvailableError(f"no key in {name}", hint=f"export {name}=...")
        # Retries are ours: they know about rates, money and what a failure means.
        return AsyncOpenAI(
            api_key=self._secret, base_url=self.base_url, timeout=self.timeout, max_retries=0
        )

    async def _answer(self, client: Any, request: ChatRequest) -> Completion:
        """An answer that was cut is asked for once more with twice the room."""
        limit = self.limit(request)
        first = await self._timed(client, request, limit)
        if request.accept_truncated:
            return first
        longer = self.longer(request)
        if first.finish != "length" or longer is None:
            return _cut(first, limit)
        try:
            again = await self._timed(client, request, longer)
        except BudgetExceeded:
            reason = f"cut at {limit} tokens, and the limit of cost leaves no room for a longer one"
            return replace(first, finish="failed", failure=reason, transient=True)
        both = _added(first.usage, again.usage)
        if again.finish == "failed":
            reason = f"cut at {limit} tokens; with {longer}: {again.failure}"
            return replace(again, failure=reason, usage=both)
        return _cut(replace(again, usage=both), longer)

    async def _timed(self, client: Any, request: ChatRequest, limit: int) -> Completion:
        start = time.perf_counter()
        try:
            completion = await self.retried(lambda: self._once(client, request, limit))
        except (TransientError, PermanentError) as error:
            passes = isinstance(error, TransientError)
            usage = Usage(money=self.cost(Usage()))
            completion = Completion(
                "", finish="failed", failure=str(error), usage=usage, transient=passes
            )
        seconds = time.perf_counter() - start
        return replace(completion, usage=replace(completion.usage, seconds=seconds))

    async def retried(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """``call()`` with this model's retries, see with_retries."""
        return await with_retries(
            call, self._gate, attempts=self.attempts, longest_wait=self.longest_wait
        )

    async def _once(self, client: Any, request: ChatRequest, limit: int) -> Completion:
        while True:
            body = self.body(request, limit, self.accepted)
            # A server that keeps to such keys answers a request that is sent again from its store.
            asked = chat_key(model_key(self), replace(request, max_tokens=limit))
            headers = {"Idempotency-Key": "-".join([asked, *self.accepted.tags()])}
            highest = Usage(input=self.count_tokens(request.messages), output=limit)

            async def send(
                body: Any = body, headers: Any = headers, most: Usage = highest
            ) -> Completion:
                create = client.chat.completions.with_raw_response.create
                raw = await create(**body, extra_headers=headers)
                self._gate.observe(raw.headers, most.input)
                enforced = "response_format" in body
                return self.reader.read(raw.parse(), request, enforced=enforced, highest=most)

            try:
                return await self.paid(send, highest, lambda completion: completion.usage)
            except PermanentError as failure:
                known = self.accepted.tags()
                refused = self.accepted.learn(failure, body)
                if refused is None:
                    raise self.stop_error(failure) or failure from None
                if self.accepted.tags() != known:
                    logger.warning("%s refuses %s: asked without from here on", self.name, refused)

    def body(self, request: ChatRequest, limit: int, accepted: Accepted) -> dict[str, Any]:
        """What is sent for ``request``, whose answer may have ``limit`` tokens."""
        return chat_body(
            self.model, request, limit, accepted, reasoning=self.reasoning, effort=self.effort
        )

    def stop_error(self, failure: PermanentError) -> ServerStopError | None:
        """What ends the run, where ``failure`` says that nothing else would be answered either."""
        has_key = self._secret not in (None, NO_KEY)
        return stop_error(failure, self.name, self.base_url, self.key_variable, has_key=has_key)

    def mapped(self, error: Exception) -> Exception:
        """See map_error."""
        return map_error(error, self.clean, address_of(self.base_url))

    async def paid(
        self,
        send: Callable[[], Coroutine[Any, Any, T]],
        highest: Usage,
        used: Callable[[T], Usage],
    ) -> T:
        """``send()`` within the limits of time and cost; its errors as those of retrying.py.

        An answer that may have been written, and did not arrive, counts at its highest price.
        Raises BudgetExceeded where the limit of cost leaves no room for it.
        """
        most = self.cost(highest) or 0.0
        await self.limiter.take(most)
        price: float | None = most  # until better is known
        try:
            answer = await asyncio.wait_for(send(), self.timeout)
            price = used(answer).money
            return answer
        except (TransientError, PermanentError) as error:
            price = most if getattr(error, "billed", True) else 0.0
            raise
        except Exception as error:
            failure = self.mapped(error)
            price = most if getattr(failure, "billed", False) else 0.0
            raise failure from None  # its cause may quote the request's headers
        finally:
            await self.limiter.pay(most, price)

    # -- likelihood -------------------------------------------------------------------------

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Through the completions endpoint with ``echo``, which vLLM and some others have; see
        api_likelihood.py. Raises ConfigError where the server has none, and ServerError where it
        fails for the time being."""
        found = iter(run(likelihoods(self, [c for group in groups for c in group], joint)))
        return [[next(found) for _ in group] for group in groups]


def _cut(completion: Completion, limit: int) -> Completion:
    """A cut answer with its reason; one without a word is none."""
    if completion.finish != "length" or limit <= SHORT:
        return completion
    reason = f"the answer was cut at its limit of {limit} tokens"
    if completion.text.strip():
        return replace(completion, failure=reason)
    return replace(completion, finish="failed", failure=f"{reason}, before its first word")


def _added(a: Usage, b: Usage) -> Usage:
    money = None if a.money is None or b.money is None else a.money + b.money
    return Usage(
        a.input + b.input,
        a.cached + b.cached,
        a.output + b.output,
        a.reasoning + b.reasoning,
        a.seconds + b.seconds,
        money,
    )
