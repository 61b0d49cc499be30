"""Builds the messages of a request, and the schema of its answer, from a prompt and a dialogue."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import field_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.base.turn_features import words
from medal_judges.models.llm.cost import spent, total_usage
from medal_judges.models.llm.protocol import (
    ChatRequest,
    LanguageModel,
    Message,
    closed_schema,
    usage_of,
)
from medal_judges.models.prompted.answers import AnswerField, Scale
from medal_judges.models.prompted.prompt import (
    Aspect,
    ResolvedPrompt,
    fenced,
    fenced_dialogue,
    fill,
    transcript,
)
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import (
    UNKNOWN_LANGUAGE,
    Dialogue,
    Turn,
    language_name,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import mean, rescale

MOST_LISTED = 11  # a schema lists this many whole numbers, and bounds longer scales
# Name, good end and scale of the dimension that prompts explain by its levels.
FIVE_LEVELS = ("overall", "high", (1, 5))
PREFILL = "prefill"  # the part that an answer begins with
# Further values for a dimension's placeholders, which override the builder's own.
DimensionValues = Callable[[Dimension, Aspect], Mapping[str, str | None]]


Context = Literal[
    "full", "last_40", "first_40", "first_20_last_20", "summary_50", "summary_150"
]
_SHARES: dict[str, tuple[float, float]] = {
    "last_40": (0.0, 0.4),
    "first_40": (0.4, 0.0),
    "first_20_last_20": (0.2, 0.2),
}


@dataclass(slots=True)
class PromptView:
    """The turns that a prompt shows (None marks a gap). A judged turn is in ``response`` or, with
    ``last_judged``, the last of them; neither if the whole dialogue is judged. ``start``: how many
    turns did not fit. With a ``failure`` no question is sent.
    """

    turns: list[Turn | None]
    response: Turn | None = None
    id: str | None = None
    lang: str = UNKNOWN_LANGUAGE
    last_judged: bool = False
    start: int = 0
    left_out: int = 0
    shortened: int = 0
    usage: dict[str, float] = dataclasses.field(default_factory=dict)
    failure: str | None = None
    transient: bool = False


@dataclass(frozen=True, slots=True)
class PromptQuestion:
    """One request about one or several dimensions."""

    dimensions: tuple[Dimension, ...]
    fields: tuple[AnswerField, ...]


class PromptBuilder:
    """Builds the prompts for a fixed list of dimensions; arguments as in BasePromptedConfig.

    ``values``: further placeholders of a judge. A part NAME_binary replaces NAME for a binary
    dimension, NAME_other for one without criteria. ``fence``: the sentence before turns between
    marks (prompt.py); None: a plain transcript.
    """

    def __init__(
        self,
        resolved: ResolvedPrompt,
        dimensions: Sequence[Dimension],
        role: str | None = None,
        *,
        examples: Sequence[ScoredExample] = (),
        excerpt: int = 0,
        seed: int = 0,
        values: DimensionValues | None = None,
        fence: str | None = None,
    ) -> None:
        self.resolved, self.role = resolved, role
        self.fence, self.more_values = fence, values
        self.examples, self.excerpt, self.seed = tuple(examples), excerpt, seed
        self.names = {"user": resolved.user, "assistant": resolved.assistant}
        # Whether a judged turn has a placeholder of its own; else it ends the dialogue.
        self.response_apart = "{response}" in resolved.template(resolved.layout.turn)
        if role not in (None, "none") and role not in resolved.roles:
            roles = ", ".join([*resolved.roles, "none"])
            raise ConfigError(
                f"the prompt has no role {role!r}", hint=f"it has: {roles}"
            )
        groups: list[tuple[Dimension, ...]] = [(dimension,) for dimension in dimensions]
        if resolved.layout.ask == "together":
            groups = [tuple(dimensions)]
        self.questions = tuple(map(self._question, groups))
        self.values = {question: self._values(question) for question in self.questions}
        blank = dict.fromkeys(("dialogue", "response", "examples", "language"), "-")
        for values_of_question in self.values.values():
            # A missing value is an error before a run, not in it.
            for names in (resolved.layout.dialogue, resolved.layout.turn, (PREFILL,)):
                resolved.text(names, values_of_question | blank)

    def _question(self, dimensions: tuple[Dimension, ...]) -> PromptQuestion:
        fields = []
        for dimension in dimensions:
            aspect, name = self.aspect(dimension), dimension.name
            field = AnswerField(
                name=name,
                key=aspect.key or name,
                label=aspect.label or name.replace("_", " "),
                scale=self.scale(dimension),
                binary=dimension.kind == "binary",
            )
            fields.append(field)
        return PromptQuestion(dimensions, tuple(fields))

    def aspect(self, dimension: Dimension) -> Aspect:
        """Returns the prompt's texts about ``dimension``."""
        return self.resolved.aspects.get(dimension.name, Aspect())

    def scale(self, dimension: Dimension) -> Scale:
        """The requested scale."""
        return self.aspect(dimension).scale or (dimension.low, dimension.high)

    def is_whole(self, dimension: Dimension) -> bool:
        """Whether the prompt requests whole numbers."""
        aspect = self.aspect(dimension)
        return aspect.whole and (
            dimension.kind != "continuous" or aspect.scale is not None
        )

    def to_dimension(self, value: float | None, dimension: Dimension) -> float | None:
        """Maps ``value`` from the requested scale to the dimension's scale (ORALIS, Equation 1)."""
        target, requested = (dimension.low, dimension.high), self.scale(dimension)
        if value is None or requested == target:
            return value
        return rescale(value, requested, target)

    # -- texts ---------------------------------------------------------------------------------

    def messages(
        self,
        question: PromptQuestion,
        view: PromptView,
        start: int = 0,
        dialogue: str | None = None,
    ) -> tuple[Message, ...]:
        """Returns the messages of a request with the view's turns from ``start`` on, or with the
        text ``dialogue`` in their place."""
        layout = self.resolved.layout
        is_turn = view.last_judged or view.response is not None
        level, names = "dialogue", layout.dialogue
        if is_turn:
            level, names = "turn", layout.turn
        if not names:
            raise ConfigError(f"this prompt's layout does not judge at level {level!r}")
        dialogue = dialogue or self._transcript(view.turns[start:])
        if self.fence is not None:
            dialogue = f"{self.fence}\n\n{dialogue}"
        values = self.values[question] | {
            "dialogue": dialogue,
            "response": "",
            "examples": self._examples(question, view.id),
            "language": language_name(view.lang),
        }
        if view.response:
            is_fenced = self.fence is not None
            values["response"] = _response_text(view.response, fence=is_fenced)
        text = self.resolved.text(self._part_names(question, names), values)
        messages = (Message("user", text),)
        system = self.resolved.text(self._part_names(question, layout.system), values)
        if system:
            return (Message("system", system), *messages)
        return messages

    def _part_names(
        self, question: PromptQuestion, names: Sequence[str]
    ) -> Sequence[str]:
        """Returns ``names``, each replaced by its form for the only dimension, if it has one."""
        if len(question.dimensions) > 1:
            return names
        dimension = question.dimensions[0]
        endings = {
            "_binary": dimension.kind == "binary",
            "_other": not self.aspect(dimension).criteria,
        }
        chosen = []
        for name in names:
            for ending, applies in endings.items():
                if applies and name + ending in self.resolved.parts:
                    name += ending
            chosen.append(name)
        return chosen

    def prefill(self, question: PromptQuestion) -> str:
        """The beginning of the answer."""
        return self.resolved.text((PREFILL,), self.values[question])

    def _transcript(self, turns: Sequence[Turn | None]) -> str:
        if self.fence is None:
            return transcript(turns, self.names, gap=self.resolved.gap)
        return fenced_dialogue(turns, gap=self.resolved.gap)

    def _values(self, question: PromptQuestion) -> dict[str, str | None]:
        """The values of the placeholders that do not depend on the dialogue."""
        lines: list[str] = []
        overall = None
        issues, qualities, scales = list[str](), list[str](), list[str]()
        by_dimension = list(map(self._dimension_values, question.dimensions))
        for dimension, values in zip(question.dimensions, by_dimension, strict=True):
            aspect = self.resolved.parts.get("aspect", "")
            if dimension.kind != "binary":
                aspect = self.resolved.parts.get("aspect_scale", aspect)
            line = fill(aspect, values)
            scale = dimension.name, dimension.good, self.scale(dimension)
            lines.append(line)
            if dimension.kind == "binary" and dimension.good == "low":
                issues.append(line)
            elif dimension.kind == "binary":
                qualities.append(line)
            elif scale == FIVE_LEVELS:
                overall = values["key"]
            else:
                scales.append(line)
        values = by_dimension[0]
        if len(by_dimension) > 1:
            values = {"role": values["role"]}
        return values | {
            # The part about an absent kind is left out.
            "issues": "\n".join(issues) or None,
            "qualities": "\n".join(qualities) or None,
            "scales": "\n".join(scales) or None,
            "overall": overall,
            "aspects": "\n".join(lines),
            "form": self._form(question),
        }

    def _dimension_values(self, dimension: Dimension) -> dict[str, str | None]:
        """The values of the placeholders about one dimension."""
        aspect, (low, high) = self.aspect(dimension), self.scale(dimension)
        values: dict[str, str | None] = {
            "key": aspect.key or dimension.name,
            "label": aspect.label or dimension.name.replace("_", " "),
            "definition": (aspect.definition or dimension.definition).strip(),
            "criteria": aspect.criteria.strip(),
            "low": f"{low:g}",
            "high": f"{high:g}",
            "low_means": aspect.low_means or None,
            "high_means": aspect.high_means or None,
            "bands": self._bands(dimension),
            "best": None,
            "role": "",
        }
        if dimension.kind != "binary":
            values["best"] = values[dimension.good]
        role = aspect.role if self.role is None else self.role
        if role and role != "none":
            values["role"] = fill(self.resolved.roles[role], values)
        if self.more_values:
            values |= self.more_values(dimension, aspect)
        return values

    def _bands(self, dimension: Dimension) -> str:
        """Describes equal shares of the scale from the lowest up (ORALIS, appendix C.5: 0-20,
        21-40, ...)."""
        lines, (low, high) = [], self.scale(dimension)
        bands, start = self.aspect(dimension).bands, low
        for number, band in enumerate(bands, 1):
            end = next_start = low + (high - low) * number / len(bands)
            if self.is_whole(dimension):
                end = math.floor(end + 1e-9)
                next_start = end + 1
            span = f"{start:g}"
            if start != end:
                span += f"-{end:g}"
            lines.append(f"- {span}: {band}")
            start = next_start
        return "\n".join(lines)

    def _form(self, question: PromptQuestion) -> str:
        """The shape of a JSON answer, with one entry per dimension."""
        answer = self.resolved.answer
        forms = []
        for field in question.fields:
            low, high = field.scale
            form = f"<{low:g} to {high:g}>"
            if field.binary:
                form = "<0 or 1>"
            if answer.comment is not None:
                form = f'{{"{answer.score}": {form}, "{answer.comment}": "..."}}'
            if self.resolved.layout.ask == "together":
                form = f'  "{field.key}": {form}'
            elif answer.comment is None:
                form = f'{{"{answer.score}": {form}}}'
            forms.append(form)
        if self.resolved.layout.ask == "together":
            return "{\n" + ",\n".join(forms) + "\n}"
        return forms[0]

    def _examples(self, question: PromptQuestion, judged_id: str | None) -> str:
        """The scored examples of the prompt, without the dialogue ``judged_id``."""
        if not self.resolved.examples or not self.examples:
            return ""
        dimension, count = question.dimensions[0], self.resolved.examples
        low, high = self.scale(dimension)
        texts = []
        for example in chosen_examples(
            self.examples, dimension.name, count, seed=self.seed, without=judged_id
        ):
            dialogue = example.summary
            if self.excerpt or not dialogue:
                dialogue = self._transcript(example.turns[-self.excerpt :])
            score = low + example.scores[dimension.name] * (high - low)
            if self.is_whole(dimension):
                score = round(score)
            values = {"dialogue": dialogue, "score": f"{score:g}"}
            texts.append(fill(self.resolved.parts["example"], values))
        return "\n\n".join(texts)

    # -- the schema ----------------------------------------------------------------------------

    def schema(
        self, question: PromptQuestion, comment_chars: int | None
    ) -> dict[str, object]:
        """The JSON schema of an answer; ``comment_chars`` bounds each comment."""
        answer, comments = self.resolved.answer, dict[str, object]()
        if answer.comment:
            comment: dict[str, object] = {"type": "string"}
            if comment_chars is not None:
                comment["maxLength"] = comment_chars
            comments[answer.comment] = comment
        properties: dict[str, object] = {}
        for dimension, field in zip(question.dimensions, question.fields, strict=True):
            low, high = self.scale(dimension)
            number: dict[str, object] = {
                "type": "number",
                "minimum": low,
                "maximum": high,
            }
            if self.is_whole(dimension):
                low, high = int(low), int(high)
                number = {"type": "integer", "minimum": low, "maximum": high}
                if high - low < MOST_LISTED:
                    number = {"type": "integer", "enum": list(range(low, high + 1))}
            if self.resolved.layout.ask == "each":
                return closed_schema({answer.score: number} | comments)
            if comments:
                number = closed_schema({answer.score: number} | comments)
            properties[field.key] = number
        return closed_schema(properties)


