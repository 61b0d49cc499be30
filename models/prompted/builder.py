"""From a prompt and a dialogue to messages and the schema of an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import field_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import Message
from medal_judges.models.prompted.answers import AnswerField, Scale
from medal_judges.models.prompted.prompt import (
    Aspect,
    ResolvedPrompt,
    fenced,
    fenced_dialogue,
    fill,
    transcript,
)
from medal_judges.models.prompted.view import PromptView
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import mean, rescale
from medal_judges.records.languages import language_name

MOST_LISTED = 11  # a schema lists this many whole numbers, and bounds longer scales
PREFILL = "prefill"  # the part that an answer begins with
# Further values for a dimension's placeholders, which override the builder's own.
DimensionValues = Callable[[Dimension, Aspect], Mapping[str, str | None]]


@dataclass(frozen=True, slots=True)
class PromptQuestion:
    """One request about one or several dimensions."""

    dimensions: tuple[Dimension, ...]
    fields: tuple[AnswerField, ...]


class PromptBuilder:
    """Builds the prompts for a fixed list of dimensions.

    ``role`` is a name in the prompt's roles, ``none`` for no role, None for the prompt's own choice
    by dimension. ``examples`` may be shown, each as its last ``excerpt`` turns (0: its summary);
    ``seed`` draws among equals. ``values``: further placeholders of a judge; a part with a
    placeholder whose value is None is left out. A part NAME_binary replaces NAME for a binary
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
            aspect = self.aspect(d)
            label = aspect.label or d.name.replace("_", " ")
            binary = d.kind == "binary"
            field = AnswerField(d.name, aspect.key or d.name, label, self.scale(d), binary)
            questions.append(PromptQuestion((d,), (field,)))
        if resolved.layout.ask == "together":
            fields = tuple(q.fields[0] for q in questions)
            questions = [PromptQuestion(tuple(dimensions), fields)]
        self.questions = tuple(questions)
        self.values = {question: self._values(question) for question in self.questions}

    def require_values(self) -> None:
        """Raise ConfigError for a placeholder without a value, before a run instead of in it."""
        for question in self.questions:
            if self.resolved.layout.dialogue:
                self.messages(question, PromptView([]))
            if self.resolved.layout.turn:
                self.messages(question, PromptView([], Turn("assistant", "")))
            if PREFILL in self.resolved.parts:
                self.prefill(question)

    def aspect(self, dimension: Dimension) -> Aspect:
        """What the prompt says about ``dimension``."""
        return self.resolved.aspects.get(dimension.name, Aspect())

    def scale(self, dimension: Dimension) -> Scale:
        """The requested scale."""
        return self.aspect(dimension).scale or (dimension.low, dimension.high)

    def whole(self, dimension: Dimension) -> bool:
        """Whether the prompt requests whole numbers."""
        own = dimension.kind != "continuous" or self.aspect(dimension).scale is not None
        return own and self.aspect(dimension).whole

    def own(self, value: float, dimension: Dimension) -> float:
        """``value`` of the requested scale on the dimension's own (ORALIS, Equation 1)."""
        target, asked = (dimension.low, dimension.high), self.scale(dimension)
        return value if asked == target else rescale(value, asked, target)

    # -- texts ---------------------------------------------------------------------------------

    def messages(
        self, question: PromptQuestion, view: PromptView, start: int = 0
    ) -> tuple[Message, ...]:
        """The request's messages, with the view's turns from ``start`` on. Raises ConfigError for a
        level that the layout does not have."""
        layout = self.resolved.layout
        names = layout.turn if view.turn else layout.dialogue
        if not names:
            level = "turn" if view.turn else "dialogue"
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
        values = self.values[question] | {
            "dialogue": dialogue,
            "response": response,
            "examples": shown,
            "language": language_name(view.lang),
        }
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
        each = [self._of_dimension(d) for d in question.dimensions]
        lines = [fill(self.resolved.parts.get("aspect", ""), values) for values in each]
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
        return values | {"aspects": "\n".join(lines), "form": form}

    def _of_dimension(self, d: Dimension) -> dict[str, str | None]:
        aspect, (low, high) = self.aspect(d), self.scale(d)
        values: dict[str, str | None] = {
            "key": aspect.key or d.name,
            "label": aspect.label or d.name.replace("_", " "),
            "definition": (aspect.definition or d.definition).strip(),
            "criteria": aspect.criteria.strip(),
            "low": f"{low:g}",
            "high": f"{high:g}",
            "low_means": aspect.low_means,
            "high_means": aspect.high_means,
            "bands": "\n".join(_bands(aspect.bands, low, high, whole=self.whole(d))),
            "role": "",
        }
        role = aspect.role if self.role is None else self.role
        if role and role != "none":
            values["role"] = fill(self.resolved.roles[role], values)
        return values | dict(self.more_values(d, aspect) if self.more_values else {})

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
            return _closed({answer.score: next(iter(numbers.values()))} | commented)
        if answer.comment is None:
            return _closed(numbers)
        return _closed({k: _closed({answer.score: n} | commented) for k, n in numbers.items()})


def _bands(bands: Sequence[str], low: float, high: float, *, whole: bool) -> list[str]:
    """One line per band with its scores: equal shares of the scale from the lowest up (ORALIS,
    appendix C.5: 0-20, 21-40, ...)."""
    lines: list[str] = []
    start = low
    for k, band in enumerate(bands, 1):
        end = low + (high - low) * k / len(bands)
        end = math.floor(end + 1e-9) if whole else end
        span = f"{start:g}" if start == end else f"{start:g}-{end:g}"
        lines.append(f"- {span}: {band}")
        start = end + 1 if whole else end
    return lines


def _closed(fields: Mapping[str, object]) -> dict[str, object]:
    """An object with exactly these fields (as OpenAI's strict mode requires)."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


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


def load_examples(path: str, dimensions: Sequence[Dimension]) -> tuple[ScoredExample, ...]:
    """Examples of a YAML file, or of labelled dialogues (.jsonl, .jsonl.gz), whose score is the
    mean over annotators; a label without scale is on the dimension's. Raises ConfigError,
    DataError."""
    if not path.endswith((".jsonl", ".jsonl.gz")):
        return build_config(ExampleFile, read_yaml(path), where=path).examples
    examples = []
    for row in read_labelled(path):
        scores = {}
        for dimension in dimensions:
            rating = row.rating(dimension.name)
            if rating is not None and (value := mean(rating)) is not None:
                low, high = rating.scale or (dimension.low, dimension.high)
                scores[dimension.name] = (value - low) / (high - low)
        examples.append(ScoredExample(id=row.id, turns=row.dialogue.turns, scores=scores))
    return tuple(examples)


def chosen_examples(
    examples: Sequence[ScoredExample], dimension: str, count: int, *, seed: int, without: str | None
) -> list[ScoredExample]:
    """``count`` 1: near the median. 3: lowest, near the median, highest. ``seed`` draws among
    equals. The dialogue called ``without`` is never its own example. Raises ConfigError for too few
    examples with a score for the dimension."""
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
