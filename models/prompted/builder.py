"""Builds the messages of a request, and the schema of its answer, from a prompt and a dialogue."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from medal_judges.config import CONFIGS
from medal_judges.errors import ConfigError
from medal_judges.models.base.turn_features import words
from medal_judges.models.llm.cost import sum_to_record, sum_usage_records
from medal_judges.models.llm.protocol import (
    ChatRequest,
    LanguageModel,
    Message,
    strict_object_schema,
)
from medal_judges.models.prompted.answers import AnswerField, AnswerReading, Scale
from medal_judges.models.prompted.prompt import (
    Aspect,
    Prompt,
    fence_dialogue,
    fence_text,
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
from medal_judges.records.signature import content_hash

# Words; longer turns of longer dialogues are shortened (ORALIS, section 4.2).
LONG_TURN, LONG_DIALOGUE = 200, 3000
MOST_LISTED = 11  # a schema lists this many whole numbers, and bounds longer scales
# Name, good end and scale of the dimension that prompts explain by its levels.
FIVE_LEVELS = ("overall", "high", (1, 5))
# The second question of prompts that have no part ``again``.
ASK_AGAIN = "Now reply with the number alone, from {low} to {high}."
# Further values about a dimension, which override the builder's own.
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
    """What a prompt shows of one dialogue.

    Attributes:
        turns: The turns to show, oldest first. None marks a gap where turns are left out.
        response: The turn to score, if the prompt shows it separately from ``turns``. Otherwise
            None.
        id: The dialogue's id.
        lang: The dialogue's language, such as ``de``.
        last_judged: Whether the last of ``turns`` is the turn to score. False if the whole dialogue
            is scored, or if ``response`` is the turn to score.
        start: How many of the oldest turns were removed from ``turns`` to fit the model's context.
            Gaps count as turns.
        left_out: How many turns the judge's setting ``context`` leaves out, such as 6 of 10 with
            ``last_40``.
        shortened: How many long turns are replaced by summaries.
        rendered: Index of a question, from 0 -> the chat messages that ask it.
        usage: The tokens and costs of the summaries, such as ``{"input_tokens": 900.0}``.
        failure: Why the dialogue cannot be scored. None if it can.
        transient: Whether a retry may succeed after ``failure``.
    """

    turns: list[Turn | None]
    response: Turn | None = None
    id: str | None = None
    lang: str = UNKNOWN_LANGUAGE
    last_judged: bool = False
    start: int = 0
    left_out: int = 0
    shortened: int = 0
    rendered: dict[int, tuple[Message, ...]] = dataclasses.field(default_factory=dict)
    usage: dict[str, float] = dataclasses.field(default_factory=dict)
    failure: str | None = None
    transient: bool = False


@dataclass(frozen=True, slots=True)
class PromptQuestion:
    """One question to the model, about one or several dimensions.

    Attributes:
        index: The position of the question, from 0, among all questions about a dialogue.
        dimensions: The dimensions that the question is about.
        fields: The score that the answer should contain for each of ``dimensions``, in the same
            order.
    """

    index: int
    dimensions: tuple[Dimension, ...]
    fields: tuple[AnswerField, ...]


class PromptBuilder:
    """Makes the prompts for a fixed list of dimensions.

    Args:
        prompt: The content of the prompt file.
        dimensions: The dimensions to ask about.
        variant: The wording of the prompt, such as ``few_shot``. None is the first in the prompt
            file.
        layout: The arrangement of the questions, such as ``together`` (one about all dimensions).
            None is the first in the prompt file.
        role: Who the model is told to be, such as ``expert``, or ``"none"`` for no role. None takes
            each dimension's role in the prompt file.
        answer: The answer format, such as ``json``. None is the format in the prompt file.
        examples: Scored dialogues, of which few-shot variants show three.
        excerpt: How many of the last turns of an example to show. 0 shows its summary, or all turns
            if it has none.
        seed: Seeds the choice among equally suitable examples.
        values: A function that takes a dimension and the prompt file's texts about it (an Aspect).
            It returns template variable -> text, such as ``{"criteria": "..."}``. They are added to
            the builder's own variables, or replace them.
        fence: The sentence that explains to the model the tags around turns. None writes no tags.

    Attributes:
        aspects: Dimension -> the prompt file's texts about it.
        scales: Dimension -> the (lowest, highest) score that the prompt asks for.
        questions: All questions about a dialogue.

    Raises:
        ConfigError: The prompt file has no such variant, layout or role, shows no dialogue, or
            needs a template variable that is not given.
    """

    def __init__(
        self,
        prompt: Prompt,
        dimensions: Sequence[Dimension],
        *,
        variant: str | None = None,
        layout: str | None = None,
        role: str | None = None,
        answer: AnswerReading | None = None,
        examples: Sequence[ScoredExample] = (),
        excerpt: int = 0,
        seed: int = 0,
        values: DimensionValues | None = None,
        fence: str | None = None,
    ) -> None:
        self.prompt, self.role = prompt, role
        self.variant = variant or prompt.variants[0]
        self.layout = layout or next(iter(prompt.layouts))
        for kind, name, names in (
            ("variant", self.variant, prompt.variants),
            ("layout", self.layout, prompt.layouts),
            ("role", role or "none", (*prompt.roles, "none")),
        ):
            if name not in names:
                raise ConfigError(
                    f"the prompt {prompt.name!r} has no {kind} {name!r}",
                    hint=f"Use one of: {', '.join(names)}",
                )
        shape = {"format": answer or prompt.answer.format}
        if answer == "prose":
            shape = {"format": "number", "line": "prose"}
        self.answer = prompt.answer.model_copy(update=shape)
        self.together = prompt.layouts[self.layout] == "together"
        self.fence, self.more_values = fence, values
        self.examples, self.excerpt, self.seed = tuple(examples), excerpt, seed
        used = prompt.value_names("user") | prompt.value_names("system")
        if "dialogue" not in used:
            raise ConfigError(
                f"the prompt {prompt.name!r} shows no dialogue",
                hint="Write {{ dialogue }} where the chat belongs",
            )
        # Whether a judged turn has a place of its own; else it ends the dialogue.
        self.response_apart = "response" in used
        self.aspects: dict[str, Aspect] = {}
        self.scales: dict[str, Scale] = {}
        groups: list[tuple[Dimension, ...]] = []
        for dimension in dimensions:
            name, ends = dimension.name, (dimension.low, dimension.high)
            aspect = self.aspects[name] = prompt.aspects.get(name, Aspect())
            self.scales[name] = aspect.scale or ends
            if name in prompt.aspects:
                self.scales[name] = prompt.scales.get(self.variant, self.scales[name])
            groups.append((dimension,))
        if self.together:
            groups = [tuple(dimensions)]
        questions = []
        for index, group in enumerate(groups):
            fields = tuple(map(self._answer_field, group))
            questions.append(PromptQuestion(index, group, fields))
        self.questions = tuple(questions)
        self.values = list(map(self._template_values, questions))
        for question in questions:
            # A missing value is an error before a run, not in it.
            self.messages(question, PromptView([]))
            self.prefill(question)

    @property
    def hash(self) -> str:
        """A hash of 12 hex digits of the prompt file's content, the variant, the layout and the
        answer format."""
        chosen = [self.variant, self.layout, self.answer.model_dump()]
        return content_hash([self.prompt.hash, chosen])

    def _answer_field(self, dimension: Dimension) -> AnswerField:
        aspect, name = self.aspects[dimension.name], dimension.name
        return AnswerField(
            name=name,
            key=aspect.key or name,
            label=aspect.label or name.replace("_", " "),
            scale=self.scales[name],
            binary=dimension.kind == "binary",
        )

    def asks_whole_numbers(self, dimension: Dimension) -> bool:
        """Returns whether the prompt asks for whole numbers for ``dimension``."""
        aspect = self.aspects[dimension.name]
        if self.variant in self.prompt.scales:
            return True
        return aspect.whole and (
            dimension.kind != "continuous" or aspect.scale is not None
        )

    def to_dimension_scale(
        self, value: float | None, dimension: Dimension
    ) -> float | None:
        """Maps ``value`` linearly from the scale in the prompt to the scale of ``dimension``. For
        example, 50 on the scale 0 to 100 becomes 3 on the scale 1 to 5. Returns None for None."""
        target, requested = (dimension.low, dimension.high), self.scales[dimension.name]
        if value is None or requested == target:
            return value
        return rescale(value, requested, target)

    # -- texts ---------------------------------------------------------------------------------

    def messages(
        self, question: PromptQuestion, view: PromptView, start: int = 0
    ) -> tuple[Message, ...]:
        """Returns the chat messages that ask ``question`` about a dialogue.

        Args:
            view: What to show of the dialogue.
            start: How many of the oldest entries of ``view.turns`` to leave out.

        Raises:
            ConfigError: The prompt shows examples, and fewer than three have a score on the
                dimension.
        """
        turn = view.last_judged or view.response is not None
        dialogue = self._transcript(view.turns[start:])
        if self.fence is not None:
            dialogue = f"{self.fence}\n\n{dialogue}"
        response = ""
        if view.response:
            is_fenced = self.fence is not None
            response = _response_text(view.response, fence=is_fenced)
        values = self.values[question.index] | {
            "turn": turn,
            "dialogue": dialogue,
            "response": response,
            "examples": self._scored_examples(question, view.id),
            "language": language_name(view.lang),
        }
        return tuple(self.prompt.messages(values))

    def prefill(self, question: PromptQuestion) -> str:
        """Returns the text with which the model's answer to ``question`` must begin, or an empty
        string."""
        return self.prompt.render("prefill", self.values[question.index])

    def second_question(self, question: PromptQuestion) -> str:
        """Returns the text that asks for the number alone. It is sent if no score could be read
        from the answer to ``question``."""
        values = self.values[question.index]
        return self.prompt.render("again", values) or ASK_AGAIN.format(**values)

    def _transcript(self, turns: Sequence[Turn | None]) -> str:
        if self.fence is None:
            return transcript(turns, self.prompt.speakers)
        return fence_dialogue(turns)

    def _template_values(self, question: PromptQuestion) -> dict[str, Any]:
        """Returns template variable -> value, for the variables that depend on ``question`` but not
        on the dialogue, such as ``{"layout": "together"}``."""
        dimensions = [self._dimension_values(d) for d in question.dimensions]
        kinds: dict[str, list[Any]] = {"issues": [], "qualities": [], "scales": []}
        overall = None
        for dimension, texts in zip(question.dimensions, dimensions, strict=True):
            scale = dimension.name, dimension.good, self.scales[dimension.name]
            if dimension.kind == "binary" and dimension.good == "low":
                kinds["issues"].append(texts)
            elif dimension.kind == "binary":
                kinds["qualities"].append(texts)
            elif scale == FIVE_LEVELS:
                overall = texts["key"]
            else:
                kinds["scales"].append(texts)
        return {
            **dimensions[0],
            **kinds,
            "overall": overall,
            "dimensions": dimensions,
            "answer": self.answer.format,
            "layout": self.layout,
            "variant": self.variant,
            "form": self._answer_template(question),
        }

    def _dimension_values(self, dimension: Dimension) -> dict[str, Any]:
        """Returns template variable -> value, for the variables of the prompt that describe
        ``dimension``, such as ``{"label": "empathy", "low": "1"}``."""
        aspect, (low, high) = self.aspects[dimension.name], self.scales[dimension.name]
        role = self.role
        if role is None:
            role = aspect.role
        steps = [f"{number}. {step}" for number, step in enumerate(aspect.steps, 1)]
        values: dict[str, Any] = {
            "kind": dimension.kind,
            "key": aspect.key or dimension.name,
            "label": aspect.label or dimension.name.replace("_", " "),
            "definition": (aspect.definition or dimension.definition).strip(),
            "criteria": aspect.criteria.strip(),
            "low": f"{low:g}",
            "high": f"{high:g}",
            "low_means": aspect.low_means,
            "high_means": aspect.high_means,
            "bands": "",
            "steps": "\n".join(steps),
            "best": None,
            "role": role or "none",
        }
        if dimension.kind != "binary":
            values["best"] = values[dimension.good]
        if self.more_values:
            values |= self.more_values(dimension, aspect)
        return values

    def _answer_template(self, question: PromptQuestion) -> str:
        """Returns the JSON that the prompt shows as the form of the answer to ``question``, such as
        ``{"score": <1 to 5>}``."""
        answer = self.answer
        forms = []
        for field in question.fields:
            low, high = field.scale
            form = f"<{low:g} to {high:g}>"
            if field.binary:
                form = "<0 or 1>"
            if answer.comment is not None:
                form = f'{{"{answer.score}": {form}, "{answer.comment}": "..."}}'
            if self.together:
                form = f'  "{field.key}": {form}'
            elif answer.comment is None:
                form = f'{{"{answer.score}": {form}}}'
            forms.append(form)
        if self.together:
            return "{\n" + ",\n".join(forms) + "\n}"
        return forms[0]

    def _scored_examples(
        self, question: PromptQuestion, judged_id: str | None
    ) -> list[dict[str, str]]:
        """Returns the examples to show with ``question``, each as ``{"dialogue": ..., "score":
        "4"}``.

        Args:
            judged_id: The id of the dialogue to score, which is never an example.
        """
        examples: list[dict[str, str]] = []
        if self.variant not in self.prompt.examples or not self.examples:
            return examples
        dimension = question.dimensions[0]
        low, high = self.scales[dimension.name]
        for example in choose_examples(
            self.examples, dimension.name, seed=self.seed, without=judged_id
        ):
            dialogue = example.summary
            if self.excerpt or not dialogue:
                dialogue = self._transcript(example.turns[-self.excerpt :])
            score = low + example.scores[dimension.name] * (high - low)
            if self.asks_whole_numbers(dimension):
                score = round(score)
            examples.append({"dialogue": dialogue, "score": f"{score:g}"})
        return examples

    # -- the schema ----------------------------------------------------------------------------

    def schema(
        self, question: PromptQuestion, comment_chars: int | None
    ) -> dict[str, object]:
        """Returns the JSON schema of the answer to ``question``: an object with the scores, and
        with comments if the prompt asks for them.

        Args:
            comment_chars: The maximum number of characters of a comment. None is no limit.
        """
        answer, comments = self.answer, dict[str, object]()
        if answer.comment:
            comment: dict[str, object] = {"type": "string"}
            if comment_chars is not None:
                comment["maxLength"] = comment_chars
            comments[answer.comment] = comment
        properties: dict[str, object] = {}
        for dimension, field in zip(question.dimensions, question.fields, strict=True):
            low, high = field.scale
            number: dict[str, object] = {
                "type": "number",
                "minimum": low,
                "maximum": high,
            }
            if self.asks_whole_numbers(dimension):
                low, high = int(low), int(high)
                number = {"type": "integer", "minimum": low, "maximum": high}
                if high - low < MOST_LISTED:
                    number = {"type": "integer", "enum": list(range(low, high + 1))}
            if not self.together:
                return strict_object_schema({answer.score: number} | comments)
            if comments:
                number = strict_object_schema({answer.score: number} | comments)
            properties[field.key] = number
        return strict_object_schema(properties)


# -- scored examples for one-shot and few-shot prompts (ORALIS, section 4.2) ----------


@dataclass(frozen=True, slots=True)
class ScoredExample:
    """A dialogue with its scores, to be shown in a prompt.

    Attributes:
        id: The dialogue's id.
        turns: The dialogue's turns.
        scores: Dimension -> score on [0, 1].
        summary: A text to show instead of the turns, or None.
    """

    id: str
    turns: tuple[Turn, ...]
    scores: Mapping[str, float]
    summary: str | None = None


def load_examples(path: str) -> tuple[ScoredExample, ...]:
    """Returns the scored examples in a file of labelled dialogues.

    A score is the mean of the annotators' ratings, mapped to [0, 1]. A dimension without ratings,
    or whose scale the file does not state, has no score.

    Args:
        path: A file, or the name of a shipped file, such as ``prompts/examples.json``.
    """
    file = Path(path)
    if not file.is_file():
        file = CONFIGS / path
    examples = []
    for row in read_labelled(file):
        scores = {}
        for rating in row.ratings():
            value = mean(rating)
            if value is not None and rating.scale is not None:
                scores[rating.dimension] = rescale(value, rating.scale, (0.0, 1.0))
        summary = row.extra.get("summary")
        examples.append(ScoredExample(row.id, row.dialogue.turns, scores, summary))
    return tuple(examples)


def choose_examples(
    examples: Sequence[ScoredExample],
    dimension: str,
    *,
    seed: int,
    without: str | None,
) -> list[ScoredExample]:
    """Returns three of ``examples``, sorted by their scores on ``dimension``. Their scores are the
    nearest to 0, to the median of all examples, and to 1.

    Args:
        dimension: The name of the dimension.
        seed: Seeds the choice among equally suitable examples.
        without: The id of a dialogue that is never chosen, or None.

    Raises:
        ConfigError: Fewer than three examples have a score on the dimension.
    """
    scored = [e for e in examples if dimension in e.scores and e.id != without]
    if len(scored) < 3:
        raise ConfigError(
            f"{len(scored)} examples have a score for {dimension!r}, the prompt shows 3",
            hint="Type examples=FILE with more dialogues, or variant=zero_shot",
        )
    generator = np.random.default_rng(seed)
    scores = np.array([example.scores[dimension] for example in scored])
    median = float(np.median(scores))
    chosen: list[int] = []
    # The ends choose first; a median at an end chooses last of all.
    for target in sorted([0.0, median, 1.0], key=lambda target: target == median):
        gaps = np.abs(scores - target)
        gaps[chosen] = np.inf
        nearest = np.flatnonzero(gaps == gaps.min())
        chosen.append(int(nearest[generator.integers(len(nearest))]))
    chosen.sort(key=lambda index: scores[index])
    return [scored[index] for index in chosen]


# -- the part of a dialogue that a prompt shows (ORALIS, section 4.2) ------------------------------


def prompt_view(
    dialogue: Dialogue, turn: int | None, context: Context, *, apart: bool
) -> PromptView:
    """Returns what the prompt shows of ``dialogue``.

    Args:
        dialogue: The dialogue to score.
        turn: The index of the turn to score. Later turns are not shown. None scores the whole
            dialogue.
        context: Which turns to show, such as ``full`` or ``last_40`` (the last 40%).
        apart: Whether the turn to score is put into ``response`` of the PromptView. If False, it is
            the last of its ``turns``.
    """
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
    indices = kept_indices(turns, context)
    view.left_out = len(turns) - len(indices)
    for before, index in pairwise([-1, *indices]):
        if before >= 0 and index > before + 1:
            view.turns.append(None)
        view.turns.append(turns[index])
    return view


def kept_indices(turns: Sequence[Turn], context: Context) -> list[int]:
    """Returns the indices of the ``turns`` that a prompt shows. If ``turns`` have an assistant
    turn, at least one of the shown turns is by the assistant.

    Args:
        context: Which turns to show, such as ``full`` or ``last_40`` (the last 40%).
    """
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
        return fence_text("response", response.content)
    return " ".join(response.content.split())


def summarise_long_turns(
    views: Sequence[PromptView],
    llm: LanguageModel,
    prompt: Prompt,
    context: Context,
    *,
    fence: bool,
) -> None:
    """Replaces long assistant turns of long dialogues by summaries that ``llm`` writes.

    A long turn has more than 200 words. A long dialogue has more than 3,000 words. If a summary
    fails, ``failure`` of the dialogue's PromptView says why.

    Args:
        views: What the prompts show of the dialogues. Their turns are replaced in place.
        llm: The model that writes the summaries.
        prompt: The prompt that asks for a summary.
        context: ``summary_50`` or ``summary_150``. The number is the maximum number of words of a
            summary.
        fence: Whether the request for a summary puts the turn between tags.
    """
    summary_words = int(context.removeprefix("summary_"))
    places, requests = [], []
    for view in views:
        for index, turn in _turns_to_summarise(view):
            response = _response_text(turn, fence=fence)
            values = {"words": str(summary_words), "response": response}
            message = Message("user", prompt.render("user", values))
            requests.append(ChatRequest((message,), max_tokens=6 * summary_words))
            places.append((view, index))
    if not requests:
        return
    answers = llm.chat(requests)
    for (view, index), answer in zip(places, answers, strict=True):
        view.usage = sum_usage_records([view.usage, sum_to_record([answer.usage])])
        view.shortened += 1
        if answer.finish == "stop" and answer.text.strip():
            view.turns[index] = Turn("assistant", answer.text.strip())
        else:
            reason = answer.failure or f"an answer that ended by {answer.finish!r}"
            view.failure = f"a turn could not be shortened: {reason}"
            view.transient = view.transient or answer.transient


def _turns_to_summarise(view: PromptView) -> list[tuple[int, Turn]]:
    """Returns (index, turn) for each assistant turn of ``view`` with more than 200 words, or
    nothing if the dialogue has at most 3,000."""
    total = 0
    long_turns = []
    for index, turn in enumerate(view.turns):
        if turn is not None:
            count = len(words(turn.content))
            total += count
            if turn.role == "assistant" and count > LONG_TURN:
                long_turns.append((index, turn))
    if total <= LONG_DIALOGUE:
        return []
    return long_turns