# -- scored examples for one-shot and few-shot prompts (ORALIS, section 4.2) ----------


class ScoredExample(Config):
    """A dialogue with its scores per dimension on [0, 1], and a ``summary`` to show instead."""

    id: str
    turns: tuple[Turn, ...]
    scores: Mapping[str, float]
    summary: str | None = None

    @field_validator("scores")
    @classmethod
    def _on_unit(cls, value: Mapping[str, float]) -> Mapping[str, float]:
        for name, score in value.items():
            if not 0 <= score <= 1:
                raise ValueError(f"scores lie in [0, 1], not {name}: {score}")
        return value


class ExampleFile(Config):
    """Reviewed examples; ``source`` says where they come from."""

    source: str
    examples: tuple[ScoredExample, ...]


def load_examples(path: str) -> tuple[ScoredExample, ...]:
    """Returns the examples of a YAML file, or of a file of labelled dialogues: the mean rating of
    each dimension whose scale is stated, and the field ``summary``."""
    if not Path(path).is_file() or path.endswith((".yaml", ".yml")):
        return build_config(ExampleFile, read_yaml(path), where=path).examples
    examples = []
    for row in read_labelled(path):
        scores = {}
        for rating in row.ratings():
            value = mean(rating)
            if value is not None and rating.scale is not None:
                scores[rating.dimension] = rescale(value, rating.scale, (0.0, 1.0))
        summary = row.extra.get("summary")
        examples.append(
            ScoredExample(
                id=row.id, turns=row.dialogue.turns, scores=scores, summary=summary
            )
        )
    return tuple(examples)


