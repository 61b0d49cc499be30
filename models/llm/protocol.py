"""What every language model here can do: answer a chat, and say how likely a text is.

Two calls, in batches: ``chat`` and ``loglikelihood``. Behind them stand transformers, vLLM and any
OpenAI-compatible server; a judge knows none of them by name and asks ``capabilities`` where it has
to know how it is served. A ``Wrapper`` (cache, counter, batch API) is a model before a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from medal_judges.models.batching import windows
from medal_judges.models.llm.cost import CostEstimate, CostLimiter, Count, Usage

ChatRole = Literal["system", "user", "assistant"]
# stop: the model ended by itself. length: it was cut at max_tokens. failed: no answer, see failure.
Finish = Literal["stop", "length", "failed"]
# Natural log; a sum may be rounded to a little above 0. What a kept answer is held to when read.
Logprob = Annotated[float, Field(le=1e-3)]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: ChatRole
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question. ``temperature`` 0 is greedy.

    ``schema``: a JSON schema the answer has to follow, enforced where the backend can (the
    completion says whether it was). ``top_logprobs``: how many alternatives to report for each
    token of the answer, 0 for none. ``seed`` goes to the sampler; two requests that differ only in
    their seed are two samples (and two entries of the cache). ``prefill`` is text that the answer
    has to begin with; it is part of the prompt and not of the completion (backends that cannot
    prefill refuse it with ConfigError). ``presence_penalty`` is taken off the logit of every token
    that the answer has already. ``accept_truncated``: an answer that is empty, or cut at
    ``max_tokens``, is an answer: it is no failure and is not asked for again with a higher limit.
    """

    messages: tuple[Message, ...]
    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    top_logprobs: int = 0
    prefill: str = ""
    presence_penalty: float = 0.0
    accept_truncated: bool = False


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A token of an answer: its text, natural-log probability, and the likeliest alternatives
    {token text: log-probability}, the chosen one among them; empty where none beside it is told."""

    text: str
    logprob: Logprob
    alternatives: Mapping[str, Logprob] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer. ``text`` is the completion only, never the prompt.

    ``finish`` "failed" goes with ``failure``, the reason in words; "length" is an answer that was
    cut. ``transient``: what failed passes by itself (a time-out, a server that is down, a limit of
    rate or cost), so that the same request may be answered later. ``enforced`` says that the
    backend held the answer to the request's schema.
    """

    text: str
    finish: Finish = "stop"
    failure: str | None = None
    enforced: bool = False
    tokens: tuple[TokenChoice, ...] = ()
    usage: Usage = field(default_factory=Usage)
    transient: bool = False

    def with_usage(self, **changes: Any) -> Completion:
        """The same answer with some fields of its usage changed."""
        return replace(self, usage=replace(self.usage, **changes))


def failed(reason: str, usage: Usage | None = None, *, transient: bool = False) -> Completion:
    """No answer, and why."""
    return Completion("", "failed", reason, usage=usage or Usage(), transient=transient)


