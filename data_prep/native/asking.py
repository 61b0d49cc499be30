"""Questions whose answer is a JSON object of a certain form, asked again with the reason if not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import Field

from medal_judges import __version__
from medal_judges.config import Config
from medal_judges.errors import ConfigError, MedalError
from medal_judges.inference.dry_run import DryRun
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.counting import CountingModel
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Completion, LanguageModel
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.models.prompted.answers import find_json
from medal_judges.models.prompted.prompt import load_prompt
from medal_judges.records.signature import Signature, content_hash

T = TypeVar("T")


class AskingConfig(Config):
    """How a model is asked. ``tries`` counts the requests for one answer; ``at_once`` is how many
    items are worked on together; ``enforce`` sends the answer's JSON schema along."""

    llm: LLMConfig
    prompt: str
    tries: int = Field(default=3, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=4096, ge=1)
    enforce: bool = True
    at_once: int = Field(default=64, ge=1)
    seed: int = Field(default=0, ge=0)

    def load_model(self, max_cost: float | None = None) -> LanguageModel:
        """The model, held to ``max_cost`` US dollars. Raises ConfigError for a limit where nothing
        is paid: on a model that is not behind an API."""
        if max_cost is None:
            return load_llm(self.llm)
        if not self.llm.api:
            raise ConfigError("--max-cost goes with models behind an API", hint="leave it out")
        return load_llm(self.llm.model_copy(update={"max_cost": max_cost}))


class UnusableError(ValueError):
    """An answer cannot be used; the text says why, for the model and for the record."""


@dataclass(frozen=True, slots=True)
class JsonQuestion(Generic[T]):
    """``values`` fill the prompt's placeholders, ``properties`` are those of the answer's schema,
    all required; ``read`` takes the answer apart and raises UnusableError."""

    values: Mapping[str, str | None]
    properties: Mapping[str, object]
    read: Callable[[Mapping[str, object]], T]


@dataclass(slots=True)
class Outcome(Generic[T]):
    """What was read, or None and the ``reason`` of the last attempt; ``tries`` counts requests."""

    value: T | None = None
    reason: str | None = None
    tries: int = 0


class JsonAsker:
    """Asks ``llm`` by the prompt file ``prompt``, which has ``placeholders`` and ``reason``, that
    of the attempt before. Raises ConfigError for a prompt file that does not fit."""

    def __init__(
        self, config: AskingConfig, llm: LanguageModel, prompt: str, placeholders: Collection[str]
    ) -> None:
        self.config, self.llm = config, llm
        self.prompt = load_prompt(prompt, {*placeholders, "reason"})
        self._usages: list[Usage] = []

    def signature(self, judge: str, *settings: object, prompts: object = None) -> Signature:
        """What an answer depends on: the model, its decoding, ``settings`` and what is asked."""
        decoding = {"tries", "temperature", "top_p", "max_tokens", "enforce"}
        return Signature(
            judge=judge,
            revision=content_hash(
                [self.config.model_dump(include=decoding), *settings, dict(self.llm.fingerprint())]
            ),
            base=self.llm.name,
            prompt=content_hash([self.prompt.model_dump(), prompts]),
            seed=self.config.seed,
            version=__version__,
        )

    @property
    def spending(self) -> str:
        """What was paid for so far, in words: requests, tokens, and dollars where known."""
        paid = [usage for usage in self._usages if not usage.from_cache]
        amounts = spent(paid)
        cached = len(self._usages) - len(paid)
        text = f"{len(paid)} requests" + (
            f" ({cached} answers came from the cache)" if cached else ""
        )
        text += f", {amounts.get('input_tokens', 0):.0f} tokens in"
        text += f" and {amounts.get('output_tokens', 0):.0f} out"
        return text + (f", ${amounts['money']:.4f}" if "money" in amounts else "")

    def ask(self, questions: Sequence[JsonQuestion[T]]) -> list[Outcome[T]]:
        """One outcome a question, in order; all that wait for an answer are asked in one call.

        A request that the backend itself could not get answered is not asked again: it has tried.
        """
        outcomes: list[Outcome[T]] = [Outcome() for _ in questions]
        waiting = list(range(len(questions)))
        for attempt in range(self.config.tries):
            requests = [self.request(questions[i], outcomes[i].reason, attempt) for i in waiting]
            completions = self.llm.chat(requests) if requests else []
            again = []
            for i, completion in zip(waiting, completions, strict=True):
                self._usages.append(completion.usage)
                _read(outcomes[i], questions[i], completion)
                if outcomes[i].reason is not None and completion.finish != "failed":
                    again.append(i)
            waiting = again
        return outcomes

    def estimate(self, requests: Sequence[ChatRequest], dialogues: int) -> DryRun:
        """What these requests take at most; cached answers are not counted."""
        counting = CountingModel(self.llm)
        counting.chat(requests)
        return DryRun(dialogues, counting.counted())

    def request(
        self, question: JsonQuestion[T], reason: str | None = None, attempt: int = 0
    ) -> ChatRequest:
        """The request of one attempt, with the ``reason`` why the last answer could not be used;
        each attempt samples with another seed."""
        again = [] if reason is None else [{"reason": reason}]
        schema = {
            "type": "object",
            "properties": question.properties,
            "required": list(question.properties),
            "additionalProperties": False,
        }
        return ChatRequest(
            tuple(self.prompt.messages(question.values, again=again)),
            max_tokens=self.config.max_tokens,
            temperature=self.config.temperature,
            top_p=self.config.top_p,
            seed=self.config.seed + attempt,
            schema=schema if self.config.enforce else None,
        )


def require_same(by: Iterable[object], signature: str, out: Path, what: str) -> None:
    """Raise MedalError where ``out`` holds ``what`` of others ``by`` than ``signature``."""
    if others := sorted({str(each) for each in by} - {signature}):
        raise MedalError(
            f"{out} holds {what} by {others[0]!r}, not {signature!r}",
            hint="give another --out, or --overwrite to start again from the beginning",
        )


def _read(outcome: Outcome[T], question: JsonQuestion[T], completion: Completion) -> None:
    outcome.tries += 1
    try:
        outcome.value, outcome.reason = question.read(_object_of(completion)), None
    except UnusableError as error:
        cut = " (the answer was cut at its token limit)" if completion.finish == "length" else ""
        outcome.reason = f"{error}{cut}"


def _object_of(completion: Completion) -> Mapping[str, Any]:
    """The JSON object that the answer is, after any reasoning or in a code fence."""
    if completion.failed:
        raise UnusableError(completion.failure or "no answer")
    found = find_json(completion.text)
    if found is None or not isinstance(found[0], dict):
        raise UnusableError("the answer is not one JSON object and nothing else")
    return dict(found[0])
