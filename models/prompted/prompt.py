"""Prompt files: what is said to a language model, as YAML in configs/prompts/.

One format for judges, simulated users, translation and comparison. A file holds ``parts`` (named
texts with placeholders such as ``{dialogue}``) and ``layouts`` (in which order they are said).
``variants`` and ``languages`` replace parts; an empty part is left out. So the papers' styles of
prompts are a line or two of difference each, and not a file each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from pydantic import Field, model_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import Message
from medal_judges.models.prompted.parsing.answer import AnswerFormat, AnswerShape, Scale
from medal_judges.records.dialogue import Turn
from medal_judges.records.signature import content_hash

ANSWER = "answer"  # in a layout: the part answer_json, answer_number or answer_word
AGAIN = "again"  # the part that is added where an answer is asked for once more
JUDGE_PLACEHOLDERS = frozenset(
    (
        *("dialogue", "response", "role", "examples", "aspects", "form", "key", "label"),
        *("definition", "criteria", "steps", "score", "words", "language"),
        *("low", "high", "low_means", "high_means", "bands"),
    )
)
T = TypeVar("T")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Aspect(Config):
    """What a prompt says of one dimension.

    ``key``: its name in a JSON answer. ``definition`` stands in for the rubric's. ``scale``: the
    one asked for (the rubric's own unless said; answers are mapped linearly onto the rubric's, as
    ORALIS, Equation 1, without rounding). ``whole``: only whole numbers are asked for. ``role``:
    a name in the file's ``roles``.
    """

    key: str | None = None
    label: str | None = None
    definition: str | None = None
    criteria: str = ""
    low_means: str = ""
    high_means: str = ""
    bands: tuple[str, ...] = ()
    scale: Scale | None = None
    whole: bool = True
    role: str | None = None


class Layout(Config):
    """Names of parts in the order they are said, a blank line between two.

    ``ask``: one request for each dimension, or one for all of them together. ``dialogue`` and
    ``turn`` are the user's message at these levels. Where ``{dialogue}`` stands before anything
    that differs between dimensions, the requests share all that comes before.
    """

    ask: Literal["each", "together"] = "each"
    system: tuple[str, ...] = ()
    dialogue: tuple[str, ...] = ()
    turn: tuple[str, ...] = ()


class Texts(Config):
    """What a variant or a language replaces. ``aspects`` are replaced field by field."""

    parts: Mapping[str, str] = {}
    roles: Mapping[str, str] = {}
    aspects: Mapping[str, Mapping[str, object]] = {}
    user: str | None = None
    assistant: str | None = None


class Variant(Texts):
    """``examples``: how many scored examples are shown: 1 is near the median; 3 are lowest, median
    and highest (ORALIS, section 4.2). ``scale``: asked for all dimensions. ``languages``: this
    variant's own texts there."""

    examples: Literal[0, 1, 3] = 0
    scale: Scale | None = None
    whole: bool | None = None
    languages: Mapping[str, Texts] = {}


