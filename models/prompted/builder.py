"""Builds the messages of a request, and the schema of its answer, from a prompt and a dialogue."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from medal_judges.records.dialogue import (
    UNKNOWN_LANGUAGE,
    Dialogue,
    Turn,
    language_name,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import rescale

MOST_LISTED = 11  # a schema lists this many whole numbers, and bounds longer scales
OVERALL, FIVE_LEVELS = (
    "overall",
    (1, 5),
)  # the dimension that prompts explain by its levels
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
        self.resolved, self.role, self.fence, self.more_values = (
            resolved,
            role,
            fence,
            values,
        )
        self.examples, self.excerpt, self.seed = tuple(examples), excerpt, seed
        self.names = {"user": resolved.user, "assistant": resolved.assistant}
        # Whether a judged turn has a placeholder of its own; else it ends the dialogue.
        self.response_apart = "{response}" in resolved.template(resolved.layout.turn)
        if role not in (None, "none") and role not in resolved.roles:
            roles = ", ".join([*resolved.roles, "none"])
            raise ConfigError(
                f"the prompt has no role {role!r}", hint=f"it has: {roles}"
            )
        fields = [self._field(dimension) for dimension in dimensions]
        pairs = zip(dimensions, fields, strict=True)
        self.questions = tuple(PromptQuestion((d,), (field,)) for d, field in pairs)
        if resolved.layout.ask == "together":
            self.questions = (PromptQuestion(tuple(dimensions), tuple(fields)),)
        self.values = {question: self._values(question) for question in self.questions}
        blank = dict.fromkeys(("dialogue", "response", "examples", "language"), "-")
        for values_of_question in self.values.values():
            # A missing value is an error before a run, not in it.
            for names in (resolved.layout.dialogue, resolved.layout.turn, (PREFILL,)):
                resolved.text(names, values_of_question | blank)

    def _field(self, dimension: Dimension) -> AnswerField:
        aspect = self.aspect(dimension)
        name, scale = dimension.name, self.scale(dimension)
        label = aspect.label or name.replace("_", " ")
        return AnswerField(
            name, aspect.key or name, label, scale, dimension.kind == "binary"
        )

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
        self, question: PromptQuestion, view: PromptView, start: int = 0
    ) -> tuple[Message, ...]:
        """Returns the messages of a request with the view's turns from ``start`` on."""
        layout = self.resolved.layout
        is_turn = view.last_judged or view.response is not None
        names = layout.turn if is_turn else layout.dialogue
        if not names:
            level = "turn" if is_turn else "dialogue"
            raise ConfigError(f"this prompt's layout does not judge at level {level!r}")
        dialogue = self._transcript(view.turns[start:])
        if self.fence is not None:
            dialogue = f"{self.fence}\n\n{dialogue}"
        values = self.values[question] | {
            "dialogue": dialogue,
            "response": "",
            "examples": "",
            "language": language_name(view.lang),
        }
        if view.response:
            values["response"] = _response_text(
                view.response, fence=self.fence is not None
            )
        if self.resolved.examples and self.examples:
            values["examples"] = self._examples(question, view.id)
        user = Message(
            "user", self.resolved.text(self._part_names(question, names), values)
        )
        system = self.resolved.text(layout.system, values)
        return (Message("system", system), user) if system else (user,)

    def _part_names(
        self, question: PromptQuestion, names: Sequence[str]
    ) -> Sequence[str]:
        """Returns ``names``, each replaced by its form for the only dimension, if it has one."""
        if len(question.dimensions) > 1:
            return names
        dimension = question.dimensions[0]
        endings = []
        if dimension.kind == "binary":
            endings.append("_binary")
        if not self.aspect(dimension).criteria:
            endings.append("_other")
        parts = self.resolved.parts
        for ending in endings:
            names = [
                name + ending if name + ending in parts else name for name in names
            ]
        return names

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
        lines_by_kind: dict[str, list[str]] = {
            "issues": [],
            "qualities": [],
            "scales": [],
        }
        overall = None
        by_dimension = [
            self._dimension_values(dimension) for dimension in question.dimensions
        ]
        for dimension, values in zip(question.dimensions, by_dimension, strict=True):
            line = fill(self.resolved.parts.get("aspect", ""), values)
            lines.append(line)
            if dimension.kind == "binary":
                lines_by_kind[
                    "issues" if dimension.good == "low" else "qualities"
                ].append(line)
            elif dimension.name == OVERALL and self.scale(dimension) == FIVE_LEVELS:
                overall = values["key"]
            else:
                lines_by_kind["scales"].append(line)
        values = by_dimension[0]
        if len(by_dimension) > 1:
            values = {"role": values["role"]}
        for kind, texts in lines_by_kind.items():
            values[kind] = (
                "\n".join(texts) or None
            )  # the part about an absent kind is left out
        aspects = "\n".join(lines)
        return values | {
            "overall": overall,
            "aspects": aspects,
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
            "low_means": aspect.low_means,
            "high_means": aspect.high_means,
            "bands": self._bands(dimension),
            "role": "",
        }
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
            span = f"{start:g}" if start == end else f"{start:g}-{end:g}"
            lines.append(f"- {span}: {band}")
            start = next_start
        return "\n".join(lines)

    def _form(self, question: PromptQuestion) -> str:
        """The shape of a JSON answer, with one entry per dimension."""
        answer = self.resolved.answer
        forms = []
        for field in question.fields:
            low, high = field.scale
            form = "<0 or 1>" if field.binary else f"<{low:g} to {high:g}>"
            if answer.comment is not None:
                form = f'{{"{answer.score}": {form}, "{answer.comment}": "..."}}'
            forms.append(form)
        if self.resolved.layout.ask == "together":
            pairs = zip(question.fields, forms, strict=True)
            return (
                "{\n"
                + ",\n".join(f'  "{field.key}": {form}' for field, form in pairs)
                + "\n}"
            )
        return (
            forms[0]
            if answer.comment is not None
            else f'{{"{answer.score}": {forms[0]}}}'
        )

    def _examples(self, question: PromptQuestion, judged_id: str | None) -> str:
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
        if bad := [f"{k}: {v}" for k, v in value.items() if not 0 <= v <= 1]:
            raise ValueError(f"scores lie in [0, 1], not {bad[0]}")
        return value


