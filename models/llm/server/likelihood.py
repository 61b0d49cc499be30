"""Likelihoods from a completions endpoint that echoes its prompt with log-probabilities.

With the model's tokenizer the prompt is sent as token ids, rendered by its chat template like the
local backend's. Without it the prompt is a plain transcript. An echo may be wrong:
llama-cpp-python's server (0.3.36) omits the beginning-of-sequence token, and for a tokenizer
without one it shifts the log-probabilities by one token. So an echo with fewer tokens than were
read is tested before it is trusted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BaseModel, Field, ValidationError

from medal_judges.errors import ConfigError
from medal_judges.models.llm.cost import BudgetExceeded, Usage
from medal_judges.models.llm.protocol import Continuation, Likelihood
from medal_judges.models.llm.server.connection import ServedModel
from medal_judges.models.llm.server.errors import RequestError, ServerError
from medal_judges.models.llm.server.wire import LenientUsage, WireLogprob, priced
from medal_judges.models.llm.truncation import tokens_above

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")
TEST = "one two three four five six seven"
SAME = 0.3  # nats by which a token's log-probability may differ between two requests
# OpenAI's own server does not echo log-probabilities: a request would only cost.
_WITHOUT = "api.openai.com"
DOUBTFUL = "its echo omits tokens, and the log-probabilities "
_NAMES = {"user": "User", "assistant": "Assistant"}


class _Logprobs(BaseModel):
    token_logprobs: list[WireLogprob | None]
    text_offset: list[Annotated[int, Field(strict=True)]] | None = None


class _Choice(BaseModel):
    text: str = ""
    logprobs: _Logprobs | None = None


class Echo(BaseModel):
    """The answer of a completions endpoint."""

    choices: list[_Choice] = Field(min_length=1)
    usage: LenientUsage = None

    def logprobs(self) -> list[float | None]:
        """The log-probability of each token; None for the first only. Raises RequestError if the
        server does not echo them."""
        told = self.choices[0].logprobs
        if told is None or len(told.token_logprobs) < 2:
            raise RequestError("the server echoes no log-probabilities")
        if None in told.token_logprobs[1:]:
            raise RequestError("the server does not echo a log-probability for each token")
        return [None if p is None else min(p, 0.0) for p in told.token_logprobs]

    def of_characters(self, start: int, end: int, *, joint: bool) -> Likelihood:
        """The likelihood of the tokens that begin within the characters from ``start`` to ``end``;
        a token across ``start`` belongs to the prefix."""
        told = self.logprobs()
        offsets = self.choices[0].logprobs.text_offset if self.choices[0].logprobs else None
        if offsets is None or len(offsets) != len(told):
            raise RequestError("the server does not report where the tokens of its echo begin")
        pairs = list(zip(offsets, told, strict=True))
        scored = tuple(p for at, p in pairs if start <= at < end and p is not None)
        before = [p for at, p in pairs if at < start and p is not None]
        if not scored:
            raise RequestError("the server echoes fewer characters than it received")
        return Likelihood(scored, sum(before) if joint else None, len(before))

    def of_ids(self, start: int, end: int, *, joint: bool) -> Likelihood:
        """The likelihood of the tokens from ``start`` to ``end``."""
        told = self.logprobs()
        if len(told) < end:
            raise RequestError("the server does not echo a log-probability for each token")
        scored = tuple(value for value in told[start:end] if value is not None)
        before = sum(value for value in told[1:start] if value is not None)
        return Likelihood(scored, before if joint else None, start - 1)


async def likelihoods(
    remote: ServedModel, continuations: Sequence[Continuation], joint: bool
) -> list[Likelihood]:
    """One Likelihood per continuation, in order. Raises ConfigError if the server returns none,
    ServerError if it fails, and CostLimitError."""

    def without(reason: str) -> ConfigError:
        return ConfigError(
            f"{remote.name} does not return log-probabilities: {reason}",
            hint="use a server with echo and logprobs (vLLM), or a local model",
        )

    if remote.config.base_url is None or _WITHOUT in remote.config.base_url:
        raise without("the provider's own server does not echo a prompt")
    in_flight = asyncio.Semaphore(remote.config.max_in_flight)
    async with remote.open() as client:

        async def ask(continuation: Continuation) -> Likelihood:
            async with in_flight:
                return await _ask(remote, client, continuation, joint)

        tasks = [asyncio.create_task(ask(c)) for c in continuations]
        try:
            return list(await asyncio.gather(*tasks))
        except RequestError as error:
            if error.transient:
                hint = "run the same command again to resume"
                raise ServerError(f"{remote.name}: {error}", hint=hint) from None
            # 404: the server has no such endpoint; it may know the model.
            stopped = remote.stop_error(error) if error.stop != "model" else None
            raise stopped or without(str(error)) from None
        except BudgetExceeded:
            done = sum(task.done() and task.exception() is None for task in tasks)
            raise remote.limiter.error(done, len(tasks)) from None
        finally:
            for task in tasks:
                task.cancel()


async def _ask(
    remote: ServedModel, client: AsyncOpenAI, continuation: Continuation, joint: bool
) -> Likelihood:
    if remote.template is not None:
        sequence = remote.template.sequence(continuation)
        ids, start, length = list(sequence.ids), sequence.start, len(sequence.ids)
        if length >= remote.config.context:
            raise ConfigError(
                f"{length} tokens do not fit the {remote.config.context} of {remote.name}"
            )
        return await _completed(
            remote, client, ids, length, lambda echo: echo.of_ids(start, length, joint=joint)
        )
    before, text = transcript(continuation)
    begin, end = len(before), len(before) + len(text)

    def read(echo: Echo) -> tuple[Likelihood, bool]:
        total = echo.usage.total_tokens if echo.usage else None
        lacks = total is not None and len(echo.logprobs()) < total
        return echo.of_characters(begin, end, joint=joint), lacks

    room = tokens_above(before + text)
    likelihood, lacks = await _completed(remote, client, before + text, room, read)
    if lacks and not remote.echo_tested:
        await _test_echo(remote, client)
        remote.echo_tested = True
    return likelihood


async def _completed(
    remote: ServedModel,
    client: AsyncOpenAI,
    prompt: str | list[int],
    length: int,
    read: Callable[[Echo], T],
    *,
    echo: bool = True,
) -> T:
    """``read`` of the answer to ``prompt`` of at most ``length`` tokens: one more token with its
    log-probability, and with ``echo`` the prompt's."""
    highest = Usage(input=length, output=1)

    async def send() -> tuple[T, Usage]:
        raw = await client.completions.with_raw_response.create(
            model=remote.config.model,
            prompt=prompt,
            max_tokens=1,
            temperature=0,
            echo=echo,
            logprobs=1,
        )
        body = raw.http_response.json()
        try:
            answer = Echo.model_validate(body)
        except ValidationError as error:
            if "token_logprobs" in {part for each in error.errors() for part in each["loc"]}:
                reason = "the echo has a number that is no log-probability"
                raise RequestError(reason, transient=True, billed=True) from None
            raise RequestError("the server echoes no log-probabilities") from None
        return read(answer), priced(answer.usage, highest, remote.cost)

    found, _ = await remote.call(send, highest, lambda pair: pair[1])
    return found