class Prompt(Config):
    """A prompt file. ``source`` says which paper and section it follows.

    The first layout is the default, ``variant`` names the default variant. A file without layouts
    has one: the part ``system``, where there is one, and the part ``user``. ``user`` and
    ``assistant`` name the speakers in ``{dialogue}``; ``gap`` marks turns that were left out.
    """

    name: str
    source: str = ""
    user: str = "User"
    assistant: str = "Assistant"
    gap: str = "[...]"
    answer: AnswerShape = AnswerShape()
    parts: Mapping[str, str]
    layouts: Mapping[str, Layout] = Field(
        default={"plain": Layout(system=("system",), dialogue=("user",))}, min_length=1
    )
    aspects: Mapping[str, Aspect] = {}
    roles: Mapping[str, str] = {}
    variant: str | None = None
    variants: Mapping[str, Variant] = {}
    languages: Mapping[str, Texts] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Prompt:
        if self.variant is not None and self.variant not in self.variants:
            raise ValueError(f"no variant {self.variant!r} among {', '.join(self.variants)}")
        for name, layout in self.layouts.items() if "layouts" in self.model_fields_set else ():
            for part in (*layout.system, *layout.dialogue, *layout.turn):
                if part not in self.parts and part != ANSWER:
                    raise ValueError(f"layout {name!r}: no part {part!r}")
        return self

    def all_parts(self) -> list[tuple[str, str]]:
        """(name, text) of every part, those of variants and languages too."""
        texts: list[Texts] = [*self.variants.values(), *self.languages.values()]
        texts += [t for v in self.variants.values() for t in v.languages.values()]
        return [*self.parts.items(), *(part for t in texts for part in t.parts.items())]

    def messages(
        self,
        values: Mapping[str, str | None],
        *,
        again: Sequence[Mapping[str, str | None]] = (),
    ) -> list[Message]:
        """The parts ``system``, where there is one, and ``user`` with their placeholders filled.

        ``again`` holds values of each earlier attempt, the first one first: the part ``again`` is
        added to the user's message for each. An empty value counts as none.
        """

        def filled(part: str, *given: Mapping[str, str | None]) -> str:
            values = {name: value or None for each in given for name, value in each.items()}
            return fill(self.parts.get(part, ""), values)

        attempts = again if AGAIN in self.parts else ()
        said = [filled("user", values), *(filled(AGAIN, values, each) for each in attempts)]
        system = [Message("system", filled("system", values))] if "system" in self.parts else []
        return [*system, Message("user", "\n\n".join(said))]


class ResolvedPrompt(Config):
    """One way of asking: a prompt file with its variant, layout and language settled."""

    layout: Layout
    answer: AnswerShape
    parts: Mapping[str, str]
    roles: Mapping[str, str]
    aspects: Mapping[str, Aspect]
    user: str
    assistant: str
    gap: str
    examples: int = 0

    @property
    def hash(self) -> str:
        """12 hex digits over all texts that can be said."""
        said = {*self.layout.system, *self.layout.dialogue, *self.layout.turn, "aspect", "again"}
        parts = {k: v for k, v in self.parts.items() if k in said or k.startswith(f"{ANSWER}_")}
        return content_hash([self.model_dump(exclude={"parts"}), parts])

    def template(self, names: Sequence[str], absent: Collection[str] = ()) -> str:
        """The parts ``names`` as one text with placeholders. Empty parts are left out, and those
        that hold one of the placeholders ``absent``."""
        chosen = [f"{ANSWER}_{self.answer.format}" if name == ANSWER else name for name in names]
        texts = [self.parts.get(name, "").strip() for name in chosen]
        left = [t for t in texts if t and not set(absent).intersection(_PLACEHOLDER.findall(t))]
        return "\n\n".join(left)

    def text(self, names: Sequence[str], values: Mapping[str, str | None]) -> str:
        """The parts ``names`` filled; a part with a placeholder whose value is None is left out."""
        absent = [name for name, value in values.items() if value is None]
        return fill(self.template(names, absent), values)


def load_prompt(
    prompt: str | Prompt,
    placeholders: Collection[str] = JUDGE_PLACEHOLDERS,
    parts: Collection[str] = (),
) -> Prompt:
    """The prompt file at a path, the shipped one of that name (``medal``, ``prompts/medal``), or
    the prompt that a config holds itself.

    Raises ConfigError that names the field, one of ``parts`` that is missing, or a placeholder that
    is none of ``placeholders``.
    """
    if isinstance(prompt, Prompt):
        where = f"prompt {prompt.name}"
    else:
        is_path = prompt.endswith((".yaml", ".yml")) or prompt.startswith("prompts/")
        where = prompt if is_path else f"prompts/{prompt}"
        prompt = build_config(Prompt, read_yaml(where), where=where)
    if missing := sorted(set(parts) - set(prompt.parts)):
        raise ConfigError(f"{where}: no part {missing[0]!r}")
    for part, text in prompt.all_parts():
        if unknown := set(_PLACEHOLDER.findall(text)) - set(placeholders):
            raise ConfigError(
                f"{where}: {part}: no placeholder {{{min(unknown)}}} here",
                hint=f"known: {', '.join(sorted(placeholders))}",
            )
    return prompt


