"""Likelihoods from a completions endpoint that echoes its prompt with log-probabilities.

With the model's tokenizer at hand the prompt is sent as token ids, rendered by its chat template as
the local backend does. Without it the prompt is a plain transcript, whose template nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.llm.protocol import Continuation, Likelihood, Usage
from medal_judges.models.llm.server.echo import echo_likelihood, echo_prompt, echoed_logprobs
from medal_judges.models.llm.server.retrying import PermanentError, TransientError
from medal_judges.models.llm.server.spending import BudgetExceeded
from medal_judges.models.llm.token_estimate import tokens_above

if TYPE_CHECKING:
    from medal_judges.models.llm.chat_template import ChatTemplate
    from medal_judges.models.llm.server.model import RemoteModel

# OpenAI's own server has no echo with log-probabilities: asking it would only cost.
_WITHOUT = "api.openai.com"


class ServerError(MedalError):
    """A server failed for the time being, also when asked again."""


def load_template(tokenizer: str) -> ChatTemplate:
    """How chats are rendered for the model whose tokenizer this is (hub id, folder, embedded:...).

    Raises ConfigError where it cannot be loaded.
    """
    from transformers import AutoTokenizer

    from medal_judges.models.llm.chat_template import ChatTemplate
    from medal_judges.models.llm.local.model import model_path

    try:
        return ChatTemplate(
            AutoTokenizer.from_pretrained(model_path(tokenizer), trust_remote_code=False)
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"llm: cannot load the tokenizer {tokenizer}: {error}") from error


async def likelihoods(
    remote: RemoteModel, continuations: Sequence[Continuation], joint: bool
) -> list[Likelihood]:
    """One Likelihood a continuation, in order; a bounded number of requests at a time.

    Raises ConfigError where the server tells none, ServerError where it fails, and CostLimitError.
    """
    if remote.base_url is None or _WITHOUT in remote.base_url:
        raise _without(remote, "the provider's own server does not echo a prompt")
    remote.limiter.fresh_loop()
    limit = asyncio.Semaphore(remote.max_in_flight)
    async with remote._client() as client:

        async def one(continuation: Continuation) -> Likelihood:
            async with limit:
                found: Likelihood = await remote.retried(
                    lambda: _ask(remote, client, continuation, joint)
                )
                return found

        tasks = [asyncio.create_task(one(c)) for c in continuations]
        try:
            return list(await asyncio.gather(*tasks))
        except PermanentError as error:
            # 404: the server has no such endpoint; that it knows the model was not asked.
            stopped = remote.stop_error(error) if error.stop != "model" else None
            raise stopped or _without(remote, str(error)) from None
        except TransientError as error:
            raise ServerError(
                f"{remote.name}: {error}", hint="run the same command again to go on"
            ) from None
        except BudgetExceeded:
            done = sum(task.done() and task.exception() is None for task in tasks)
            raise remote.limiter.error(done, len(tasks)) from None
        finally:
            for task in tasks:
                task.cancel()


def _without(remote: RemoteModel, reason: str) -> ConfigError:
    return ConfigError(
        f"{remote.name} tells no likelihoods: {reason}",
        hint="they take a server with echo and logprobs (vLLM), or a local model",
    )


async def _ask(
    remote: RemoteModel, client: Any, continuation: Continuation, joint: bool
) -> Likelihood:
    prompt, read = _prompt(remote, continuation)
    length = len(prompt) if isinstance(prompt, list) else tokens_above(prompt)
    if isinstance(prompt, list) and length >= remote.context:
        raise ConfigError(f"{length} tokens do not fit the {remote.context} of {remote.name}")

    async def send() -> Any:
        return await client.completions.create(
            model=remote.model, prompt=prompt, max_tokens=1, temperature=0, echo=True, logprobs=1
        )

    highest = Usage(input=length, output=1)
    answer = await remote.paid(
        send, highest, lambda told: remote.reader.usage(getattr(told, "usage", None), highest)
    )
    return read(answer, joint)


def _prompt(remote: RemoteModel, c: Continuation) -> tuple[Any, Callable[[Any, bool], Likelihood]]:
    """What is sent, and how the answer (and whether the prefix is wanted) becomes a Likelihood."""
    if remote.template is None:
        before, text = echo_prompt(c)
        start, end = len(before), len(before) + len(text)
        return before + text, lambda answer, joint: echo_likelihood(answer, start, end, joint)
    sequence = remote.template.sequence(c)
    ids, start = list(sequence.ids), sequence.start
    return ids, lambda answer, joint: _of_ids(answer, start, len(ids), joint)


def _of_ids(answer: Any, start: int, end: int, joint: bool) -> Likelihood:
    """Of the tokens from ``start`` to ``end``; the first token of all has no likelihood."""
    told = echoed_logprobs(answer)
    if len(told) < end:
        raise PermanentError("the server does not echo a log-probability for each token")
    scored = tuple(value for value in told[start:end] if value is not None)
    before = sum(value for value in told[1:start] if value is not None)
    return Likelihood(scored, before if joint else None, start - 1)
