"""A model on any server that speaks OpenAI's protocol: a provider's, vLLM's, llama.cpp's, ..."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.cost import (
    BudgetExceeded,
    CostLimiter,
    Usage,
    load_prices,
)
from medal_judges.models.llm.local.weights import load_chat_template
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    OnAnswer,
    collect,
    failed,
    prompt_tokens_above,
)
from medal_judges.models.llm.server.access import ServerAccess
from medal_judges.models.llm.server.sent import SentRequests
from medal_judges.models.llm.server.wire import (
    ModelListing,
    RequestError,
    ServerError,
    chat_body,
    map_error,
    priced,
    read_answer,
    read_echo,
    refused_field,
    stop_error,
)
from medal_judges.models.llm.settings import OpenAILLM
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import cache_folder

if TYPE_CHECKING:
    from openai import AsyncOpenAI

S = TypeVar("S", ChatRequest, TokenSequence)
T = TypeVar("T")
logger = logging.getLogger(__name__)

REASONING_TOKENS = 32_768  # MEDAL, section 5.3.1
PATIENCE = 5.0  # seconds for a server to list its models
# With a limit this small the judge reads the first tokens only and expects a truncated answer.
SHORT = 32


class RemoteModel(LanguageModel):
    """Sends chats and continuations to the server; at most ``max_in_flight`` at a time.

    Raises ConfigError for a ``max_cost`` if the price is unknown. A missing API key is an error at
    the first request only.
    """

    def __init__(self, config: OpenAILLM) -> None:
        base = config.base_url or os.environ.get("OPENAI_BASE_URL")
        self.config = config.model_copy(update={"base_url": base})
        model = name = config.model
        if model.startswith(("/", ".")):
            name = Path(model).name
        self.name = f"openai/{name}"
        self.context = config.context
        self.api, self.private = True, self.config.private
        self.price = load_prices(config.prices or "prices").find(model, base)
        if config.max_cost is not None and self.price is None:
            raise ConfigError(
                f"the price of {model} on this server is unknown, so max_cost cannot be enforced",
                hint="llm.prices=FILE with models: {NAME: {input: 0.1, output: 0.4}} (USD per 1M)",
            )
        self.limiter: CostLimiter = CostLimiter(config.max_cost)
        self.template = None
        if config.tokenizer:
            self.template = load_chat_template(config.tokenizer)
        self.access = ServerAccess.of(base, config.api_key_env)
        self.folder = cache_folder() / "answers"
        if base is not None:
            # Another server gives other answers under the same model name.
            self.folder /= f"server-{content_hash(base)}"
        if isinstance(config.cache, str):
            self.folder = Path(config.cache)
        self.sent = SentRequests(self.folder / f"{self.label}.sent.jsonl")
        # Fields that the server refused so far.
        self.dropped: frozenset[str] = frozenset()
        self._answered = False  # whether the server did once
        # Monotonic time before which nothing is sent, after a Retry-After.
        self._opens = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles without the API key; another process reads it from its own environment."""
        return type(self), (self.config,), {"limiter": self.limiter}

    def open(self) -> AsyncOpenAI:
        """A client, for the caller to close. Raises NotAvailableError if there is no API key."""
        return self.access.open(self.config.api_key_env, self.config.timeout)

    def fingerprint(self) -> Mapping[str, str]:
        fingerprint = {"backend": "openai", "reasoning": str(self.config.thinks)}
        if self.config.reasoning_effort is not None:
            fingerprint["reasoning_effort"] = self.config.reasoning_effort
        if self.template is None:
            # No likelihoods; the word is part of the keys of old answers.
            return fingerprint | {"likelihood": "transcript"}
        return fingerprint | {"likelihood": "template", **self.template.fingerprint()}

    def served_identity(self) -> str | None:
        """See LanguageModel. A provider is not asked: its models' names include their version."""
        if self.config.base_url is None:
            return None
        return run(self._identity())

    async def _identity(self) -> str | None:
        async def list_models() -> tuple[str | None, Usage]:
            listing_call = client.models.with_raw_response.list()
            raw = await asyncio.wait_for(listing_call, PATIENCE)
            try:
                listing = ModelListing.model_validate(raw.http_response.json())
            except ValueError:
                return None, Usage()  # it has no such list
            return listing.identity(self.config.model), Usage()

        async with self.open() as client:
            try:
                identity, _ = await self._call(list_models, Usage())
                return identity
            except RequestError as failure:
                if failure.action not in ("retry", "connect", "wait"):
                    return None  # the first request reports a wrong key
                raise self._stop_error(failure) or ServerError(
                    f"{self.name}: the server does not list its models: {failure}",
                    hint="cached answers are found by that list: run the same command again later",
                ) from None

    # -- limits and money ---------------------------------------------------------------------

    def cost(self, usage: Usage) -> float | None:
        return None if self.price is None else self.price.of(usage)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Counts with the tokenizer if the settings name one; else returns an upper bound."""
        if self.template is not None:
            return len(self.template.prefix(messages, "assistant"))
        return prompt_tokens_above(messages)

    def highest(self, request: ChatRequest) -> Usage:
        """The most tokens that a request can take; a reasoning model's thinking is output."""
        usage = super().highest(request)
        if self.config.thinks:
            return replace(usage, output=max(usage.output, REASONING_TOKENS))
        return usage

    # -- requests -----------------------------------------------------------------------------

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        return collect(self.chat_each, requests)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """See LanguageModel. Raises ConfigError if the server refuses every request, and
        CostLimitError at the limit of cost, once the running requests are finished."""
        if any(request.prefill for request in requests):
            raise ConfigError("a server does not support prefill")
        if requests:
            run(self._all(requests, self._answer, on_answer))

    async def _all(
        self,
        items: Sequence[S],
        ask: Callable[[AsyncOpenAI, S, str, float], Awaitable[T]],
        on_answer: Callable[[int, T], None],
    ) -> None:
        """Calls ``on_answer`` with ``ask`` of each item, its key, and what killed runs may have
        spent on it; after an error no further item starts."""
        keys = [content_hash(json.dumps(asdict(item)).encode()) for item in items]
        lost = self.sent.lost(keys)
        self.limiter.lose(sum(lost.values()))
        waiting = iter(enumerate(items))
        answered = 0
        stopped: list[Exception] = []
        async with self.open() as client:

            async def worker() -> None:
                nonlocal answered
                for i, item in waiting:
                    if stopped:
                        return
                    try:
                        key = keys[i]
                        answer = await ask(client, item, key, lost.pop(key, 0.0))
                    except (BudgetExceeded, MedalError) as error:
                        # The others' running requests are paid: finish them.
                        stopped.append(error)
                        return
                    on_answer(i, answer)
                    if self.price is not None:
                        self.sent.note(key, None)
                    answered += 1

            workers = [
                asyncio.create_task(worker()) for _ in range(self.config.max_in_flight)
            ]
            try:
                await asyncio.gather(*workers)
            finally:
                for task in workers:
                    task.cancel()
        if stopped and isinstance(stopped[0], BudgetExceeded):
            raise self.limiter.error(answered, len(items))
        if stopped:
            raise stopped[0]

    async def _call(
        self,
        send: Callable[[], Awaitable[tuple[T, Usage]]],
        highest: Usage,
        key: str = "",
        lost: float = 0.0,
    ) -> tuple[T, float]:
        """Returns the answer of ``send()``, which returns it with its usage, and what tries before
        it may have cost, with the ``lost`` dollars of this run. Tries again with exponential
        back-off and jitter, never sooner than the server's Retry-After.

        Each try is limited in time and reserves the price of ``highest``. It then pays for its
        usage, or the highest price if an answer may have been written but did not arrive.
        Raises the last RequestError, and BudgetExceeded if the limit of cost leaves no room.
        """
        reserved = self.cost(highest) or 0.0
        for tried in range(self.config.attempts):
            while (left := self._opens - time.monotonic()) > 0:
                await asyncio.sleep(left)
            await self.limiter.take(reserved)
            price: float | None = reserved  # until the real one is known
            try:
                if reserved:
                    self.sent.note(key, lost + reserved)
                answer, usage = await asyncio.wait_for(send(), self.config.timeout)
                price = usage.money
                return answer, lost
            except Exception as error:
                failure = map_error(error, self.access.address)
                price = 0.0
                if isinstance(failure, RequestError):
                    price = reserved * failure.billed
                    lost += price
                    failure.lost = lost
                    if reserved:
                        self.sent.note(key, lost)
                # Without its cause, which may quote the request's headers.
                if not isinstance(failure, RequestError) or not failure.transient:
                    raise failure from None
                if tried + 1 == self.config.attempts:
                    raise failure from None
            finally:
                self.limiter.pay(reserved, price)
            logger.debug("try %d failed: %s", tried + 1, failure)
            if failure.after is not None:  # a rate limit holds for all requests
                self._opens = max(self._opens, time.monotonic() + failure.after)
            wait = min(self.config.longest_wait, 2.0 ** (tried - 1))
            await asyncio.sleep(random.random() * wait)
        raise AssertionError("the last try returns or raises")

    async def _answer(
        self, client: AsyncOpenAI, request: ChatRequest, key: str, earlier: float
    ) -> Completion:
        """The answer, or a failed completion, with what ``earlier`` runs may have spent on it. A
        field that the server refuses is left out of this and all later requests."""
        start, highest = time.perf_counter(), self.highest(request)
        lost = 0.0
        while True:
            dropped = self.dropped
            body = chat_body(self.config, request, highest.output, dropped)

            async def send(body: dict[str, Any] = body) -> tuple[Completion, Usage]:
                raw = await client.chat.completions.with_raw_response.create(**body)
                answer = read_answer(
                    raw.http_response.json(),
                    request,
                    enforced="response_format" in body,
                    highest=highest,
                    price=self.cost,
                )
                return answer, answer.usage

            try:
                completion, lost = await self._call(send, highest, key, lost)
                self._answered = True
                break
            except RequestError as failure:
                self._answered |= failure.action != "connect"
                lost = failure.lost
                refused = refused_field(failure, body)
                if refused is None:
                    stopped = self._stop_error(failure)
                    if stopped and not (self._answered and failure.action == "connect"):
                        raise stopped from None
                    free = Usage(money=self.cost(Usage()))
                    completion = failed(str(failure), free, transient=failure.transient)
                    break
                # Other requests, sent at the same time, may have been refused for the same reason.
                if refused not in self.dropped:
                    self.dropped |= {refused}
                    logger.warning(
                        "%s refuses %s, left out from now on", self.name, refused
                    )
        completion = completion.costing(lost + earlier)
        is_short = highest.output <= SHORT or request.accept_truncated
        if completion.finish == "length" and not is_short:
            reason = f"the answer was truncated at its limit of {highest.output} tokens"
            completion = replace(completion, failure=reason)
            if not completion.text.strip():
                reason += ", before its first word"
                completion = replace(completion, finish="failed", failure=reason)
        return completion.with_usage(seconds=time.perf_counter() - start)

    def _stop_error(self, failure: RequestError) -> MedalError | None:
        return stop_error(
            failure, self.name, self.access.address, self.config.api_key_env
        )

    # -- likelihoods --------------------------------------------------------------------------

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Uses a completions endpoint that echoes its prompt with log-probabilities. The prompt is
        token ids by the chat template of ``llm.tokenizer``, as with a local model.

        Raises ConfigError if the server returns none, ServerError if it fails for now.
        """
        if self.config.base_url is None or "api.openai.com" in self.config.base_url:
            raise self._no_likelihoods(
                "the provider's own server does not echo a prompt"
            )
        if self.template is None:
            raise ConfigError(
                f"{self.name}: likelihoods from a server need the model's tokenizer",
                hint="llm.tokenizer=HUB_ID or a folder",
            )
        sequences = list(map(self.template.sequence, chain.from_iterable(groups)))
        for sequence in sequences:
            self.require_room(len(sequence.ids) + 1)  # the server also writes a token
        likelihoods: dict[int, Likelihood] = {}
        score = partial(self._likelihood, joint=joint)
        run(self._all(sequences, score, likelihoods.__setitem__))
        in_order = map(likelihoods.__getitem__, range(len(sequences)))
        return [list(islice(in_order, len(group))) for group in groups]

    def _no_likelihoods(self, reason: str) -> ConfigError:
        return ConfigError(
            f"{self.name} does not return log-probabilities: {reason}",
            hint="use a server with echo and logprobs (vLLM), or a local model",
        )

    async def _likelihood(
        self,
        client: AsyncOpenAI,
        sequence: TokenSequence,
        key: str,
        earlier: float,
        *,
        joint: bool,
    ) -> Likelihood:
        highest = Usage(input=len(sequence.ids), output=1)

        async def send() -> tuple[list[float], Usage]:
            raw = await client.completions.with_raw_response.create(
                model=self.config.model,
                prompt=list(sequence.ids),
                max_tokens=1,
                temperature=0,
                echo=True,
                logprobs=1,
            )
            logprobs, reported = read_echo(raw.http_response.json(), len(sequence.ids))
            return logprobs, priced(reported, highest, self.cost)

        try:
            logprobs, _ = await self._call(send, highest, key)
        except RequestError as error:
            if error.transient:
                hint = "run the same command again to resume"
                raise ServerError(f"{self.name}: {error}", hint=hint) from None
            stopped = None
            if error.action != "model":
                # 404 is no such endpoint; the server may know the model.
                stopped = self._stop_error(error)
            raise stopped or self._no_likelihoods(str(error)) from None
        first = sequence.start - 1  # the first token has no log-probability
        prefix = sum(logprobs[:first]) if joint else None
        return Likelihood(tuple(logprobs[first:]), prefix, first)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs ``work`` to its end, on another thread if this one has a running loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
