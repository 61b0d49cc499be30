"""Likelihoods from a completions endpoint that echoes its prompt with log-probabilities.

With the model's tokenizer at hand the prompt is sent as token ids, rendered by its chat template as
the local backend does. Without it the prompt is a plain transcript, whose template nobody knows.

An echo may lie: llama-cpp-python's server (0.3.36) leaves the mark of the beginning out, and where
the tokenizer sets none it gives each token the log-probability of the place behind it. So an echo
that has fewer tokens than were read is put to the test first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from medal_judges.errors import ConfigError
from medal_judges.models.llm.cost import BudgetExceeded, Usage
from medal_judges.models.llm.protocol import Continuation, Likelihood
from medal_judges.models.llm.server.connection import ServedModel
from medal_judges.models.llm.server.errors import PermanentError, ServerError, TransientError
from medal_judges.models.llm.server.wire import get, read_logprob
from medal_judges.models.llm.truncation import tokens_above

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")
TEST = "one two three four five six seven"
SAME = 0.3  # nats by which a token's log-probability may differ between two requests
# OpenAI's own server has no echo with log-probabilities: asking it would only cost.
_WITHOUT = "api.openai.com"
DOUBTFUL = "its echo leaves tokens out, and the log-probabilities "
NO_LOGPROB = "the echo has a number that is no log-probability"
NOT_EACH = "the server does not echo a log-probability for each token"
_NAMES = {"user": "User", "assistant": "Assistant"}


async def likelihoods(
    served: ServedModel, continuations: Sequence[Continuation], joint: bool
) -> list[Likelihood]:
    """One Likelihood a continuation, in order; a bounded number of requests at a time.

    Raises ConfigError where the server tells none, ServerError where it fails, and CostLimitError.
    """
    base_url, limiter = served.config.base_url, served.limiter
    if base_url is None or _WITHOUT in base_url:
        raise _without(served, "the provider's own server does not echo a prompt")
    in_flight = asyncio.Semaphore(served.config.max_in_flight)
    async with served.open() as client:

        async def ask(continuation: Continuation) -> Likelihood:
            async with in_flight:
                return await _ask(served, client, continuation, joint)

        tasks = [asyncio.create_task(ask(c)) for c in continuations]
        try:
            return list(await asyncio.gather(*tasks))
        except PermanentError as error:
            # 404: the server has no such endpoint; that it knows the model was not asked.
            stopped = served.stop_error(error) if error.stop != "model" else None
            raise stopped or _without(served, str(error)) from None
        except TransientError as error:
            raise ServerError(
                f"{served.name}: {error}", hint="run the same command again to resume"
            ) from None
        except BudgetExceeded:
            done = sum(task.done() and task.exception() is None for task in tasks)
            raise limiter.error(done, len(tasks)) from None
        finally:
            for task in tasks:
                task.cancel()


def _without(served: ServedModel, reason: str) -> ConfigError:
    return ConfigError(
        f"{served.name} tells no likelihoods: {reason}",
        hint="they take a server with echo and logprobs (vLLM), or a local model",
    )


async def _ask(
    served: ServedModel, client: AsyncOpenAI, continuation: Continuation, joint: bool
) -> Likelihood:
    end = 0
    if served.template is None:
        before, text = transcript(continuation)
        start, end, length = len(before), len(before) + len(text), tokens_above(before + text)
        prompt: str | list[int] = before + text
    else:
        sequence = served.template.sequence(continuation)
        prompt, start, length = list(sequence.ids), sequence.start, len(sequence.ids)
        if length >= (fits := served.config.context):
            raise ConfigError(f"{length} tokens do not fit the {fits} of {served.name}")

    def read(answer: object) -> tuple[Likelihood, bool]:
        if served.template is None:
            return _of_characters(answer, start, end, joint), _lacks_tokens(answer)
        return _of_ids(answer, start, length, joint), False

    likelihood, doubtful = await _completed(served, client, prompt, length, read)
    if doubtful and not served.echo_tested:
        await _test_echo(served, client)
        served.echo_tested = True
    return likelihood


async def _completed(
    served: ServedModel,
    client: AsyncOpenAI,
    prompt: str | list[int],
    length: int,
    read: Callable[[object], T],
    *,
    echo: bool = True,
) -> T:
    """What ``read`` makes of the answer to ``prompt`` of at most ``length`` tokens: one more token,
    and the log-probabilities, with ``echo`` also the prompt's."""
    highest = Usage(input=length, output=1)

    async def send() -> tuple[T, Usage]:
        raw = await client.completions.with_raw_response.create(
            model=served.config.model,
            prompt=prompt,
            max_tokens=1,
            temperature=0,
            echo=echo,
            logprobs=1,
        )
        answer = raw.http_response.json()
        return read(answer), served.reader.usage(get(answer, "usage"), highest)

    found, _ = await served.call(send, highest, lambda told: told[1])
    return found