def resolve(
    prompt: Prompt,
    *,
    variant: str | None = None,
    layout: str | None = None,
    language: str = "en",
    answer: AnswerFormat | None = None,
) -> ResolvedPrompt:
    """The prompt with variant, layout and language settled; the defaults where None is given.

    English is what the file itself says. Raises ConfigError for a name that the file lacks.
    """
    variant = variant or prompt.variant
    style = _named(prompt, "variant", prompt.variants, variant) if variant else Variant()
    shape = _named(prompt, "layout", prompt.layouts, layout or next(iter(prompt.layouts)))
    layers: list[Texts] = [style]
    if language != "en":
        layers.append(_named(prompt, "language", prompt.languages, language))
        layers += [style.languages[language]] if language in style.languages else []
    texts: list[Prompt | Texts] = [prompt, *layers]
    return ResolvedPrompt(
        layout=shape,
        answer=prompt.answer.model_copy(update={"format": answer} if answer else {}),
        parts={name: text for t in texts for name, text in t.parts.items()},
        roles={name: text for t in texts for name, text in t.roles.items()},
        aspects=_aspects(prompt, style, layers),
        user=next((t.user for t in reversed(texts) if t.user), ""),
        assistant=next((t.assistant for t in reversed(texts) if t.assistant), ""),
        gap=prompt.gap,
        examples=style.examples,
    )


def _named(prompt: Prompt, what: str, known: Mapping[str, T], name: str) -> T:
    if name not in known:
        have = ", ".join([*(["en"] if what == "language" else []), *known]) or "none"
        raise ConfigError(
            f"the prompt {prompt.name!r} has no {what} {name!r}", hint=f"it has: {have}"
        )
    return known[name]


def _aspects(prompt: Prompt, style: Variant, layers: list[Texts]) -> dict[str, Aspect]:
    names = {*prompt.aspects, *(name for layer in layers for name in layer.aspects)}
    aspects = {}
    for name in sorted(names):
        fields = prompt.aspects.get(name, Aspect()).model_dump()
        for layer in layers:
            fields |= layer.aspects.get(name, {})
        if style.scale is not None:
            fields["scale"] = style.scale
        if style.whole is not None:
            fields["whole"] = style.whole
        where = f"prompt {prompt.name}, aspect {name}"
        aspects[name] = build_config(Aspect, fields, where=where)
    return aspects


def fill(template: str, values: Mapping[str, str | None]) -> str:
    """``template`` with its placeholders filled in one pass: what is filled in is not looked at
    again, so a turn that says ``{role}`` stays as it is. A line with a placeholder whose value is
    None is left out. Raises ConfigError for a judge's placeholder without a value; other braces
    stay."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in values and match[1] in JUDGE_PLACEHOLDERS:
            raise ConfigError(f"the prompt's placeholder {match[0]} has no value in this layout")
        return values.get(match[1]) or ("" if match[1] in values else match[0])

    lines = template.strip().split("\n")
    told = [
        line
        for line in lines
        if not any(name in values and values[name] is None for name in _PLACEHOLDER.findall(line))
    ]
    kept = "\n".join(told)
    if len(told) < len(lines):
        kept = re.sub(r"\n{3,}", "\n\n", kept)
    return _PLACEHOLDER.sub(value, kept).strip()


def transcript(
    turns: Iterable[Turn | Message | None],
    names: Mapping[str, str] | None = None,
    *,
    gap: str = "[...]",
    keep_breaks: bool = False,
) -> str:
    """One line a turn, ``user: ...``; a role may have another name in ``names``, and None is a gap.

    Line breaks inside a turn become blanks, so that none can pose as a turn (``keep_breaks``: they
    stay).
    """
    lines = []
    for turn in turns:
        if turn is None:
            lines.append(gap)
            continue
        content = turn.content if keep_breaks else " ".join(turn.content.split())
        lines.append(f"{(names or {}).get(turn.role, turn.role)}: {content}")
    return "\n".join(lines)
