"""From a prompt and a dialogue to messages: what is asked, of which dimensions, in which words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import Message
from medal_judges.models.prompted.examples import ScoredExample, chosen_examples
from medal_judges.models.prompted.fence import fenced, fenced_dialogue
from medal_judges.models.prompted.parsing.answer import AnswerField, Scale
from medal_judges.models.prompted.prompt import Aspect, ResolvedPrompt, fill, transcript
from medal_judges.models.prompted.view import PromptView
from medal_judges.records.dialogue import Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.languages import language_name
from medal_judges.records.rating import rescale

MOST_LISTED = 11  # a schema lists so many whole numbers, and bounds longer scales
PREFILL = "prefill"  # the part that an answer begins with
# Further values for a dimension's placeholders, laid over the builder's own.
DimensionValues = Callable[[Dimension, Aspect], Mapping[str, str | None]]


@dataclass(frozen=True, slots=True)
class PromptQuestion:
    """One request about one or several dimensions."""

    dimensions: tuple[Dimension, ...]
    fields: tuple[AnswerField, ...]


@dataclass(frozen=True, slots=True)
class ShownExamples:
    """The scored dialogues that a prompt may show, each as its last ``excerpt`` turns (0: its
    summary). ``seed`` draws among equals."""

    examples: tuple[ScoredExample, ...] = ()
    excerpt: int = 0
    seed: int = 0


class PromptBuilder:
    """Words a prompt for a fixed list of dimensions.

    ``role`` is a name in the prompt's roles, ``none`` for no role, None for the prompt's own choice
    by dimension. ``values``: what a judge adds for each dimension; a part with a placeholder whose
    value is None is left out. A part NAME_binary stands in for NAME where a dimension is binary,
    and NAME_other where it has no criteria. ``fence``: turns stand between marks (fence.py), after
    this sentence on them; None: as a plain transcript.
    """

    def __init__(
        self,
        resolved: ResolvedPrompt,
        dimensions: Sequence[Dimension],
        role: str | None = None,
        *,
        examples: ShownExamples | None = None,
        values: DimensionValues | None = None,
        fence: str | None = None,
    ) -> None:
        self.resolved, self.role, self.shown = resolved, role, examples or ShownExamples()
        self.fence = fence
        self.names = {"user": resolved.user, "assistant": resolved.assistant}
        self.more_values = values
        # Whether a judged turn has a placeholder of its own; else it ends the dialogue.
        self.response_apart = "{response}" in resolved.template(resolved.layout.turn)
        if role not in (None, "none") and role not in resolved.roles:
            known = ", ".join([*resolved.roles, "none"])
            raise ConfigError(f"the prompt has no role {role!r}", hint=f"it has: {known}")
        fields = []
        for d in dimensions:
            aspect = self.aspect(d)
            label = aspect.label or d.name.replace("_", " ")
            scale, binary = self.scale(d), d.kind == "binary"
            fields.append(AnswerField(d.name, aspect.key or d.name, label, scale, binary))
        self.questions = tuple(
            PromptQuestion((d,), (f,)) for d, f in zip(dimensions, fields, strict=True)
        )
        if resolved.layout.ask == "together":
            self.questions = (PromptQuestion(tuple(dimensions), tuple(fields)),)
        self.values = {question: self._values(question) for question in self.questions}

    def require_values(self) -> None:
        """Raise ConfigError for a placeholder without a value: better when a judge is made than in
        the middle of a run."""
        for question in self.questions:
            if self.resolved.layout.dialogue:
                self.messages(question, PromptView([]))
            if self.resolved.layout.turn:
                self.messages(question, PromptView([], Turn("assistant", "")))
            if PREFILL in self.resolved.parts:
                self.prefill(question)

    def aspect(self, dimension: Dimension) -> Aspect:
        """What the prompt says of ``dimension``."""
        return self.resolved.aspects.get(dimension.name, Aspect())

    def scale(self, dimension: Dimension) -> Scale:
        """The scale that is asked for."""
        return self.aspect(dimension).scale or (dimension.low, dimension.high)

    def whole(self, dimension: Dimension) -> bool:
        """Whether whole numbers are asked for."""
        own = dimension.kind != "continuous" or self.aspect(dimension).scale is not None
        return own and self.aspect(dimension).whole

    def own(self, value: float, dimension: Dimension) -> float:
        """``value`` of the scale asked for, on the dimension's own (ORALIS, Equation 1)."""
        target = (dimension.low, dimension.high)
        asked = self.scale(dimension)
        return value if asked == target else rescale(value, asked, target)

    # -- words ---------------------------------------------------------------------------------

    def messages(
        self, question: PromptQuestion, view: PromptView, start: int = 0
    ) -> tuple[Message, ...]:
        """The request's messages, with the view's turns from ``start`` on. Raises ConfigError for a
        level without words."""
        layout = self.resolved.layout
        names = layout.turn if view.turn else layout.dialogue
        if not names:
            level = "turn" if view.turn else "dialogue"
            raise ConfigError(f"this prompt's layout does not judge at level {level!r}")
        shows_examples = self.resolved.examples and self.shown.examples
        values = self.values[question] | {
            "dialogue": self._dialogue(view.turns[start:]),
            "response": self._response(view.response) if view.response else "",
            "examples": self._examples(question, view.id) if shows_examples else "",
            "language": language_name(view.lang),
        }
        system = self.resolved.text(layout.system, values)
        user = self.resolved.text(self._parts(question, names), values)
        return (*([Message("system", system)] if system else []), Message("user", user))

    def _dialogue(self, turns: Sequence[Turn | None]) -> str:
        if self.fence is None:
            return transcript(turns, self.names, gap=self.resolved.gap)
        return f"{self.fence}\n\n{fenced_dialogue(turns, gap=self.resolved.gap)}"

    def _response(self, turn: Turn) -> str:
        if self.fence is None:
            return " ".join(turn.content.split())
        return fenced("response", turn.content)

    def prefill(self, question: PromptQuestion) -> str:
        """What the answer begins with."""
        return self.resolved.text((PREFILL,), self.values[question])

    def _parts(self, question: PromptQuestion, names: Sequence[str]) -> tuple[str, ...]:
        """The parts ``names`` as the question's dimension has them."""
        if len(question.dimensions) > 1:
            return tuple(names)
        only, parts = question.dimensions[0], self.resolved.parts
        endings = ["_binary"] if only.kind == "binary" else []
        endings += [] if self.aspect(only).criteria else ["_other"]
        return tuple(next((n + e for e in endings if n + e in parts), n) for n in names)

    def _values(self, question: PromptQuestion) -> dict[str, str | None]:
        each = [self._of_dimension(d) for d in question.dimensions]
        lines = [fill(self.resolved.parts.get("aspect", ""), values) for values in each]
        values = each[0] if len(each) == 1 else {"role": each[0]["role"]}
        return values | {"aspects": "\n".join(lines), "form": self._form(question)}

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
            "bands": "",
            "role": "",
        }
        if aspect.bands:
            values["bands"] = "\n".join(_bands(aspect.bands, low, high, whole=self.whole(d)))
        role = aspect.role if self.role is None else self.role
        if role and role != "none":
            values["role"] = fill(self.resolved.roles[role], values)
        return values | dict(self.more_values(d, aspect) if self.more_values else {})

    def _form(self, question: PromptQuestion) -> str:
        """The shape of a JSON answer, one line a dimension."""
        answer, nested = self.resolved.answer, self.resolved.answer.comment is not None
        inner = []
        for field in question.fields:
            low, high = field.scale
            number = "<0 or 1>" if field.binary else f"<{low:g} to {high:g}>"
            entry = f'{{"{answer.score}": {number}, "{answer.comment}": "..."}}'
            inner.append(entry if nested else number)
        if self.resolved.layout.ask == "each":
            return inner[0] if nested else f'{{"{answer.score}": {inner[0]}}}'
        pairs = zip(question.fields, inner, strict=True)
        return "{\n" + ",\n".join(f'  "{field.key}": {each}' for field, each in pairs) + "\n}"

    def _examples(self, question: PromptQuestion, judged: str | None) -> str:
        count, d = self.resolved.examples, question.dimensions[0]
        told = []
        for example in chosen_examples(
            self.shown.examples, d.name, count, seed=self.shown.seed, without=judged
        ):
            text = example.summary if self.shown.excerpt == 0 else None
            turns = example.turns[-self.shown.excerpt :]  # all of them where it is 0
            low, high = self.scale(d)
            score = low + example.scores[d.name] * (high - low)
            values = {
                "dialogue": text or self._example(turns),
                "score": f"{round(score) if self.whole(d) else score:g}",
            }
            told.append(fill(self.resolved.parts["example"], values))
        return "\n\n".join(told)

    def _example(self, turns: Sequence[Turn]) -> str:
        if self.fence is None:
            return transcript(turns, self.names)
        return fenced_dialogue(turns, gap=self.resolved.gap)

    # -- the schema ----------------------------------------------------------------------------

    def schema(self, question: PromptQuestion, comment_chars: int | None) -> dict[str, object]:
        """The JSON schema of an answer; ``comment_chars`` bounds each comment."""
        answer = self.resolved.answer
        comment: dict[str, object] = {"type": "string"}
        if comment_chars is not None:
            comment["maxLength"] = comment_chars

        commented = {answer.comment: comment} if answer.comment else {}
        numbers = {
            f.key: self._number_schema(d)
            for d, f in zip(question.dimensions, question.fields, strict=True)
        }
        if self.resolved.layout.ask == "each":
            return _closed({answer.score: next(iter(numbers.values()))} | commented)
        if answer.comment is None:
            return _closed(numbers)
        return _closed({k: _closed({answer.score: n} | commented) for k, n in numbers.items()})

    def _number_schema(self, d: Dimension) -> dict[str, object]:
        low, high = self.scale(d)
        if not self.whole(d):
            return {"type": "number", "minimum": low, "maximum": high}
        if high - low < MOST_LISTED:
            return {"type": "integer", "enum": list(range(int(low), int(high) + 1))}
        return {"type": "integer", "minimum": int(low), "maximum": int(high)}


def _bands(bands: Sequence[str], low: float, high: float, *, whole: bool) -> list[str]:
    """One line a band with the scores that it covers: equal shares of the scale from the lowest up
    (ORALIS, appendix C.5: 0-20, 21-40, ...)."""
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
    """An object with just these fields, all of them required (as OpenAI's strict mode wants it)."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
