"""Likelihoods from a completions endpoint that echoes its prompt with log-probabilities."""

from __future__ import annotations

from typing import Any

from medal_judges.models.llm.protocol import Continuation, Likelihood
from medal_judges.models.llm.retrying import PermanentError

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
    lead = f" {c.lead.strip()}" if c.lead.strip() else ""
    end = "\n" if c.closed else ""
    return "".join(lines) + f"{_NAMES[c.role]}:{lead}", f" {c.text.strip()}{end}"


def echo_likelihood(answer: Any, start: int, end: int, joint: bool) -> Likelihood:
    """Likelihood of the characters from ``start`` to ``end`` of the prompt.

    A token that lies across ``start`` belongs to the prefix. Raises PermanentError where the server
    did not echo.
    """
    found = answer.choices[0].logprobs if answer.choices else None
    if found is None or not found.token_logprobs or not found.text_offset:
        raise PermanentError("the server echoes no log-probabilities")
    pairs = list(zip(found.text_offset, found.token_logprobs, strict=True))
    scored = tuple(float(p) for at, p in pairs if start <= at < end and p is not None)
    before = [float(p) for at, p in pairs if at < start and p is not None]
    if not scored:
        raise PermanentError("the server echoes fewer characters than it was sent")
    return Likelihood(scored, sum(before) if joint else None, len(before))