async def _test_echo(remote: ServedModel, client: AsyncOpenAI) -> None:
    """Raises RequestError if the token written after a prompt has another log-probability as part
    of the prompt."""
    room = tokens_above(TEST) + 8

    def newest(answer: Echo) -> tuple[str, float | None]:
        told = answer.choices[0].logprobs
        return answer.choices[0].text, told.token_logprobs[-1] if told else None

    word, wanted = await _completed(remote, client, TEST, room, newest, echo=False)
    if not word.strip() or wanted is None:
        raise RequestError(DOUBTFUL + "of the others could not be tested")
    start, end = len(TEST), len(TEST) + len(word)
    found = await _completed(
        remote,
        client,
        TEST + word,
        room,
        lambda echo: echo.of_characters(start, end, joint=False),
    )
    if abs(found.total - wanted) > SAME:
        raise RequestError(DOUBTFUL + "are shifted by one token")


def transcript(continuation: Continuation) -> tuple[str, str]:
    """(the text before, the scored text) as a plain transcript; the scored text begins with its
    space, where tokenizers split words."""
    c = continuation
    lines = [
        f"{m.content.strip()}\n\n"
        if m.role == "system"
        else f"{_NAMES[m.role]}: {' '.join(m.content.split())}\n"
        for m in c.messages
    ]
    prefill = f" {c.prefill.strip()}" if c.prefill.strip() else ""
    end = "\n" if c.score_eos else ""
    return "".join(lines) + f"{_NAMES[c.role]}:{prefill}", f" {c.text.strip()}{end}"