def chosen_examples(
    examples: Sequence[ScoredExample],
    dimension: str,
    count: int,
    *,
    seed: int,
    without: str | None,
) -> list[ScoredExample]:
    """``count`` 1: near the median. 3: lowest, near the median, highest. ``seed`` draws among
    equals. The dialogue called ``without`` is never its own example."""
    scored = [e for e in examples if dimension in e.scores and e.id != without]
    if len(scored) < count:
        raise ConfigError(
            f"{len(scored)} examples have a score for {dimension!r}, the prompt shows {count}",
            hint="examples=FILE with more dialogues, or variant=zero_shot",
        )
    generator = np.random.default_rng(seed)
    scores = np.array([example.scores[dimension] for example in scored])
    median = float(np.median(scores))
    targets = [median]
    if count > 1:
        # The ends choose first; a median at an end chooses last of all.
        targets = sorted([0.0, median, 1.0], key=lambda target: target == median)
    chosen: list[int] = []
    for target in targets:
        gaps = np.abs(scores - target)
        gaps[chosen] = np.inf
        nearest = np.flatnonzero(gaps == gaps.min())
        chosen.append(int(nearest[generator.integers(len(nearest))]))
    chosen.sort(key=lambda index: scores[index])
    return [scored[index] for index in chosen]


