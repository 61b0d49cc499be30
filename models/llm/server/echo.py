"""Likelihoods from a completions endpoint that echoes its prompt with log-probabilities."""

from __future__ import annotations

from typing import Any

from medal_judges.models.llm.protocol import Continuation, Likelihood
from medal_judges.models.llm.server.retrying import PermanentError, TransientError
from medal_judges.models.llm.server.wire_answer import read_logprob

NO_LOGPROB = "the echo has a number that is no log-probability"
_NAMES = {"user": "User", "assistant": "Assistant"}


def echo_prompt(continuation: Continuation) -> tuple[str, str]:
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


def echo_likelihood(answer: Any, start: int, end: int, joint: bool) -> Likelihood:
    """Likelihood of the characters from ``start`` to ``end`` of the prompt.

    A token that lies across ``start`` belongs to the prefix. Raises as ``echoed_logprobs``, and
    PermanentError where the echo is not of what was sent.
    """
    offsets = getattr(_logprobs(answer), "text_offset", None)
    told = echoed_logprobs(answer)
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


def echoed_logprobs(answer: Any) -> list[float | None]:
    """The log-probability of each token of an echo; None for the first one only, which has none.

    Raises PermanentError where the server does not echo them, TransientError where they cannot be
    log-probabilities.
    """
    told = getattr(_logprobs(answer), "token_logprobs", None)
    if not isinstance(told, list) or len(told) < 2:
        raise PermanentError("the server echoes no log-probabilities")
    if any(value is None for value in told[1:]):
        raise PermanentError("the server does not echo a log-probability for each token")
    read = [read_logprob(value) for value in told[1:]]
    if any(value is None for value in read):
        raise TransientError(NO_LOGPROB, billed=True)
    return [read_logprob(told[0]), *read]


def _logprobs(answer: Any) -> Any:
    choices = getattr(answer, "choices", None)
    first = choices[0] if isinstance(choices, list) and choices else None
    return getattr(first, "logprobs", None)