@dataclass(frozen=True, slots=True)
class Continuation:
    """A text whose likelihood is asked: ``text``, said by ``role`` after ``messages``.

    ``prefill`` is said by ``role`` before ``text`` and is not scored. ``score_eos``: the token
    that ends the turn is scored as well, as the last one.
    """

    messages: tuple[Message, ...]
    text: str
    role: ChatRole = "assistant"
    prefill: str = ""
    score_eos: bool = True


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Natural-log probabilities of a continuation's tokens, given all that stands before them.

    ``prefix_logprob`` is the sum over ``prefix_tokens`` tokens before the continuation (None where
    it was not asked for): with it one has the joint log-likelihood.
    """

    logprobs: tuple[Logprob, ...]
    prefix_logprob: Logprob | None = None
    prefix_tokens: Count = 0

    @property
    def total(self) -> float:
        """log p(continuation | prefix)."""
        return sum(self.logprobs)

    @property
    def mean(self) -> float:
        """log p(continuation | prefix) per token."""
        return self.total / len(self.logprobs)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """How a model is served. ``api``: by a server, whose requests may run side by side with other
    models' and may cost money. ``batch_api``: each call waits for a provider's batch API, so one
    large call is worth more than many small ones. ``private``: the server stands on this machine
    or in its private network, and nobody sends a bill."""

    api: bool = False
    batch_api: bool = False
    private: bool = True


@dataclass(slots=True)
class AnswerCounts:
    """How many answers were ``kept`` from before, and how many had to be ``asked`` for."""

    kept: int = 0
    asked: int = 0

    def add(self, *, kept: int, asked: int) -> None:
        """Count more of them."""
        self.kept, self.asked = self.kept + kept, self.asked + asked


OnAnswer = Callable[[int, Completion], None]


class LanguageModel(ABC):
    """A language model behind the two calls.

    ``name`` is what a signature's ``base`` says: model and backend, no paths and no secrets.
    ``context`` is how many tokens fit, prompt and answer together. ``chunk``: requests that are
    asked at a time where answers do not arrive one by one; a kill loses no more than these.
    """

    name: str
    context: int
    capabilities: Capabilities = Capabilities()
    chunk: int = 32

    @abstractmethod
    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """One completion per request, in order. A request that fails gives a Completion with
        ``finish="failed"`` and its reason: it does not stop the others."""

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Ask all ``requests`` and call ``on_answer(index, completion)`` once for each, as soon as
        that answer is there, in any order, failed ones too.

        ``on_answer`` may take milliseconds (it writes to disk) and may be called from any thread;
        an exception out of it stops the run and comes out of here. A run that stops by itself
        (--max-cost) raises: what was reported before stays reported.
        """
        for part in windows(enumerate(requests), self.chunk):
            answers = self.chat([request for _, request in part])
            for (index, _), completion in zip(part, answers, strict=True):
                on_answer(index, completion)

    @abstractmethod
    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Likelihoods in the shape of ``groups``. Continuations of one group share what their
        prompts share: it is read once. ``joint``: fill ``prefix_logprob`` too.

        Raises ConfigError where the backend cannot tell likelihoods, and where a prompt does not
        fit ``context``.
        """

    @abstractmethod
    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens that ``messages`` take in a prompt (an estimate from above for remote models)."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """What else the numbers depend on: weights' revision, hash of the chat template, dtype,
        how a system message is given ... Goes hashed into the judge's signature."""

    def served_identity(self) -> str | None:
        """What tells the weights behind the model's name from others that may stand there later:
        a hash of what a server says of them, None where it says nothing. Goes into the key of kept
        answers, not into the signature. Raises MedalError where the server cannot be reached."""
        return None

    # -- money --------------------------------------------------------------------------------

    @property
    def limiter(self) -> CostLimiter | None:
        """What keeps the model to a limit of cost; None for one that costs nothing."""
        return None

    def spend_from(self, limiter: CostLimiter) -> None:  # noqa: B027 - most cost nothing
        """Let the model's requests count under ``limiter``, which others may share."""

    def cost(self, usage: Usage) -> float | None:
        """US dollars for ``usage``, None where no price is known."""
        return None

    def estimate(
        self, requests: Sequence[ChatRequest], likelihoods: Usage | None = None
    ) -> CostEstimate:
        """What ``requests``, and requests for likelihoods that take ``likelihoods``, can take at
        most, without sending anything."""
        more = likelihoods or Usage()
        read = sum(self.count_tokens(request.messages) for request in requests)
        written = sum(request.max_tokens for request in requests)
        return CostEstimate(len(requests), input=read + more.input, output=written + more.output)

    # -- kept answers (cache.py) --------------------------------------------------------------

    def kept(self, request: ChatRequest) -> Completion | None:
        """The answer that was kept from before, if there is one; nothing is sent."""
        return None

    def answer_counts(self) -> AnswerCounts:
        """How many answers until now were kept from before, and how many were asked for."""
        return AnswerCounts()

    def close(self) -> None:  # noqa: B027 - nothing to let go of, for most
        """Let go of connections and memory."""


class Wrapper(LanguageModel):
    """A model before ``inner``, which it is in everything that a subclass does not change."""

    def __init__(self, inner: LanguageModel) -> None:
        self.inner = inner
        self.name, self.context = inner.name, inner.context
        self.capabilities, self.chunk = inner.capabilities, inner.chunk

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        return collect(self.chat_each, requests)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        self.inner.chat_each(requests, on_answer)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        return self.inner.loglikelihood(groups, joint=joint)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return self.inner.count_tokens(messages)

    def fingerprint(self) -> Mapping[str, str]:
        return self.inner.fingerprint()

    def served_identity(self) -> str | None:
        return self.inner.served_identity()

    @property
    def limiter(self) -> CostLimiter | None:
        return self.inner.limiter

    def spend_from(self, limiter: CostLimiter) -> None:
        self.inner.spend_from(limiter)

    def cost(self, usage: Usage) -> float | None:
        return self.inner.cost(usage)

    def estimate(
        self, requests: Sequence[ChatRequest], likelihoods: Usage | None = None
    ) -> CostEstimate:
        return self.inner.estimate(requests, likelihoods)

    def kept(self, request: ChatRequest) -> Completion | None:
        return self.inner.kept(request)

    def answer_counts(self) -> AnswerCounts:
        return self.inner.answer_counts()

    def close(self) -> None:
        self.inner.close()


def collect(
    chat_each: Callable[[Sequence[ChatRequest], OnAnswer], None], requests: Sequence[ChatRequest]
) -> list[Completion]:
    """The answers of ``chat_each`` in the order of ``requests``; one never reported is failed."""
    answers: dict[int, Completion] = {}
    chat_each(requests, answers.__setitem__)
    return [
        answers.get(index) or failed("the backend reported no answer", transient=True)
        for index in range(len(requests))
    ]


def usage_of(llm: LanguageModel, request: ChatRequest, completion: Completion) -> Usage:
    """The completion's usage; where a server told none, the tokens of its texts as ``llm`` counts
    or estimates them, so that such a judge does not look free."""
    usage = completion.usage
    if completion.finish == "failed" or usage.input or usage.output:
        return usage
    read = llm.count_tokens(request.messages)
    both = llm.count_tokens((*request.messages, Message("assistant", completion.text)))
    return replace(usage, input=read, output=max(0, both - read))


def likelihood_usage(prompt: int, likelihoods: Iterable[Likelihood]) -> Usage:
    """A prompt of ``prompt`` tokens that is read once, and all texts whose likelihood it is asked
    for."""
    return Usage(input=prompt + sum(len(each.logprobs) for each in likelihoods))
