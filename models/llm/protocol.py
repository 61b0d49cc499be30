"""The interface of every language model: ``chat`` answers, and ``loglikelihood`` scores a given
text.

Both take batches. Behind the interface are transformers, vLLM and any OpenAI-compatible server. A
judge does not need to know which. If it must know how a model is served, it reads ``api``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from medal_judges.errors import ConfigError
from medal_judges.models.llm.cost import CostLimiter, Count, Usage
from medal_judges.records.dialogue import Dialogue

ChatRole = Literal["system", "user", "assistant"]
# stop: the model ended by itself. length: cut at max_tokens. failed: no answer, see failure.
Finish = Literal["stop", "length", "failed"]
# Natural log; a sum may be rounded to slightly above 0.
Logprob = Annotated[float, Field(le=1e-3)]


# How llguidance's grammars write an object: with free white space a small model may write blanks
# without end.
JSON_LAYOUT: Any = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat: a turn, or an instruction with the role ``system``."""

    role: ChatRole
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A question to a language model. ``temperature`` 0 is greedy decoding.

    ``schema``: a JSON schema for the answer. A backend enforces it if it can
    (``Completion.enforced``). ``top_logprobs``: how many alternatives a server reports for each
    token. ``presence_penalty``: subtracted once from the logit of each token that the answer
    already contains. ``frequency_penalty``: subtracted for each time that the answer contains the
    token. ``accept_truncated``: whether an empty or truncated answer is valid. ``seed``: seeds the
    sampling. Requests that differ only in their seed have different answers in the cache.
    """

    messages: tuple[Message, ...]
    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    top_logprobs: int = 0
    presence_penalty: float = 0.0
    accept_truncated: bool = False
    frequency_penalty: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A token of an answer. ``logprob``: its log-probability. ``alternatives``: the log-probability
    of each of the most likely tokens at this place, also of the token itself. Empty if the backend
    reports none."""

    text: str
    logprob: Logprob
    alternatives: Mapping[str, Logprob] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to a request. ``text``: the answer without the prompt.

    ``finish``: ``stop`` if the model ended by itself, ``length`` if ``max_tokens`` cut the answer,
    ``failed`` if there is no answer. ``failure``: why there is no answer, or that it was truncated.
    ``transient``: whether the same request may succeed later, for example after a time-out.
    ``enforced``: whether the backend enforced the schema. ``tokens``: the tokens with their
    log-probabilities, if the request has ``top_logprobs`` and the backend reports them.
    """

    text: str
    finish: Finish = "stop"
    failure: str | None = None
    enforced: bool = False
    tokens: tuple[TokenChoice, ...] = ()
    usage: Usage = field(default_factory=Usage)
    transient: bool = False

    @property
    def failed(self) -> bool:
        """Whether there is no answer."""
        return self.finish == "failed"

    def with_usage(self, **changes: Any) -> Completion:
        """Returns a copy in which the fields ``changes`` of the usage are replaced."""
        return replace(self, usage=replace(self.usage, **changes))


def failed_completion(
    reason: str, usage: Usage | None = None, *, transient: bool = False
) -> Completion:
    """Returns a completion without an answer. ``reason``: why there is none. ``usage``: what the
    request cost although it failed. ``transient``: whether the same request may succeed later."""
    return Completion("", "failed", reason, usage=usage or Usage(), transient=transient)


@dataclass(frozen=True, slots=True)
class Continuation:
    """A text to score as the turn of ``role`` that follows ``messages``.

    ``prefill``: the beginning of that turn, before ``text``. It is not scored. ``score_eos``:
    whether the token that ends the turn is scored too.
    """

    messages: tuple[Message, ...]
    text: str
    role: ChatRole = "assistant"
    prefill: str = ""
    score_eos: bool = True


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The log-probabilities of a continuation's tokens. The prefix is everything before the
    continuation.

    ``prefix_tokens``: the number of tokens of the prefix. A first token without a log-probability
    does not count. ``prefix_logprob``: the sum of the log-probabilities of the prefix, or None if
    only the continuation was scored.
    """

    logprobs: tuple[Logprob, ...]
    prefix_logprob: Logprob | None = None
    prefix_tokens: Count = 0

    @property
    def total(self) -> float:
        """The log-probability of the continuation given its prefix."""
        return sum(self.logprobs)

    @property
    def mean(self) -> float:
        """The log-probability of the continuation given its prefix, per token."""
        return self.total / len(self.logprobs)


OnAnswer = Callable[[int, Completion], None]


