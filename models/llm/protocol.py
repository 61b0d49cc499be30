"""The interface of every language model: ``chat`` answers, ``loglikelihood`` scores a given text.

Both take batches. Behind the interface are transformers, vLLM and any OpenAI-compatible server. A
judge knows no backend by name and reads ``api`` if it must know how a model is served.
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
    """One message of a chat."""

    role: ChatRole
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question. ``temperature`` 0 is greedy.

    ``schema``: a JSON schema for the answer, enforced if the backend can (``Completion.enforced``).
    ``top_logprobs``: the number of alternatives that a server reports for each token. Requests that
    differ only in ``seed`` are two samples and two cache entries. ``presence_penalty`` is
    subtracted from the logit of every token that the answer already contains,
    ``frequency_penalty`` once for each time that it does. ``accept_truncated``: an empty or
    truncated answer is valid.
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
    """A token of an answer with its log-probability and the likeliest alternatives, the token
    itself among them ({token text: log-probability}; empty if the backend reports no others)."""

    text: str
    logprob: Logprob
    alternatives: Mapping[str, Logprob] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer without its prompt.

    ``failure`` says why there is no answer (``finish`` "failed") or that it was truncated.
    ``transient``: the same request may succeed later (time-out, rate limit, limit of cost).
    ``enforced``: the backend held the answer to the request's schema.
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
        """Returns whether there is no response."""
        return self.finish == "failed"

    def with_usage(self, **changes: Any) -> Completion:
        """Returns the same response with some fields of its usage changed."""
        return replace(self, usage=replace(self.usage, **changes))


def failed_completion(
    reason: str, usage: Usage | None = None, *, transient: bool = False
) -> Completion:
    """Returns a completion without a response, with the ``reason`` and the ``usage`` that was paid.
    ``transient`` says whether the same request may succeed later."""
    return Completion("", "failed", reason, usage=usage or Usage(), transient=transient)


@dataclass(frozen=True, slots=True)
class Continuation:
    """A text to score: ``text``, as the next turn of ``role`` after ``messages``.

    ``prefill`` precedes ``text`` in that turn and is not scored. ``score_eos``: the token that ends
    the turn is scored too, as the last one.
    """

    messages: tuple[Message, ...]
    text: str
    role: ChatRole = "assistant"
    prefill: str = ""
    score_eos: bool = True


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Log-probabilities of a continuation's tokens given everything before them.

    ``prefix_logprob`` is the sum over the ``prefix_tokens`` tokens before the continuation; None
    unless the joint log-likelihood was requested.
    """

    logprobs: tuple[Logprob, ...]
    prefix_logprob: Logprob | None = None
    prefix_tokens: Count = 0

    @property
    def total(self) -> float:
        """Returns log p(continuation | prefix)."""
        return sum(self.logprobs)

    @property
    def mean(self) -> float:
        """Returns log p(continuation | prefix) per token."""
        return self.total / len(self.logprobs)


OnAnswer = Callable[[int, Completion], None]


class LanguageModel(ABC):
    """A language model.

    ``name`` is the ``base`` of a signature: model and backend, without paths or secrets.
    ``context`` is the number of tokens that fit, prompt and answer together. ``api``: a server
    runs the model; its requests run side by side, may cost money, and give no likelihoods.
    ``private``: on this machine or its private network, without a bill. ``at_once``: requests that
    it answers side by side. ``counts``: answers so far from the cache (``kept``) and from the
    model (``asked``). ``limiter`` is the limit of cost, which several models may share; None for a
    model that costs nothing. ``renews``: cached answers are asked for again.
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
        """Returns one completion for each of ``requests``, in order. A request that fails is a
        Completion with ``finish="failed"`` and does not stop the others."""

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Sends ``requests`` and calls ``on_answer(index, completion)`` once for each, as soon as
        its response arrives, in any order and from any thread. An exception from ``on_answer``
        stops the run."""
        for index, completion in enumerate(self.chat(requests)):
            on_answer(index, completion)

    @abstractmethod
    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Returns a Likelihood for each continuation of each of ``groups``. The shared prefix of a
        group is read once. ``joint`` fills ``prefix_logprob`` too.

        Raises ConfigError for a server, and if a prompt exceeds ``context``.
        """

    @abstractmethod
    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Returns the tokens of ``messages`` as a prompt. For remote models this is an upper
        bound."""

    def require_room(self, tokens: int) -> None:
        """Raises ConfigError if ``tokens`` do not fit ``context``."""
        if tokens > self.context:
            raise ConfigError(
                f"{tokens} tokens do not fit the {self.context} tokens of {self.name}",
                hint="Give fewer turns: drop the oldest first, as a judge does",
            )

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """Returns everything besides the name on which the numbers depend (weights, chat template,
        dtype, ...). The judge's signature contains it as a hash."""

    def cost(self, usage: Usage) -> float | None:
        """Returns the US dollars for ``usage``, or None if no price is known."""
        return None

    def highest_output(self, request: ChatRequest) -> int:
        """Returns the most tokens that the response to ``request`` can take."""
        return request.max_tokens

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Releases connections and memory."""


def likelihood_usage(prompt: int, likelihoods: Iterable[Likelihood]) -> Usage:
    """Returns the usage of a prompt of ``prompt`` tokens that is read once, with all
    ``likelihoods`` of continuations scored on it."""
    scored = sum(len(likelihood.logprobs) for likelihood in likelihoods)
    return Usage(input=prompt + scored)


def likelihoods_by_owner(
    llm: LanguageModel,
    groups: Sequence[Sequence[Continuation]],
    owners: Sequence[object],
    *,
    joint: bool = False,
) -> list[list[Likelihood]]:
    """Returns the likelihoods under ``llm`` of each of ``groups``. ``owners`` has one key for each
    group. Groups of one owner (a dialogue) are one group of the model, which reads shared
    beginnings once. ``joint`` fills ``prefix_logprob`` too."""
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


def oldest_kept(turns: int, fits: Callable[[int], bool]) -> int:
    """Returns the smallest start in [0, ``turns``] for which ``fits(start)`` is true, or ``turns``
    if there is none. ``fits`` is monotone, because fewer turns are fewer tokens."""
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
    """Returns the smallest index from which ``messages`` take at most ``prompt_budget`` tokens of
    ``llm``. The last message stays even if it is too long."""
    last = max(0, len(messages) - 1)
    return oldest_kept(
        last, lambda start: llm.count_tokens(messages[start:]) <= prompt_budget
    )


def closed_schema(fields: Mapping[str, object]) -> dict[str, object]:
    """Returns the schema of an object with exactly these ``fields``, as OpenAI's strict mode
    requires."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def tokens_above(text: str) -> int:
    """Returns an upper bound on the tokens of ``text``, for models whose tokenizer is not here.

    Two letters of a word count as a token (one if it has no vowel or is in capitals), every digit,
    sign and blank as one (the space before a word belongs to it), and every byte of other scripts.
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


def prompt_tokens_above(messages: Sequence[Message]) -> int:
    """Returns the upper bound of ``tokens_above`` for a whole chat of ``messages``."""
    return AROUND_PROMPT + sum(
        AROUND_MESSAGE + tokens_above(m.content) for m in messages
    )