def _lacks_tokens(answer: object) -> bool:
    """Whether an echo has fewer tokens than were read and written."""
    total = get(get(answer, "usage"), "total_tokens")
    return isinstance(total, int) and len(_echoed(answer)) < total


async def _test_echo(served: ServedModel, client: AsyncOpenAI) -> None:
    """Raises PermanentError where the token that is written after a prompt has another
    log-probability when it is sent as part of the prompt."""
    room = tokens_above(TEST) + 8

    def newest(answer: object) -> tuple[object, float | None]:
        told = get(_logprobs(answer), "token_logprobs")
        value = told[-1] if isinstance(told, list) and told else None
        choices = get(answer, "choices")
        return get(choices[0], "text") if isinstance(choices, list) else None, read_logprob(value)

    word, wanted = await _completed(served, client, TEST, room, newest, echo=False)
    if not isinstance(word, str) or not word.strip() or wanted is None:
        raise PermanentError(DOUBTFUL + "of the others could not be tested")
    start, end = len(TEST), len(TEST) + len(word)

    def scored(answer: object) -> Likelihood:
        return _of_characters(answer, start, end, joint=False)

    found = await _completed(served, client, TEST + word, room, scored)
    if abs(found.total - wanted) > SAME:
        raise PermanentError(DOUBTFUL + "of the others are those of the tokens behind them")


def transcript(continuation: Continuation) -> tuple[str, str]:
    """(what stands before, what is scored) as a plain transcript; the scored part begins with its
    space, where tokenizers part words."""
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


def _of_characters(answer: object, start: int, end: int, joint: bool) -> Likelihood:
    """Of the tokens that begin within the characters from ``start`` to ``end`` of the prompt: a
    token that lies across ``start`` belongs to the prefix."""
    offsets, told = get(_logprobs(answer), "text_offset"), _echoed(answer)
    if not isinstance(offsets, list) or len(offsets) != len(told):
        raise PermanentError("the server does not say where the tokens of its echo begin")
    if not all(isinstance(at, int) for at in offsets):
        raise TransientError(NO_LOGPROB, billed=True)
    pairs = list(zip(offsets, told, strict=True))
    scored = tuple(p for at, p in pairs if start <= at < end and p is not None)
    before = [p for at, p in pairs if at < start and p is not None]
    if not scored:
        raise PermanentError("the server echoes fewer characters than it was sent")
    return Likelihood(scored, sum(before) if joint else None, len(before))


def _of_ids(answer: object, start: int, end: int, joint: bool) -> Likelihood:
    """Of the tokens from ``start`` to ``end``; the first token of all has no likelihood."""
    told = _echoed(answer)
    if len(told) < end:
        raise PermanentError(NOT_EACH)
    scored = tuple(value for value in told[start:end] if value is not None)
    before = sum(value for value in told[1:start] if value is not None)
    return Likelihood(scored, before if joint else None, start - 1)


def _echoed(answer: object) -> list[float | None]:
    """The log-probability of each token of an echo; None for the first one only, which has none.

    Raises PermanentError where the server does not echo them, TransientError where they cannot be
    log-probabilities.
    """
    told = get(_logprobs(answer), "token_logprobs")
    if not isinstance(told, list) or len(told) < 2:
        raise PermanentError("the server echoes no log-probabilities")
    if any(value is None for value in told[1:]):
        raise PermanentError(NOT_EACH)
    read = [read_logprob(value) for value in told[1:]]
    if any(value is None for value in read):
        raise TransientError(NO_LOGPROB, billed=True)
    return [read_logprob(told[0]), *read]


def _logprobs(answer: object) -> object:
    choices = get(answer, "choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    logprobs: object = get(first, "logprobs")
    return logprobs