class ExampleFile(Config):
    """Reviewed examples; ``source`` says where they come from."""

    source: str
    examples: tuple[ScoredExample, ...]


def load_examples(path: str) -> tuple[ScoredExample, ...]:
    """Returns the examples of a YAML file."""
    return build_config(ExampleFile, read_yaml(path), where=path).examples


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
    targets = [float(np.median([e.scores[dimension] for e in scored]))]
    if count > 1:
        # The ends choose first; a median at an end chooses last of all.
        targets = sorted(
            [0.0, targets[0], 1.0], key=lambda target: target == targets[0]
        )
    chosen: list[ScoredExample] = []
    for target in targets:
        gaps = [abs(e.scores[dimension] - target) for e in scored]
        nearest = np.flatnonzero(np.array(gaps) == min(gaps))
        chosen.append(scored.pop(int(nearest[generator.integers(len(nearest))])))
    return sorted(chosen, key=lambda e: e.scores[dimension])


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
    indices = range(len(turns))
    if context not in _SHARES:
        return list(indices)
    first, last = (math.ceil(share * len(turns)) for share in _SHARES[context])
    begin = max(first, len(turns) - last)
    assistant = [i for i in indices if turns[i].role == "assistant"]
    hidden = [i for i in assistant if first <= i < begin]
    if hidden and len(hidden) == len(assistant):
        if last:
            begin = hidden[-1]
        else:
            first = hidden[0] + 1
    return [i for i in indices if i < first or i >= begin]


def _response_text(response: Turn, *, fence: bool) -> str:
    return (
        fenced("response", response.content)
        if fence
        else " ".join(response.content.split())
    )


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
    summaries: list[tuple[PromptView, int, ChatRequest]] = []
    for view in views:
        counts = [len(words(turn.content)) if turn else 0 for turn in view.turns]
        if sum(counts) <= dialogue:
            continue
        for index, (turn, count) in enumerate(zip(view.turns, counts, strict=True)):
            if turn is None or turn.role != "assistant" or count <= longest:
                continue
            values = {
                "words": str(summary_words),
                "response": _response_text(turn, fence=fence),
            }
            message = Message("user", prompt.text(prompt.layout.dialogue, values))
            request = ChatRequest((message,), max_tokens=6 * summary_words)
            summaries.append((view, index, request))
    answers = llm.chat([request for _, _, request in summaries]) if summaries else []
    for (view, index, request), answer in zip(summaries, answers, strict=True):
        usage = spent([usage_of(llm, request, answer)])
        view.usage = total_usage([view.usage, usage])
        view.shortened += 1
        if answer.finish == "stop" and answer.text.strip():
            view.turns[index] = Turn("assistant", answer.text.strip())
        else:
            reason = answer.failure or f"an answer that ended by {answer.finish!r}"
            view.failure = f"a turn could not be shortened: {reason}"
            view.transient = view.transient or answer.transient
