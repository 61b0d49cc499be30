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
    """One message of a chat.

    Attributes:
        role: ``user`` or ``assistant`` for a turn, ``system`` for an instruction.
        content: The text of the message.
    """

    role: ChatRole
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat that a language model is asked to continue, and how.

    Attributes:
        messages: The chat so far.
        max_tokens: The maximum number of tokens of the answer.
        temperature: The sampling temperature. 0 is greedy decoding.
        top_p: Nucleus sampling: tokens are drawn only from the most likely ones that together have
            this probability.
        seed: The seed of the sampling. Each seed has its own answer in the cache.
        schema: A JSON schema for the answer, which the backend enforces if it can.
        top_logprobs: How many alternatives to each token of the answer a server should report.
        presence_penalty: Subtracted once from the logit of each token that is already in the
            answer.
        accept_truncated: Whether an empty or truncated answer is valid.
        frequency_penalty: Subtracted from a token's logit once for each time that the token is
            already in the answer.
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
    """A token of an answer, and the most likely tokens at its position.

    Attributes:
        text: The token.
        logprob: The log-probability of the token.
        alternatives: Token -> its log-probability, for the most likely tokens at this position and
            for ``text``. Empty if the server reports no other token.
    """

    text: str
    logprob: Logprob
    alternatives: Mapping[str, Logprob] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a language model to a request.

    Attributes:
        text: The answer, without the prompt. Empty if there is none.
        finish: ``stop`` (ended by the model), ``length`` (cut at the token limit) or ``failed`` (no
            answer).
        failure: Why there is no answer, or that the answer was truncated. None for a valid answer.
        enforced: Whether the backend enforced the JSON schema of the request.
        tokens: The tokens of ``text`` with log-probabilities, if the request has ``top_logprobs``
            and the server reports them. Otherwise empty.
        usage: The tokens, time and money that the request took.
        transient: Whether the same request may succeed later, for example after a time-out.
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
        """Whether there is no answer, not even a truncated one."""
        return self.finish == "failed"

    def with_usage(self, **changes: Any) -> Completion:
        """Returns a copy with ``changes`` in its usage, such as ``seconds=1.5``."""
        return replace(self, usage=replace(self.usage, **changes))


def failed_completion(
    reason: str, usage: Usage | None = None, *, transient: bool = False
) -> Completion:
    """Returns a completion without an answer.

    Args:
        reason: Why there is no answer.
        usage: The tokens, time and money that the failed request took. None counts as zero.
        transient: Whether the same request may succeed later.
    """
    return Completion("", "failed", reason, usage=usage or Usage(), transient=transient)