# -- the part of a dialogue that a prompt shows (ORALIS, section 4.2) ------------------------------


def view_of(
    dialogue: Dialogue, turn: int | None, context: Context, *, apart: bool
) -> PromptView:
    """Returns the view of ``dialogue``. The judged ``turn`` is in ``response`` if ``apart``, else
    it is the last shown turn."""
    turns, response = list(dialogue.turns), None
    if turn is not None:
        del turns[turn + 1 :]
        if apart:
            response = turns.pop()
    view = PromptView(
        [],
        response,
        dialogue.id,
        dialogue.lang,
        last_judged=turn is not None and not apart,
    )
    indices = shown_turns(turns, context)
    view.left_out = len(turns) - len(indices)
    for before, index in pairwise([-1, *indices]):
        if before >= 0 and index > before + 1:
            view.turns.append(None)
        view.turns.append(turns[index])
    return view


def shown_turns(turns: Sequence[Turn], context: Context) -> list[int]:
    """Returns the indices of the turns that ``context`` shows. If they would include no turn of the
    assistant, the shown part grows towards the middle until it does."""
    count = len(turns)
    if context not in _SHARES:
        return list(range(count))
    first, last = (math.ceil(share * count) for share in _SHARES[context])
    begin = max(first, count - last)
    assistant = [i for i, turn in enumerate(turns) if turn.role == "assistant"]
    if assistant and first <= assistant[0] and assistant[-1] < begin:
        if last:
            begin = assistant[-1]
        else:
            first = assistant[0] + 1
    return [*range(first), *range(begin, count)]


