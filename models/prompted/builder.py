"""Builds the messages of a request, and the schema of its answer, from a prompt and a dialogue."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import field_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.base.turn_features import words
from medal_judges.models.llm.cost import add_usage
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
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, Dialogue, Turn, language_name
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import rescale

MOST_LISTED = 11  # a schema lists this many whole numbers, and bounds longer scales
OVERALL, FIVE_LEVELS = "overall", (1, 5)  # the dimension that prompts explain by its levels
PREFILL = "prefill"  # the part that an answer begins with
# Further values for a dimension's placeholders, which override the builder's own.
DimensionValues = Callable[[Dimension, Aspect], Mapping[str, str | None]]


Context = Literal["full", "last_40", "first_40", "first_20_last_20", "summary_50", "summary_150"]
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
        self.resolved, self.role, self.fence, self.more_values = resolved, role, fence, values
        self.examples, self.excerpt, self.seed = tuple(examples), excerpt, seed
        self.names = {"user": resolved.user, "assistant": resolved.assistant}
        # Whether a judged turn has a placeholder of its own; else it ends the dialogue.
        self.response_apart = "{response}" in resolved.template(resolved.layout.turn)
        if role not in (None, "none") and role not in resolved.roles:
            known = ", ".join([*resolved.roles, "none"])
            raise ConfigError(f"the prompt has no role {role!r}", hint=f"it has: {known}")
        questions = []
        for d in dimensions:
            aspect, binary = self.aspect(d), d.kind == "binary"
            label = aspect.label or d.name.replace("_", " ")
            field = AnswerField(d.name, aspect.key or d.name, label, self.scale(d), binary)
            questions.append(PromptQuestion((d,), (field,)))
        if resolved.layout.ask == "together":
            fields = tuple(q.fields[0] for q in questions)
            questions = [PromptQuestion(tuple(dimensions), fields)]
        self.questions = tuple(questions)
        self.values = {question: self._values(question) for question in self.questions}
        for question in self.questions:  # a missing value is an error before a run, not in it
            for names in (resolved.layout.dialogue, resolved.layout.turn, (PREFILL,)):
                blank = dict.fromkeys(("dialogue", "response", "examples", "language"), "-")
                resolved.text(names, self.values[question] | blank)

    def aspect(self, dimension: Dimension) -> Aspect:
        """Returns the prompt's texts about ``dimension``."""
        return self.resolved.aspects.get(dimension.name, Aspect())

    def scale(self, dimension: Dimension) -> Scale:
        """The requested scale."""
        return self.aspect(dimension).scale or (dimension.low, dimension.high)

    def whole(self, dimension: Dimension) -> bool:
        """Whether the prompt requests whole numbers."""
        own = dimension.kind != "continuous" or self.aspect(dimension).scale is not None
        return own and self.aspect(dimension).whole

    def own(self, value: float, dimension: Dimension) -> float:
        """Maps ``value`` from the requested scale to the dimension's scale (ORALIS, Equation 1)."""
        target, asked = (dimension.low, dimension.high), self.scale(dimension)
        return value if asked == target else rescale(value, asked, target)

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
        response, shown = "", ""
        if view.response:
            content = view.response.content
            plain = " ".join(content.split())
            response = plain if self.fence is None else fenced("response", content)
        dialogue = self._transcript(view.turns[start:])
        if self.fence is not None:
            dialogue = f"{self.fence}\n\n{dialogue}"
        if self.resolved.examples and self.examples:
            shown = self._examples(question, view.id)
        values = self.values[question] | {"dialogue": dialogue, "response": response}
        values |= {"examples": shown, "language": language_name(view.lang)}
        if len(question.dimensions) == 1:  # the parts in the form for this dimension
            only, parts = question.dimensions[0], self.resolved.parts
            endings = ["_binary"] if only.kind == "binary" else []
            endings += [] if self.aspect(only).criteria else ["_other"]
            names = tuple(next((n + e for e in endings if n + e in parts), n) for n in names)
        system = self.resolved.text(layout.system, values)
        user = Message("user", self.resolved.text(names, values))
        return (*([Message("system", system)] if system else []), user)

    def prefill(self, question: PromptQuestion) -> str:
        """The beginning of the answer."""
        return self.resolved.text((PREFILL,), self.values[question])

    def _transcript(self, turns: Sequence[Turn | None]) -> str:
        if self.fence is None:
            return transcript(turns, self.names, gap=self.resolved.gap)
        return fenced_dialogue(turns, gap=self.resolved.gap)

    def _values(self, question: PromptQuestion) -> dict[str, str | None]:
        """The values of the placeholders that do not depend on the dialogue."""
        each: list[dict[str, str | None]] = []
        for d in question.dimensions:
            aspect, (low, high), whole = self.aspect(d), self.scale(d), self.whole(d)
            # Bands have equal shares of the scale from the lowest up (ORALIS, appendix C.5: 0-20,
            # 21-40, ...).
            bands, start = [], low
            for k, band in enumerate(aspect.bands, 1):
                end = low + (high - low) * k / len(aspect.bands)
                end = math.floor(end + 1e-9) if whole else end
                span = f"{start:g}" if start == end else f"{start:g}-{end:g}"
                bands.append(f"- {span}: {band}")
                start = end + 1 if whole else end
            values: dict[str, str | None] = {
                "key": aspect.key or d.name,
                "label": aspect.label or d.name.replace("_", " "),
                "definition": (aspect.definition or d.definition).strip(),
                "criteria": aspect.criteria.strip(),
                "low": f"{low:g}",
                "high": f"{high:g}",
                "low_means": aspect.low_means,
                "high_means": aspect.high_means,
                "bands": "\n".join(bands),
                "role": "",
            }
            role = aspect.role if self.role is None else self.role
            if role and role != "none":
                values["role"] = fill(self.resolved.roles[role], values)
            more = self.more_values(d, aspect) if self.more_values else {}
            each.append(values | dict(more))
        lines = [fill(self.resolved.parts.get("aspect", ""), values) for values in each]
        listed: dict[str, list[str]] = {"issues": [], "qualities": [], "scales": []}
        overall = None
        for d, line, values in zip(question.dimensions, lines, each, strict=True):
            if d.kind == "binary":
                listed["issues" if d.good == "low" else "qualities"].append(line)
            elif d.name == OVERALL and self.scale(d) == FIVE_LEVELS:
                overall = values["key"]
            else:
                listed["scales"].append(line)
        # A part about a kind of dimension that is not there is left out.
        by_kind = {kind: "\n".join(texts) or None for kind, texts in listed.items()}
        values = each[0] if len(each) == 1 else {"role": each[0]["role"]}
        answer = self.resolved.answer
        forms = []  # the shape of a JSON answer, one entry per dimension
        for field in question.fields:
            low, high = field.scale
            number = "<0 or 1>" if field.binary else f"<{low:g} to {high:g}>"
            nested = f'{{"{answer.score}": {number}, "{answer.comment}": "..."}}'
            forms.append(nested if answer.comment is not None else number)
        if self.resolved.layout.ask == "together":
            pairs = zip(question.fields, forms, strict=True)
            form = "{\n" + ",\n".join(f'  "{field.key}": {each}' for field, each in pairs) + "\n}"
        else:
            form = forms[0] if answer.comment is not None else f'{{"{answer.score}": {forms[0]}}}'
        values |= by_kind | {"overall": overall}
        return values | {"aspects": "\n".join(lines), "form": form}

    def _examples(self, question: PromptQuestion, judged: str | None) -> str:
        d = question.dimensions[0]
        low, high = self.scale(d)
        texts = []
        for example in chosen_examples(
            self.examples, d.name, self.resolved.examples, seed=self.seed, without=judged
        ):
            summary = example.summary if self.excerpt == 0 else None
            score = low + example.scores[d.name] * (high - low)
            values = {
                "dialogue": summary or self._transcript(example.turns[-self.excerpt :]),
                "score": f"{round(score) if self.whole(d) else score:g}",
            }
            texts.append(fill(self.resolved.parts["example"], values))
        return "\n\n".join(texts)

    # -- the schema ----------------------------------------------------------------------------

    def schema(self, question: PromptQuestion, comment_chars: int | None) -> dict[str, object]:
        """The JSON schema of an answer; ``comment_chars`` bounds each comment."""
        answer = self.resolved.answer
        comment: dict[str, object] = {"type": "string"}
        if comment_chars is not None:
            comment["maxLength"] = comment_chars
        commented = {answer.comment: comment} if answer.comment else {}
        numbers: dict[str, object] = {}
        for d, field in zip(question.dimensions, question.fields, strict=True):
            low, high = self.scale(d)
            number: dict[str, object] = {"type": "number", "minimum": low, "maximum": high}
            if self.whole(d) and high - low < MOST_LISTED:
                number = {"type": "integer", "enum": list(range(int(low), int(high) + 1))}
            elif self.whole(d):
                number = {"type": "integer", "minimum": int(low), "maximum": int(high)}
            numbers[field.key] = number
        if self.resolved.layout.ask == "each":
            return closed_schema({answer.score: next(iter(numbers.values()))} | commented)
        if answer.comment is None:
            return closed_schema(numbers)
        parts = {k: closed_schema({answer.score: n} | commented) for k, n in numbers.items()}
        return closed_schema(parts)


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
    examples: Sequence[ScoredExample], dimension: str, count: int, *, seed: int, without: str | None
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
    median = float(np.median([e.scores[dimension] for e in scored]))
    wanted = [median] if count == 1 else [0.0, median, 1.0]
    chosen: list[ScoredExample] = []
    for target in sorted(wanted, key=lambda t: t == median):  # the ends choose first
        left = [e for e in scored if e not in chosen]
        gap = min(abs(e.scores[dimension] - target) for e in left)
        near = [e for e in left if abs(e.scores[dimension] - target) == gap]
        chosen.append(near[int(generator.integers(len(near)))])
    return sorted(chosen, key=lambda e: e.scores[dimension])