@dataclass(frozen=True, slots=True)
class Continuation:
    """A text to score as the next turn of a chat.

    Attributes:
        messages: The chat before the turn.
        text: The text to score.
        role: Who speaks in the turn.
        prefill: The beginning of the turn, before ``text``. It is not scored.
        score_eos: Whether the token that ends the turn is scored too.
    """

    messages: tuple[Message, ...]
    text: str
    role: ChatRole = "assistant"
    prefill: str = ""
    score_eos: bool = True


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The log-probabilities of a scored text, given the text before it (the prefix).

    Attributes:
        logprobs: The log-probability of each token of the scored text.
        prefix_logprob: The summed log-probability of the prefix, or None if it is not computed.
        prefix_tokens: The number of tokens of the prefix. If a decoder reads the prefix, its first
            token does not count, because it has no log-probability.
    """

    logprobs: tuple[Logprob, ...]
    prefix_logprob: Logprob | None = None
    prefix_tokens: Count = 0

    @property
    def total(self) -> float:
        """The summed log-probability of the scored text, given its prefix."""
        return sum(self.logprobs)

    @property
    def mean(self) -> float:
        """The mean log-probability of a token of the scored text, given its prefix."""
        return self.total / len(self.logprobs)


OnAnswer = Callable[[int, Completion], None]


class LanguageModel(ABC):
    """Base class of language models, on this machine or on a server.

    Attributes:
        name: The name of the model, such as ``openai/gpt-4.1-mini``, without paths or secrets.
        context: The context length in tokens, for prompt and answer together.
        api: Whether a server runs the model. Such a model may cost money and gives no likelihoods.
        private: Whether the model runs on this machine or in its private network, and so costs
            nothing.
        at_once: How many requests the model answers at the same time.
        counts: How many answers came from the cache (``kept``) and how many were requested from the
            model (``asked``), such as ``{"kept": 3, "asked": 7}``.
        limiter: The cost limit, or None for a model that costs nothing.
        renews: Whether to ask the model again even if an answer is in the cache.
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
        completion has ``finish="failed"``, and the other requests are still answered."""

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Answers each of ``requests``, and hands over each answer as soon as it is known.

        Args:
            on_answer: A function that is called with the index of a request in ``requests`` and its
                completion, in any order and from any thread.
        """
        for index, completion in enumerate(self.chat(requests)):
            on_answer(index, completion)

    @abstractmethod
    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Computes how likely the model is to write given texts (continuations), each as the next
        turn of a chat.

        Args:
            groups: Lists of continuations, such as all continuations of one dialogue. The beginning
                that the chats in a list share is computed once.
            joint: Whether to compute the log-probability of the chat before each text too.

        Returns:
            For each list, the likelihoods of its continuations, in order.

        Raises:
            ConfigError: A server runs the model, a text is empty, or a text and its chat are longer
                than ``context``.
        """

    @abstractmethod
    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Returns the number of tokens of a prompt with ``messages``, or an upper bound for a model
        on a server."""

    def require_room(self, tokens: int) -> None:
        """Raises ConfigError if ``tokens`` is more than ``context``."""
        if tokens > self.context:
            raise ConfigError(
                f"{tokens} tokens do not fit the {self.context} tokens of {self.name}",
                hint="Give fewer turns: drop the oldest first, as a judge does",
            )

    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """Returns the properties of the model on which its answers depend, such as ``{"weights":
        HASH, "dtype": "float32"}``. The name is not among them."""

    def cost(self, usage: Usage) -> float | None:
        """Returns the price of ``usage`` in US dollars, or None if it is unknown."""
        return None

    def max_output_tokens(self, request: ChatRequest) -> int:
        """Returns the maximum number of output tokens for ``request``, including reasoning."""
        return request.max_tokens

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Releases connections and memory."""


def likelihood_usage(prompt: int, likelihoods: Iterable[Likelihood]) -> Usage:
    """Returns a Usage whose ``input`` is the number of tokens that the model reads to compute
    ``likelihoods``.

    Args:
        prompt: The number of tokens of the prompt that all scored texts share. It counts once.
        likelihoods: The likelihoods of the texts after this prompt.
    """
    scored = sum(len(likelihood.logprobs) for likelihood in likelihoods)
    return Usage(input=prompt + scored)


def score_groups(
    llm: LanguageModel,
    groups: Sequence[Sequence[Continuation]],
    owners: Sequence[object],
    *,
    joint: bool = False,
) -> list[list[Likelihood]]:
    """Computes how likely ``llm`` is to write given texts (continuations), each as the next turn of
    a chat.

    Args:
        groups: Lists of continuations.
        owners: For each list in ``groups``, any key, such as the id of its dialogue. For all lists
            with the same key, the beginning that their chats share is computed once.
        joint: Whether to compute the log-probability of the chat before each text too.

    Returns:
        For each list, the likelihoods of its continuations, in order.

    Raises:
        ConfigError: The model gives no likelihoods, a text is empty, or a text and its chat are
            longer than the model's context.
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
    """Returns how many of a dialogue's oldest turns must be dropped so that the rest fits. It is
    the smallest such number.

    Args:
        turns: The maximum number of turns to drop. If nothing fits, this number is returned.
        fits: A function that takes a number of dropped turns, and returns whether the rest fits. If
            a number fits, all larger numbers must fit too.
    """
    low, high = 0, turns  # by bisection
    if fits(0):
        return 0
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return high


def first_kept_index(
    messages: Sequence[Message], llm: LanguageModel, prompt_budget: int
) -> int:
    """Returns the index of the oldest message that can stay so that the prompt has at most
    ``prompt_budget`` tokens.

    The last message always stays, even if it is too long.

    Args:
        messages: The messages of the prompt, oldest first.
        llm: The language model whose tokens are counted.
        prompt_budget: The maximum number of tokens of the prompt.
    """
    last = max(0, len(messages) - 1)
    return first_fitting_start(
        last, lambda start: llm.count_tokens(messages[start:]) <= prompt_budget
    )


def strict_object_schema(fields: Mapping[str, object]) -> dict[str, object]:
    """Returns the JSON schema of an object that must have all of ``fields`` and no others, as
    OpenAI's strict mode requires.

    Args:
        fields: Field -> its JSON schema, such as ``{"score": {"type": "number"}}``.
    """
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def max_token_count(text: str) -> int:
    """Returns an upper bound on the number of tokens of ``text``, for models whose tokenizer is not
    on this machine."""
    # In a word of ASCII letters two letters count as one token, or each if no vowel is lower-case.
    # Each digit and sign counts as one, a space before a word as none, and outside ASCII each byte.
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


def prompt_token_bound(messages: Sequence[Message]) -> int:
    """Returns an upper bound on the number of tokens of a prompt with ``messages``."""
    return AROUND_PROMPT + sum(
        AROUND_MESSAGE + max_token_count(m.content) for m in messages
    )