def _response_text(response: Turn, *, fence: bool) -> str:
    if fence:
        return fenced("response", response.content)
    return " ".join(response.content.split())


def shorten(
    views: Sequence[PromptView],
    llm: LanguageModel,
    prompt: ResolvedPrompt,
    context: Context,
    *,
    longest: int,
    dialogue: int,
    fence: bool,
) -> None:
    """Replaces the assistant's turns of more than ``longest`` words, in dialogues of more than
    ``dialogue`` words (ORALIS: 200 and 3,000), by the model's summaries of as many words as
    ``context`` says."""
    summary_words = int(context.removeprefix("summary_"))
    places, requests = [], []
    for view in views:
        for index, turn in _long_turns(view, longest, dialogue):
            response = _response_text(turn, fence=fence)
            values = {"words": str(summary_words), "response": response}
            message = Message("user", prompt.text(prompt.layout.dialogue, values))
            requests.append(ChatRequest((message,), max_tokens=6 * summary_words))
            places.append((view, index))
    if not requests:
        return
    answers = llm.chat(requests)
    for (view, index), request, answer in zip(places, requests, answers, strict=True):
        usage = spent([usage_of(llm, request, answer)])
        view.usage = total_usage([view.usage, usage])
        view.shortened += 1
        if answer.finish == "stop" and answer.text.strip():
            view.turns[index] = Turn("assistant", answer.text.strip())
        else:
            reason = answer.failure or f"an answer that ended by {answer.finish!r}"
            view.failure = f"a turn could not be shortened: {reason}"
            view.transient = view.transient or answer.transient


def _long_turns(
    view: PromptView, longest: int, dialogue: int
) -> list[tuple[int, Turn]]:
    """Returns the turns to shorten with their indices; see ``shorten``."""
    total = 0
    long_turns = []
    for index, turn in enumerate(view.turns):
        if turn is not None:
            count = len(words(turn.content))
            total += count
            if turn.role == "assistant" and count > longest:
                long_turns.append((index, turn))
    if total <= dialogue:
        return []
    return long_turns