# -- the part of a dialogue that a prompt shows (ORALIS, section 4.2) ------------------------------


def view_of(dialogue: Dialogue, turn: int | None, context: Context, *, apart: bool) -> PromptView:
    """Returns the view of ``dialogue``. The judged ``turn`` is in ``response`` if ``apart``, else
    it is the last shown turn."""
    response = dialogue.turns[turn] if turn is not None and apart else None
    before = dialogue.turns if turn is None else dialogue.turns[: turn + (response is None)]
    chosen = shown_turns(before, context)
    shown: list[Turn | None] = []
    for i, index in enumerate(chosen):
        if i and index != chosen[i - 1] + 1:
            shown.append(None)
        shown.append(before[index])
    return PromptView(
        shown,
        response,
        dialogue.id,
        dialogue.lang,
        last_judged=turn is not None and not apart,
        left_out=len(before) - len(chosen),
    )


def shown_turns(turns: Sequence[Turn], context: Context) -> list[int]:
    """Returns the indices of the turns that ``context`` shows. If they would include no turn of the
    assistant, the shown part grows towards the middle until it does."""
    if context not in _SHARES:
        return list(range(len(turns)))
    first, last = (math.ceil(share * len(turns)) for share in _SHARES[context])
    assistant = [i for i, turn in enumerate(turns) if turn.role == "assistant"]
    begin = max(first, len(turns) - last)
    if assistant and not any(i < first or i >= begin for i in assistant):
        if last:
            begin = max(i for i in assistant if i < begin)
        else:
            first = min(i for i in assistant if i >= first) + 1
    return [i for i in range(len(turns)) if i < first or i >= begin]


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
    long: list[tuple[PromptView, int, ChatRequest]] = []
    for view in views:
        turns = [turn for turn in view.turns if turn is not None]
        counts = [len(words(turn.content)) for turn in turns]
        for i, turn in enumerate(turns if sum(counts) > dialogue else ()):
            if turn.role != "assistant" or counts[i] <= longest:
                continue
            text = turn.content
            response = fenced("response", text) if fence else " ".join(text.split())
            values = {"words": str(summary_words), "response": response}
            message = Message("user", prompt.text(prompt.layout.dialogue, values))
            long.append((view, i, ChatRequest((message,), max_tokens=6 * summary_words)))
    answers = llm.chat([request for _, _, request in long]) if long else []
    for (view, i, request), done in zip(long, answers, strict=True):
        add_usage(view.usage, usage_of(llm, request, done))
        view.shortened += 1
        if done.finish == "stop" and done.text.strip():
            view.turns[i] = Turn("assistant", done.text.strip())
        else:
            reason = done.failure or f"an answer that ended by {done.finish!r}"
            view.failure = f"a turn could not be shortened: {reason}"
            view.transient = view.transient or done.transient
