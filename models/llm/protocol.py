"""What every language model here can do: answer a chat, and say how likely a text is.

Two calls, in batches: ``chat`` and ``loglikelihood``. Behind them stand transformers, vLLM and any
OpenAI-compatible server; a judge knows none of them by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

ChatRole = Literal["system", "user", "assistant"]
# stop: the model ended by itself. length: it was cut at max_tokens. failed: no answer, see failure.
Finish = Literal["stop", "length", "failed"]


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
    logprob: float
    alternatives: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request took. ``cached`` tokens are part of ``input``, ``reasoning`` of ``output``.

    ``money`` is in US dollars, None where no price is known. ``from_cache``: the answer came from
    the cache of answers, and nothing was spent this time.
    """

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    seconds: float = 0.0
    money: float | None = None
    from_cache: bool = False

    def to_record(self) -> dict[str, float]:
        """Numbers for ``Judgement.usage``; money only where it is known."""
        record: dict[str, float] = {
            "input_tokens": self.input,
            "cached_tokens": self.cached,
            "output_tokens": self.output,
            "reasoning_tokens": self.reasoning,
            "seconds": round(self.seconds, 4),
        }
        if self.money is not None:
            record["money"] = 0.0 if self.from_cache else self.money
        return record


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
    usage: Usage = Usage()
    transient: bool = False


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

    logprobs: tuple[float, ...]
    prefix_logprob: float | None = None
    prefix_tokens: int = 0

    @property
    def total(self) -> float:
        """log p(continuation | prefix)."""
        return sum(self.logprobs)

    @property
    def mean(self) -> float:
        """log p(continuation | prefix) per token."""
        return self.total / len(self.logprobs)


class LanguageModel(ABC):
    """A language model behind the two calls.

    ``name`` is what a signature's ``base`` says: model and backend, no paths and no secrets.
    ``context`` is how many tokens fit, prompt and answer together.
    """

    name: str
    context: int

    @abstractmethod
    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """One completion per request, in order. A request that fails gives a Completion with
        ``finish="failed"`` and its reason: it does not stop the others."""

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

    def close(self) -> None:  # noqa: B027 - nothing to let go of, for most
        """Let go of connections and memory."""