class LanguageModel(ABC):
    """Base class of language models.

    ``name``: model and backend, without paths or secrets. It is the ``base`` of a judge's
    signature. ``context``: the context length in tokens, for prompt and answer together.
    ``at_once``: how many requests it answers at the same time.

    ``api``: whether a server runs the model. If so, its requests may cost money, and it gives no
    likelihoods. ``private``: whether the model runs on this machine or in its private network,
    without a bill. ``limiter``: the cost limit, or None for a model that costs nothing.

    ``counts``: how many answers so far came from the cache (``kept``) and from the model
    (``asked``). ``renews``: whether the model is asked again instead of reading cached answers.
    """

    name: str
    context: int
    api: bool = False
    private: bool = True
    at_once: int = 1
    counts: Mapping[str, int] = MappingProxyType({})
    limiter: CostLimiter | None = None
    renews: bool = False

    @abstractmethod
    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Returns a completion for each of ``requests``, in order. If a request fails, its
        completion has ``finish="failed"``. The other requests are still answered."""

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Sends ``requests`` and calls ``on_answer(index, completion)`` once for each, as soon as
        its answer arrives. The calls may come in any order and from any thread. An exception in
        ``on_answer`` stops the run."""
        for index, completion in enumerate(self.chat(requests)):
            on_answer(index, completion)

    @abstractmethod
    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Returns the likelihood of each continuation in each of ``groups``. A prefix that the
        continuations of one group share is computed once. ``joint``: whether to also set
        ``prefix_logprob``.

        Raises ConfigError if a server runs the model, or if prompt and text do not fit ``context``.
        """

    @abstractmethod
    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Returns the number of tokens of a prompt with ``messages``. For a model on a server, the
        number is an upper bound."""

    def require_room(self, tokens: int) -> None:
        """Raises ConfigError if ``tokens`` is more than ``context``."""
        if tokens > self.context:
            raise ConfigError(
                f"{tokens} tokens do not fit the {self.context} tokens of {self.name}",
                hint="Give fewer turns: drop the oldest first, as a judge does",
            )

    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """Returns everything except the name that answers depend on: weights, chat template, dtype,
        ..."""

    def cost(self, usage: Usage) -> float | None:
        """Returns the price of ``usage`` in US dollars, or None if it is unknown."""
        return None

    def max_output_tokens(self, request: ChatRequest) -> int:
        """Returns the maximum number of output tokens of the answer to ``request``."""
        return request.max_tokens

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Releases connections and memory."""


def likelihood_usage(prompt: int, likelihoods: Iterable[Likelihood]) -> Usage:
    """Returns the usage of computing ``likelihoods``, if their common prompt of ``prompt`` tokens
    is computed once."""
    scored = sum(len(likelihood.logprobs) for likelihood in likelihoods)
    return Usage(input=prompt + scored)


def grouped_likelihoods(
    llm: LanguageModel,
    groups: Sequence[Sequence[Continuation]],
    owners: Sequence[object],
    *,
    joint: bool = False,
) -> list[list[Likelihood]]:
    """Returns the likelihoods under ``llm`` for each of ``groups`` of continuations, in order.

    ``owners``: a key for each group, such as the id of its dialogue. Groups with the same key are
    sent to the model together, so a beginning that they share is computed once. ``joint``: whether
    to also set ``prefix_logprob``.
    """
    if not groups:
        return []
    by_owner: dict[object, list[Continuation]] = {}
    for group, owner in zip(groups, owners, strict=True):
        by_owner.setdefault(owner, []).extend(group)
    scored = llm.loglikelihood(list(by_owner.values()), joint=joint)
    unread = dict(zip(by_owner, map(iter, scored), strict=True))
    likelihoods = []
    for group, owner in zip(groups, owners, strict=True):
        likelihoods.append(list(islice(unread[owner], len(group))))
    return likelihoods


# Tokens of roles and separators that a chat template adds to a message, and to the prompt.
AROUND_MESSAGE = 8
AROUND_PROMPT = 16
_PIECE = re.compile(r" ?[A-Za-z]+|[^\x00-\x7F]+|.", re.DOTALL)
_VOWEL = re.compile(r"[aeiouy]")


def chat_messages(dialogue: Dialogue, start: int = 0) -> tuple[Message, ...]:
    """Returns the turns of ``dialogue`` from index ``start`` on as chat messages."""
    return tuple(Message(turn.role, turn.content) for turn in dialogue.turns[start:])


def first_fitting_start(turns: int, fits: Callable[[int], bool]) -> int:
    """Returns the smallest number from 0 to ``turns`` for which ``fits`` returns true. Returns
    ``turns`` if there is none. If ``fits`` is true for a number, it must be true for all larger
    numbers, because the search is by bisection."""
    low, high = 0, turns
    if fits(0):
        return 0
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return high


def first_turn_that_fits(
    messages: Sequence[Message], llm: LanguageModel, prompt_budget: int
) -> int:
    """Returns how many of the first ``messages`` to drop, so that the others have at most
    ``prompt_budget`` tokens as a prompt of ``llm``. The last message is never dropped, even if it
    is too long."""
    last = max(0, len(messages) - 1)
    return first_fitting_start(
        last, lambda start: llm.count_tokens(messages[start:]) <= prompt_budget
    )


def closed_schema(fields: Mapping[str, object]) -> dict[str, object]:
    """Returns the JSON schema of an object that has exactly ``fields``, in the form of OpenAI's
    strict mode."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def max_token_count(text: str) -> int:
    """Returns an upper bound on the number of tokens of ``text``, for models whose tokenizer is not
    on this machine.

    In a word of ASCII letters, two letters count as one token. If the word has no lower-case vowel,
    each letter counts as one. Each digit and sign counts as one. A space before a word does not
    count. Outside ASCII each UTF-8 byte counts as one.
    """
    total = 0
    for token in _PIECE.findall(text):
        word = token.removeprefix(" ")
        if not token.isascii():
            total += len(token.encode("utf-8", "surrogatepass"))
        elif not word.isalpha():
            total += len(token)
        elif _VOWEL.search(word):
            total += (len(word) + 1) // 2
        else:
            total += len(word)
    return total


def max_prompt_tokens(messages: Sequence[Message]) -> int:
    """Returns an upper bound on the number of tokens of a prompt with ``messages``."""
    return AROUND_PROMPT + sum(
        AROUND_MESSAGE + max_token_count(m.content) for m in messages
    )
