"""Prompt files: what a judge says to a language model, as YAML in configs/prompts/.

A file holds ``parts`` (named texts with places such as ``{dialogue}``) and ``layouts`` (in which
order they stand). ``variants`` and ``languages`` replace parts; an empty part is left out. So the
papers' prompt styles are a line or two of difference each, and not a file each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.signature import content_hash

AnswerFormat = Literal["json", "number"]
Scale = tuple[float, float]
ANSWER = "answer"  # the layout's name for the part answer_json or answer_number
PLACES = frozenset(
    (
        *("dialogue", "response", "role", "examples", "aspects", "form", "key", "label"),
        *("definition", "criteria", "steps", "score", "words", "language"),
        *("low", "high", "low_means", "high_means", "bands"),
    )
)
_PLACE = re.compile(r"\{(\w+)\}")


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

    ask: Literal["each", "together"]
    system: tuple[str, ...] = ()
    dialogue: tuple[str, ...] = ()
    turn: tuple[str, ...] = ()


class Answer(Config):
    """``format`` json: an object; ``score`` and ``comment`` are its fields (no comment when None).
    Asked together, each dimension has an object of its own, or a bare number without comment."""

    format: AnswerFormat = "json"
    score: str = "score"
    comment: str | None = None


class Texts(Config):
    """What a variant or a language replaces. ``aspects`` are replaced field by field."""

    parts: Mapping[str, str] = {}
    roles: Mapping[str, str] = {}
    aspects: Mapping[str, Mapping[str, Any]] = {}
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

    The first layout is the default, ``variant`` names the default variant. ``user`` and
    ``assistant`` name the speakers in ``{dialogue}``; ``gap`` marks turns that were left out.
    """

    name: str
    source: str
    user: str = "User"
    assistant: str = "Assistant"
    gap: str = "[...]"
    answer: Answer = Answer()
    parts: Mapping[str, str]
    layouts: Mapping[str, Layout] = Field(min_length=1)
    aspects: Mapping[str, Aspect] = {}
    roles: Mapping[str, str] = {}
    variant: str | None = None
    variants: Mapping[str, Variant] = {}
    languages: Mapping[str, Texts] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Prompt:
        if self.variant is not None and self.variant not in self.variants:
            raise ValueError(f"no variant {self.variant!r} among {', '.join(self.variants)}")
        for text in self._all_texts():
            if unknown := set(_PLACE.findall(text)) - PLACES:
                raise ValueError(f"no place {{{min(unknown)}}}; known: {', '.join(sorted(PLACES))}")
        for name, layout in self.layouts.items():
            for part in (*layout.system, *layout.dialogue, *layout.turn):
                if part not in self.parts and part != ANSWER:
                    raise ValueError(f"layout {name!r}: no part {part!r}")
        return self

    def _all_texts(self) -> list[str]:
        variants = list(self.variants.values())
        texts: list[Texts] = [*variants, *self.languages.values()]
        texts += [t for v in variants for t in v.languages.values()]
        return [*self.parts.values(), *(part for t in texts for part in t.parts.values())]


class Chosen(Config):
    """One way of asking: a prompt file with its variant, layout and language settled."""

    layout: Layout
    answer: Answer
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

    def template(self, names: tuple[str, ...]) -> str:
        """The parts ``names`` as one text with places; empty parts are left out."""
        texts = [self.parts.get(self._part(name), "").strip() for name in names]
        return "\n\n".join(text for text in texts if text)

    def _part(self, name: str) -> str:
        return f"{ANSWER}_{self.answer.format}" if name == ANSWER else name


def load_prompt(name_or_path: str) -> Prompt:
    """The prompt file at a path, or the shipped one of that name (``medal``, ``prompts/medal``).

    Raises ConfigError that names the field.
    """
    is_path = name_or_path.endswith((".yaml", ".yml")) or name_or_path.startswith("prompts/")
    where = name_or_path if is_path else f"prompts/{name_or_path}"
    return build_config(Prompt, read_yaml(where), where=where)


def choose(
    prompt: Prompt,
    *,
    variant: str | None = None,
    layout: str | None = None,
    language: str = "en",
    answer: AnswerFormat | None = None,
) -> Chosen:
    """The prompt with variant, layout and language settled; the defaults where None is given.

    English is what the file itself says. Raises ConfigError for a name that the file lacks.
    """
    style = _named(prompt, "variant", prompt.variants, variant or prompt.variant) or Variant()
    shape = _named(prompt, "layout", prompt.layouts, layout or next(iter(prompt.layouts)))
    layers: list[Texts] = [style]
    if language != "en":
        layers.append(_named(prompt, "language", prompt.languages, language))
        layers += [style.languages[language]] if language in style.languages else []
    return Chosen(
        layout=shape,
        answer=prompt.answer.model_copy(update={"format": answer} if answer else {}),
        parts=_merged(prompt.parts, [t.parts for t in layers]),
        roles=_merged(prompt.roles, [t.roles for t in layers]),
        aspects=_aspects(prompt, style, layers),
        user=next((t.user for t in reversed(layers) if t.user), prompt.user),
        assistant=next((t.assistant for t in reversed(layers) if t.assistant), prompt.assistant),
        gap=prompt.gap,
        examples=style.examples,
    )


def _named(prompt: Prompt, what: str, known: Mapping[str, Any], name: str | None) -> Any:
    if name is None:
        return None
    if name not in known:
        have = ", ".join([*(["en"] if what == "language" else []), *known]) or "none"
        raise ConfigError(
            f"the prompt {prompt.name!r} has no {what} {name!r}", hint=f"it has: {have}"
        )
    return known[name]


def _merged(base: Mapping[str, str], layers: list[Mapping[str, str]]) -> dict[str, str]:
    merged = dict(base)
    for layer in layers:
        merged |= layer
    return merged


def _aspects(prompt: Prompt, style: Variant, layers: list[Texts]) -> dict[str, Aspect]:
    names = {*prompt.aspects, *(name for layer in layers for name in layer.aspects)}
    found = {}
    for name in sorted(names):
        fields = prompt.aspects.get(name, Aspect()).model_dump()
        for layer in layers:
            fields |= layer.aspects.get(name, {})
        if style.scale is not None:
            fields["scale"] = style.scale
        if style.whole is not None:
            fields["whole"] = style.whole
        where = f"prompt {prompt.name}, aspect {name}"
        found[name] = build_config(Aspect, fields, where=where)
    return found


def fill(template: str, values: Mapping[str, str]) -> str:
    """``template`` with its places filled in one pass: what is filled in is not looked at again,
    so a turn that says ``{role}`` stays as it is. Braces without a place's name stay too."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in PLACES:
            return match[0]
        if name not in values:
            raise ConfigError(f"the prompt's place {{{name}}} has no value in this layout")
        return values[name]

    return _PLACE.sub(value, template).strip()
