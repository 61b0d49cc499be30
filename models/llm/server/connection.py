"""One model on one server: client, limits, prices, and retries."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.llm.cost import (
    CostEstimate,
    CostLimiter,
    PriceFile,
    Usage,
    load_prices,
)
from medal_judges.models.llm.local.weights import load_chat_template
from medal_judges.models.llm.protocol import (
    Capabilities,
    ChatRequest,
    Completion,
    LanguageModel,
    Message,
)
from medal_judges.models.llm.server.errors import (
    NO_KEY,
    RequestError,
    ServerError,
    ServerStopError,
    address_of,
    cleaner,
    map_error,
    stop_error,
)
from medal_judges.models.llm.server.wire import (
    MOST_ALTERNATIVES,
    SHORT,
    chat_body,
    identity_in,
    read_answer,
)
from medal_judges.models.llm.settings import OpenAILLM
from medal_judges.models.llm.truncation import prompt_tokens_above

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from tenacity import RetryCallState

T = TypeVar("T")
logger = logging.getLogger(__name__)

REASONING_TOKENS = 32_768  # MEDAL, section 5.3.1
PATIENCE = 5.0  # seconds for a server to list its models


class ServedModel(LanguageModel):
    """What chats, likelihoods and batches of one model share. Raises ConfigError for a ``max_cost``
    if the price is unknown; a missing key is an error at the first request only."""

    def __init__(self, config: OpenAILLM, prices: PriceFile | None = None) -> None:
        base, model = config.base_url or os.environ.get("OPENAI_BASE_URL"), config.model
        self.config = config.model_copy(update={"base_url": base})
        self.name = f"openai/{Path(model).name if model.startswith(('/', '.')) else model}"
        self.context = config.context
        self.capabilities = Capabilities(api=True, private=self.config.private)
        self._prices = prices = prices or load_prices(config.prices or "prices")
        self.price = prices.find(model, base)
        if config.max_cost is not None and self.price is None:
            raise ConfigError(
                f"the price of {model} on this server is unknown, so max_cost cannot be enforced",
                hint="give a price file with llm.prices=PATH (configs/prices.yaml shows the form)",
            )
        self._limiter = CostLimiter(config.max_cost)
        self.template = load_chat_template(config.tokenizer) if config.tokenizer else None
        self.address = address_of(base)
        self.echo_tested = False  # see likelihood.py
        # What the server refused so far: fields, and more alternatives per token than it reports.
        self.dropped: frozenset[str] = frozenset()
        self.alternatives = MOST_ALTERNATIVES
        self._opens = 0.0  # monotonic time before which nothing is sent, after a Retry-After
        # Own servers need no key, the client does.
        self.secret = os.environ.get(config.api_key_env) or (NO_KEY if base else None)
        self.clean = cleaner(self.secret)

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the key: another process reads it from its own environment."""
        return type(self), (self.config, self._prices), {"_limiter": self._limiter}

    def client_settings(self) -> dict[str, Any]:
        """Settings of the openai client. Raises NotAvailableError if there is no key."""
        if self.secret is None:
            name = self.config.api_key_env
            raise NotAvailableError(f"no key in {name}", hint=f"export {name}=...")
        return {"api_key": self.secret, "base_url": self.config.base_url}

    def open(self) -> AsyncOpenAI:
        """A client, for the caller to close. Raises NotAvailableError if there is no key."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        return AsyncOpenAI(
            **self.client_settings(),
            timeout=self.config.timeout,
            max_retries=0,  # ``call`` retries: it knows the limit of cost
            # Dialogues and key go only to the address that the user gave.
            http_client=DefaultAsyncHttpxClient(follow_redirects=False),
        )

    def fingerprint(self) -> Mapping[str, str]:
        own = {"backend": "openai", "reasoning": str(self.config.thinks)}
        if self.config.reasoning_effort is not None:
            own["reasoning_effort"] = self.config.reasoning_effort
        if self.template is None:
            return own | {"likelihood": "transcript"}
        return own | {"likelihood": "template", **self.template.fingerprint()}

    def served_identity(self) -> str | None:
        """See LanguageModel; the names of a provider's own models include their version."""
        return None if self.config.base_url is None else run(self._identity())

    async def _identity(self) -> str | None:
        import openai

        async with self.open() as client:
            try:
                listed = client.models.with_raw_response.list()
                raw = await asyncio.wait_for(listed, PATIENCE)
                return identity_in(raw.http_response.json(), self.config.model)
            except ValueError:
                return None  # it has no such list
            except Exception as error:
                # A wrong key is reported by the first request.
                if isinstance(error, openai.APIStatusError) and error.status_code < 500:
                    return None
                raise ServerError(f"{self.name}: {self.mapped(error)}") from None

    # -- limits and money ---------------------------------------------------------------------

    @property
    def limiter(self) -> CostLimiter:
        return self._limiter

    def spend_from(self, limiter: CostLimiter) -> None:
        self._limiter = limiter

    def cost(self, usage: Usage) -> float | None:
        return None if self.price is None else self.price.of(usage)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """By the tokenizer if the settings name one, else an upper bound."""
        if self.template is not None:
            return len(self.template.prefix(messages, "assistant"))
        return prompt_tokens_above(messages)

    def limit(self, request: ChatRequest) -> int:
        """Output tokens to ask for: a reasoning model's thinking counts as output."""
        tokens = request.max_tokens
        return max(tokens, REASONING_TOKENS) if self.config.thinks else tokens

    def highest(self, request: ChatRequest) -> Usage:
        """The most tokens that a request can take."""
        return Usage(input=self.count_tokens(request.messages), output=self.limit(request))

    def estimate(
        self, requests: Sequence[ChatRequest], likelihoods: Usage | None = None
    ) -> CostEstimate:
        total = likelihoods or Usage(money=None)
        for request in requests:
            total += self.highest(request)
        money = self.cost(total)
        return CostEstimate(len(requests), input=total.input, output=total.output, money=money)

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """The JSON body of a request, without what the server is known to refuse."""
        limit = self.limit(request)
        return chat_body(self.config, request, limit, self.dropped, self.alternatives)

    def read(self, answer: object, request: ChatRequest, body: Mapping[str, Any]) -> Completion:
        """The completion in ``answer`` to ``body``, a truncated one with its reason. Raises
        RequestError if it is no chat completion."""
        completion = read_answer(
            answer,
            request,
            enforced="response_format" in body,
            highest=self.highest(request),
            price=self.cost,
            clean=self.clean,
        )
        limit = self.limit(request)
        # Truncation at a small limit is intended: the judge reads the first tokens only.
        if completion.finish != "length" or limit <= SHORT or request.accept_truncated:
            return completion
        reason = f"the answer was truncated at its limit of {limit} tokens"
        if completion.text.strip():
            return replace(completion, failure=reason)
        return replace(completion, finish="failed", failure=f"{reason}, before its first word")

    # -- one request ----------------------------------------------------------------------------

    async def call(
        self, send: Callable[[], Awaitable[T]], highest: Usage, used: Callable[[T], Usage]
    ) -> T:
        """``send()`` with retries after transient failures: exponential back-off with jitter, never
        sooner than the server's Retry-After.

        Each try is limited in time and reserves the price of ``highest``; it then pays for what it
        ``used``, or the highest price if an answer may have been written but did not arrive. Raises
        the last RequestError, and BudgetExceeded if the limit of cost leaves no room.
        """
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

        most = self.cost(highest) or 0.0
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, RequestError) and e.transient),
            stop=stop_after_attempt(self.config.attempts),
            wait=self._wait,
            reraise=True,
        ):
            with attempt:
                while (left := self._opens - time.monotonic()) > 0:
                    await asyncio.sleep(left)
                await self._limiter.take(most)
                price: float | None = most  # until the real one is known
                try:
                    answer = await asyncio.wait_for(send(), self.config.timeout)
                    price = used(answer).money
                    return answer
                except Exception as error:
                    failure = self.mapped(error)
                    if not (isinstance(failure, RequestError) and failure.billed):
                        price = 0.0
                    raise failure from None  # its cause may quote the request's headers
                finally:
                    self._limiter.pay(most, price)
        raise AssertionError("AsyncRetrying returns or raises")

    def _wait(self, state: RetryCallState) -> float:
        """Seconds until the next try."""
        from tenacity import wait_random_exponential

        jitter = wait_random_exponential(multiplier=0.5, max=self.config.longest_wait)
        error = state.outcome.exception() if state.outcome else None
        logger.debug("try %d failed: %s", state.attempt_number, error)
        after = error.after if isinstance(error, RequestError) else None
        if after is not None:  # a rate limit holds for all requests
            self._opens = max(self._opens, time.monotonic() + after)
        return float(max(jitter(state), after or 0.0))

    def mapped(self, error: Exception) -> Exception:
        """See map_error."""
        return map_error(error, self.clean, self.address)

    def stop_error(self, failure: RequestError) -> ServerStopError | None:
        """See stop_error of errors.py."""
        has_key = self.secret not in (None, NO_KEY)
        return stop_error(
            failure, self.name, self.address, self.config.api_key_env, has_key=has_key
        )


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs ``work`` to its end, on another thread if this one has a running loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
