"""One model on one server: the client, its rates and prices, and how a failure is treated."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.llm.cost import CostLimiter, PriceFile, Usage, load_prices
from medal_judges.models.llm.local.weights import load_chat_template
from medal_judges.models.llm.protocol import Capabilities, LanguageModel, Message
from medal_judges.models.llm.server.bounded import bounded
from medal_judges.models.llm.server.errors import (
    LONGEST,
    NO_KEY,
    PermanentError,
    RequestError,
    ServerStopError,
    TransientError,
    address_of,
    cleaner,
    duration,
    map_error,
    stop_error,
)
from medal_judges.models.llm.server.wire import AnswerReader
from medal_judges.models.llm.settings import OpenAILLM
from medal_judges.models.llm.truncation import prompt_tokens_above

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from tenacity import RetryCallState

T = TypeVar("T")
logger = logging.getLogger(__name__)


class RateGate:
    """Holds requests back while the server has none, or no tokens, left to give.

    ``observe`` reads x-ratelimit-remaining-{requests,tokens} and their reset times. Where a limit
    is used up, ``wait`` waits until it is set back: asking earlier would only be refused.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.opens = 0.0

    def observe(self, headers: Mapping[str, str], need: int = 1) -> None:
        """``need``: tokens that a next request takes."""
        for kind, wanted in (("requests", 1), ("tokens", need)):
            remaining = headers.get(f"x-ratelimit-remaining-{kind}")
            reset = duration(headers.get(f"x-ratelimit-reset-{kind}"))
            if remaining is None or reset is None or not remaining.isdigit():
                continue
            if int(remaining) < wanted:
                self.hold(reset)

    def hold(self, seconds: float) -> None:
        """Let nothing through for ``seconds``."""
        self.opens = max(self.opens, self.clock() + min(seconds, LONGEST))

    async def wait(self) -> None:
        """Until requests may go out."""
        while (left := self.opens - self.clock()) > 0:
            await asyncio.sleep(left)


class ServedModel(LanguageModel):
    """What chats, likelihoods and batches of one model share. Raises ConfigError for a ``max_cost``
    with a model whose price is not known; without a key ``open`` does."""

    def __init__(self, config: OpenAILLM, prices: PriceFile | None = None) -> None:
        base, model = config.base_url or os.environ.get("OPENAI_BASE_URL"), config.model
        self.config = config.model_copy(update={"base_url": base})
        self.name = f"openai/{Path(model).name if model.startswith(('/', '.')) else model}"
        self.context = config.context
        self.capabilities = Capabilities(api=True, private=self.config.private)
        self._prices = prices = prices or load_prices(config.prices or "prices")
        self.price, self.batch_discount = prices.find(model, base), prices.batch_discount
        if config.max_cost is not None and self.price is None:
            raise ConfigError(
                f"no price of {model} at this server is known, so max_cost could not be kept",
                hint="give a file of prices with llm.prices=PATH (configs/prices.yaml is the form)",
            )
        self._limiter = CostLimiter(config.max_cost)
        self.template = load_chat_template(config.tokenizer) if config.tokenizer else None
        self.gate = RateGate()
        self.echo_tested = False  # see likelihood.py
        # Servers of one's own ask for no key, the client wants one.
        self._secret = os.environ.get(config.api_key_env) or (NO_KEY if base else None)
        self.clean = cleaner(self._secret)
        self.reader = AnswerReader(self.clean, self.cost)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process reads the key from its own environment: none is sent."""
        return type(self), (self.config, self._prices), {"_limiter": self._limiter}

    @property
    def limiter(self) -> CostLimiter:
        return self._limiter

    def spend_from(self, limiter: CostLimiter) -> None:
        self._limiter = limiter

    def open(self) -> AsyncOpenAI:
        """A client, to be closed by the caller. Raises NotAvailableError where there is no key."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        if self._secret is None:  # told now: an estimate and kept answers need none
            name = self.config.api_key_env
            raise NotAvailableError(f"no key in {name}", hint=f"export {name}=...")
        # Retries are ours: they know about rates, money and what a failure means.
        return AsyncOpenAI(
            api_key=self._secret,
            base_url=self.config.base_url,
            timeout=self.config.timeout,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(
                follow_redirects=False,  # dialogues and key go to the address that the user gave
                headers={"Accept-Encoding": "identity"},
                event_hooks={"response": [bounded]},
            ),
        )

    def cost(self, usage: Usage) -> float | None:
        return None if self.price is None else self.price.of(usage)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """By the tokenizer where one was named, else an estimate from above."""
        if self.template is not None:
            return len(self.template.prefix(messages, "assistant"))
        return prompt_tokens_above(messages)

    async def call(
        self,
        send: Callable[[], Awaitable[T]],
        highest: Usage | None = None,
        used: Callable[[T], Usage] | None = None,
    ) -> T:
        """``send()``, again after a TransientError: full-jitter back-off, never sooner than asked
        for. Raises the last TransientError after ``attempts`` tries, and PermanentError at once.

        With ``highest``, the most that the answer can take, it is held to the limits of time and
        cost, and pays for what it ``used``: at its highest price where it may have been written and
        did not arrive. Raises BudgetExceeded where the limit of cost leaves no room for it.
        """
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

        most = None if highest is None else self.cost(highest) or 0.0
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(self.config.attempts),
            wait=self._wait,
            reraise=True,
        ):
            with attempt:
                await self.gate.wait()
                if most is not None:
                    await self._limiter.take(most)
                price = most  # until better is known
                try:
                    limit = None if most is None else self.config.timeout
                    answer = await asyncio.wait_for(send(), limit)
                    price = used(answer).money if used is not None else None
                    return answer
                except Exception as error:
                    failure = self.mapped(error)
                    if not (isinstance(failure, RequestError) and failure.billed):
                        price = 0.0
                    raise failure from None  # its cause may quote the request's headers
                finally:
                    if most is not None:
                        self._limiter.pay(most, price)
        raise AssertionError("AsyncRetrying returns or raises")

    def _wait(self, state: RetryCallState) -> float:
        """Seconds until the next try."""
        from tenacity import wait_random_exponential

        jitter = wait_random_exponential(multiplier=0.5, max=self.config.longest_wait)
        error = state.outcome.exception() if state.outcome else None
        logger.debug("try %d failed: %s", state.attempt_number, error)
        asked = error.after if isinstance(error, TransientError) else None
        if asked is not None:
            self.gate.hold(asked)  # the limit is everybody's, not this request's alone
        return float(max(jitter(state), asked or 0.0))

    def mapped(self, error: Exception) -> Exception:
        """See map_error."""
        return map_error(error, self.clean, address_of(self.config.base_url))

    def stop_error(self, failure: PermanentError) -> ServerStopError | None:
        """What ends the run, where ``failure`` says that nothing else would be answered either."""
        return stop_error(
            failure,
            self.name,
            address_of(self.config.base_url),
            self.config.api_key_env,
            has_key=self._secret not in (None, NO_KEY),
        )


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end, from any thread, also from inside a running loop (a notebook): on a
    thread of its own then, where an interrupt (Ctrl-C) ends it too."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()

    async def told() -> T:
        task = asyncio.ensure_future(work)
        started.set_result((asyncio.get_running_loop(), task))
        return await task

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(asyncio.run, told())
        try:
            return done.result()
        except KeyboardInterrupt:
            loop, task = started.result()
            loop.call_soon_threadsafe(task.cancel)
            raise
