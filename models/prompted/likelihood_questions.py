"""What G-Eval and GPTScore share: questions about a dialogue, and likelihoods of their answers.

The conversation stands in the prompt before the question, so that all questions about one dialogue,
and about each of its turns, share what they begin with: a language model here reads it once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from medal_judges.config import Config
from medal_judges.dialogue import Turn
from medal_judges.dimension import Dimension, load_rubric
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)
from medal_judges.models.llm.server.stopping import ServerStopError
from medal_judges.models.llm.truncation import oldest_kept
from medal_judges.models.prompted.prompt import ResolvedPrompt, fill, load_prompt, resolve
from medal_judges.signature import content_hash

PREFILL = "prefill"  # the part that an answer begins with


class QuestionConfig(Config):
    """``llm``: see load_llm. ``dimensions``: those of ``rubric`` that are asked (all, unless said).
    ``prompt``: a file of configs/prompts/, ``variant``, ``layout`` and ``language`` which way of
    asking in it. A prompt longer than ``max_tokens`` (or than the model's window) loses whole
    oldest turns."""

    name: str
    llm: Any = "embedded:smollm2"
    rubric: str
    dimensions: tuple[str, ...] = ()
    prompt: str
    variant: str | None = None
    layout: str | None = None
    language: str = "en"
    max_tokens: int = Field(default=4096, ge=64)


class QuestionJudge(Judge):
    """A judge that asks a language model one question a dimension; families read the answers."""

    window = 16  # some seconds to a minute of work: what a kill can lose
    spare = 16  # tokens kept free for prefill and answer

    def __init__(self, config: QuestionConfig) -> None:
        self.base_config = config
        known = {d.name: d for d in load_rubric(config.rubric)}
        if missing := [name for name in config.dimensions if name not in known]:
            raise ConfigError(
                f"{config.name}: the rubric {config.rubric} has no dimension {missing[0]!r}",
                hint=f"it has: {', '.join(known)}",
            )
        self.dimensions = tuple(known[name] for name in config.dimensions or known)
        self.prompt: ResolvedPrompt = resolve(
            load_prompt(config.prompt),
            variant=config.variant,
            layout=config.layout,
            language=config.language,
        )
        self._refuse_what_has_no_value()
        self.llm: LanguageModel = load_llm(config.llm)

    def language_models(self) -> list[LanguageModel]:
        return [self.llm]

    @abstractmethod
    def _values(self, dimension: Dimension) -> dict[str, str]:
        """What goes into the prompt's places, but for ``{dialogue}``."""

    def _parts(self, dimension: Dimension, names: tuple[str, ...]) -> tuple[str, ...]:
        """The parts of a layout that are said about ``dimension``."""
        return names

    def _refuse_what_has_no_value(self) -> None:
        """A place without a value is found when the judge is made, not in the middle of a run."""
        for dimension in self.dimensions:
            for turn in (None, 0):
                self._filled(dimension, turn, ())
            self.prefill(dimension)

    def _filled(self, dimension: Dimension, turn: int | None, turns: Sequence[Turn]) -> str:
        layout = self.prompt.layout
        names = self._parts(dimension, layout.dialogue if turn is None else layout.turn)
        values = self._values(dimension) | {"dialogue": conversation(self.prompt, turns)}
        return fill(self.prompt.template(names), values)

    def prompt_hash(self) -> str:
        """12 hex digits over all that this judge says to the model, dialogues aside."""
        names = (self.prompt.user, self.prompt.assistant)
        said = [
            (self._filled(d, None, ()), self._filled(d, 0, ()), self.prefill(d))
            for d in self.dimensions
        ]
        return content_hash([names, said])

    @property
    def prompt_budget(self) -> int:
        """Tokens that prompt and answer may take."""
        return min(self.base_config.max_tokens, self.llm.context)

    def messages(self, item: ScoreRequest, dimension: Dimension, start: int) -> tuple[Message, ...]:
        """The question about ``dimension``, with the item's turns from ``start`` on."""
        turns = item.dialogue.turns[start : self._end(item)]
        return (Message("user", self._filled(dimension, item.turn, turns)),)

    def prefill(self, dimension: Dimension) -> str:
        """What the answer about ``dimension`` begins with."""
        return fill(self.prompt.parts.get(PREFILL, ""), self._values(dimension))

    def _end(self, item: ScoreRequest) -> int:
        return len(item.dialogue.turns) if item.turn is None else item.turn + 1

    # -- what the base class asks for ------------------------------------------------------------

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        for item in items:
            lengths = {d: self._length(item, d, 0) for d in self.dimensions}
            longest = max(self.dimensions, key=lambda d: lengths[d])
            item.payload, item.tokens = 0, lengths[longest]
            if item.tokens > self.prompt_budget - self.spare:
                item.payload, item.tokens = self._shortened(item, longest)
            item.truncated_turns = item.payload

    def _shortened(self, item: ScoreRequest, dimension: Dimension) -> tuple[int, int]:
        """The first turn that stays, the last one at least, and the tokens of the prompt then."""
        prompt_budget = self.prompt_budget - self.spare
        start = oldest_kept(
            self._end(item) - 1, lambda k: self._length(item, dimension, k) <= prompt_budget
        )
        return start, self._length(item, dimension, start)

    def _length(self, item: ScoreRequest, dimension: Dimension, start: int) -> int:
        return self.llm.count_tokens(self.messages(item, dimension, start))

    def prompt_tokens(self, item: ScoreRequest, dimension: str) -> int:
        """Tokens of the question about ``dimension`` alone."""
        return self._length(item, self.dimension(dimension), item.payload)

    def fits(self, item: ScoreRequest) -> bool:
        """False where not even the judged turn alone fits."""
        return item.tokens <= self.prompt_budget - self.spare

    def too_long(self, item: ScoreRequest) -> str:
        """Why an item that does not fit has no score."""
        return (
            f"a prompt of {item.tokens} tokens with the last turn alone; {self.prompt_budget} fit"
        )

    def _units(self, items: Sequence[ScoreRequest]) -> list[list[int]]:
        """The turns of one dialogue together, as long as they begin at the same turn."""
        units: dict[tuple[str, int], list[int]] = {}
        for i, item in enumerate(items):
            units.setdefault((item.dialogue.id, item.payload), []).append(i)
        return list(units.values())

    def likelihoods(
        self,
        items: Sequence[ScoreRequest],
        answers: Mapping[str, Sequence[str]],
        score_eos: Mapping[str, bool],
    ) -> Iterator[dict[str, list[Likelihood]]]:
        """For each item, in order, dimension -> the likelihood of each of ``answers`` to it.

        ``score_eos``: whether the end of the turn belongs to the answers about a dimension.
        """
        groups = self._units(items)
        asked = [
            [
                Continuation(
                    messages, text, prefill=self.prefill(dimension), score_eos=score_eos[name]
                )
                for i in group
                for name, texts in answers.items()
                for dimension in [self.dimension(name)]
                for messages in [self.messages(items[i], dimension, items[i].payload)]
                for text in texts
            ]
            for group in groups
        ]
        found: dict[int, dict[str, list[Likelihood]]] = {}
        for group, flat in zip(groups, self.llm.loglikelihood(asked), strict=True):
            rest = iter(flat)
            for i in group:
                found[i] = {name: [next(rest) for _ in texts] for name, texts in answers.items()}
        return (found[i] for i in range(len(items)))


def conversation(prompt: ResolvedPrompt, turns: Sequence[Turn]) -> str:
    """One line a turn; line breaks inside a turn become spaces, so that none can pose as a turn."""
    names = {"user": prompt.user, "assistant": prompt.assistant}
    return "\n".join(f"{names[t.role]}: {' '.join(t.content.split())}" for t in turns)


def tells_likelihoods(llm: LanguageModel) -> bool:
    """Whether the backend scores a given text as what the model itself would say in the chat.

    Asked with a word. A server that would read a plain transcript instead (its fingerprint says so)
    is not: each question costs there, and a network that is down is no answer. Raises
    ServerStopError where the server answers nothing at all (a wrong key, an empty account).
    """
    if llm.fingerprint().get("likelihood") == "transcript":
        return False
    try:
        llm.loglikelihood([[Continuation((Message("user", "Hello"),), "Hello", score_eos=False)]])
    except ServerStopError:
        raise
    except ConfigError:
        return False
    return True
