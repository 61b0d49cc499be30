"""Questions with an answer that has to be of a certain form, asked again with the reason if not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from medal_judges.models.llm.protocol import ChatRequest, Completion, LanguageModel, Usage
from medal_judges.models.prompted.parsing.json_text import NotJson, objects_in, strict_json
from medal_judges.models.prompted.parsing.thinking import after_thinking

T = TypeVar("T")


class UnusableError(ValueError):
    """An answer cannot be used; the text says why, for the model and for the record."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """``request(reason, attempt)`` words it, with the reason why the last answer was of no use;
    ``read`` takes the answer apart and raises UnusableError."""

    request: Callable[[str | None, int], ChatRequest]
    read: Callable[[Mapping[str, Any]], T]


@dataclass(slots=True)
class Outcome(Generic[T]):
    """What was read, or None and the ``reason`` of the last attempt; ``tries`` counts requests."""

    value: T | None = None
    reason: str | None = None
    tries: int = 0
    usage: list[Usage] = field(default_factory=list)


def ask(llm: LanguageModel, questions: Sequence[Question[T]], tries: int) -> list[Outcome[T]]:
    """One outcome a question, in order; all that wait for an answer are asked in one call.

    A request that the backend itself could not get answered is not asked again: it has tried.
    """
    outcomes: list[Outcome[T]] = [Outcome() for _ in questions]
    waiting = list(range(len(questions)))
    for attempt in range(tries):
        requests = [questions[i].request(outcomes[i].reason, attempt) for i in waiting]
        answers = llm.chat(requests) if requests else []
        again = []
        for i, completion in zip(waiting, answers, strict=True):
            _take(outcomes[i], questions[i], completion)
            if outcomes[i].reason is not None and completion.finish != "failed":
                again.append(i)
        waiting = again
    return outcomes


def _take(outcome: Outcome[T], question: Question[T], completion: Completion) -> None:
    outcome.tries += 1
    outcome.usage.append(completion.usage)
    try:
        outcome.value, outcome.reason = question.read(_object_of(completion)), None
    except UnusableError as error:
        cut = " (the answer was cut at its token limit)" if completion.finish == "length" else ""
        outcome.reason = f"{error}{cut}"


def _object_of(completion: Completion) -> Mapping[str, Any]:
    """The one JSON object of an answer, strict JSON first; models may think or talk before it, but
    of several that differ none is taken."""
    if completion.finish == "failed":
        raise UnusableError(completion.failure or "no answer came")
    try:
        whole = strict_json(completion.text.strip())
    except NotJson:
        whole = None
    if isinstance(whole, dict):
        return whole
    spoken = after_thinking(completion.text)
    if spoken is None:
        raise UnusableError("the reasoning did not come to an end")
    told = [each.value for each in objects_in(spoken[0])]
    if not told:
        said = "no JSON object was in the answer" if spoken[0].strip() else "the answer was empty"
        raise UnusableError(said)
    if any(value != told[0] for value in told):
        raise UnusableError(f"{len(told)} JSON objects that differ were in the answer")
    return told[0]


@dataclass(slots=True)
class Spending:
    """What a run took: requests that were paid for this time, tokens, and dollars where known."""

    requests: int = 0
    kept: int = 0
    input: int = 0
    output: int = 0
    money: float | None = None

    def add(self, usage: Usage) -> None:
        """Count one answer; a kept one took nothing this time."""
        if usage.from_cache:
            self.kept += 1
            return
        self.requests += 1
        self.input += usage.input
        self.output += usage.output
        if usage.money is not None:
            self.money = (self.money or 0.0) + usage.money

    def __str__(self) -> str:
        kept = f" ({self.kept} answers were kept from before)" if self.kept else ""
        paid = "" if self.money is None else f", ${self.money:.4f}"
        asked = f"{self.requests} requests{kept}"
        return f"{asked}, {self.input} tokens in and {self.output} out{paid}"
