"""Prompt files: the texts for a language model, as YAML in configs/prompts/.

One format for judges, simulated users, translation and comparison. A file holds ``parts`` (named
texts with placeholders such as ``{dialogue}``) and ``layouts`` (their order). ``variants`` and
``languages`` replace parts; an empty part is left out. So the prompt styles of the papers differ in
a line or two each, not in a file each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Literal

from pydantic import Field, model_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import Message
from medal_judges.models.prompted.answers import AnswerReading, AnswerShape, Scale
from medal_judges.records.dialogue import Turn
from medal_judges.records.signature import content_hash

ANSWER = "answer"  # in a layout: the part answer_json or answer_number
AGAIN = "again"  # the part for a second question
FENCE_NOTE = "note"
# An opening bracket or a look-alike before a letter, a slash, or the bar and marks of chat
# templates. Not before others: `<3` is a heart, and 〈 opens a Chinese title. Characters that a
# reader hardly sees may come between: blanks, joiners, accents and variation selectors.
_GAP = r"[\s\u0300-\u036f\u200c\u200d\u20d0-\u20ff\u2800\ufe00-\ufe0f]{0,6}"
_SLASH = r"[/／⁄∕⧸╱⟋]"
_LETTER = (
    r"(?:[^\W\d_\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[\u249c-\u24e9\U0001f110-\U0001f189])"
)
_OPENING = re.compile(
    rf"[<＜﹤‹〈⟨❮❬❰˂ᐸ≺⧼](?={_GAP}(?:{_SLASH}|[\\|!?｜∖╲⧵])?{_GAP}{_LETTER})"
    rf"|[«≪⟪《⋖⪡≮](?={_GAP}{_SLASH}{_GAP}{_LETTER})"  # also quotation marks: only before a slash
)
# Controls, soft hyphens, marks of direction, zero-width characters, tag characters and the further
# variation selectors. Joiners (U+200C, U+200D) stay: Hindi, Persian and emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e01ef]"
)
JUDGE_PLACEHOLDERS = frozenset(
    (
        *(
            "dialogue",
            "response",
            "role",
            "examples",
            "aspects",
            "form",
            "key",
            "label",
        ),
        *("issues", "qualities", "scales", "overall"),
        *("definition", "criteria", "steps", "score", "words", "language"),
        *("low", "high", "best", "low_means", "high_means", "bands"),
    )
)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Aspect(Config):
    """A prompt's texts about one dimension. ``key``: its name in a JSON answer. ``scale``: the
    requested one; answers are mapped linearly to the rubric's, without rounding (ORALIS, Equation
    1). ``whole``: request whole numbers only. ``role``: a name in the file's ``roles``."""

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
    """Names of parts in order. ``ask``: one request per dimension, or one for all. ``dialogue`` and
    ``turn`` are the user's message at these levels. If ``{dialogue}`` precedes everything that
    differs between dimensions, a local model reads that shared beginning once."""

    ask: Literal["each", "together"] = "each"
    system: tuple[str, ...] = ()
    dialogue: tuple[str, ...] = ()
    turn: tuple[str, ...] = ()

    @property
    def part_names(self) -> tuple[str, ...]:
        return self.system + self.dialogue + self.turn


class Texts(Config):
    """The texts that a variant or a language replaces; ``aspects`` are replaced field by field."""

    parts: Mapping[str, str] = {}
    roles: Mapping[str, str] = {}
    aspects: Mapping[str, Mapping[str, object]] = {}
    user: str | None = None
    assistant: str | None = None


class Variant(Texts):
    """``examples``: the number of scored examples in the prompt: 1 near the median, or 3 (lowest,
    median, highest; ORALIS, section 4.2). ``scale``: for all dimensions. ``languages``: the
    variant's own texts in these."""

    examples: Literal[0, 1, 3] = 0
    scale: Scale | None = None
    whole: bool | None = None
    languages: Mapping[str, Texts] = {}


class Prompt(Config):
    """A prompt file. The first layout is the default, ``variant`` the default variant; a file
    without layouts has one of the parts ``system`` and ``user``. ``user`` and ``assistant`` are the
    speakers in ``{dialogue}``; ``gap`` marks turns that are left out."""

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
            raise ValueError(
                f"no variant {self.variant!r} among {', '.join(self.variants)}"
            )
        if "layouts" not in self.model_fields_set:
            return self
        for name, layout in self.layouts.items():
            for part in layout.part_names:
                if part not in self.parts and part != ANSWER:
                    raise ValueError(f"layout {name!r}: no part {part!r}")
        return self

    def messages(
        self,
        values: Mapping[str, str | None],
        *,
        again: Sequence[Mapping[str, str | None]] = (),
    ) -> list[Message]:
        """The parts ``system``, if there is one, and ``user`` with filled placeholders. ``again``
        has the values of each earlier attempt; an empty value counts as None."""

        def filled(part: str, attempt: Mapping[str, str | None]) -> str:
            merged = {**values, **attempt}
            for name in merged:
                merged[name] = merged[name] or None
            return fill(self.parts.get(part, ""), merged)

        texts = [filled("user", {})]
        if AGAIN in self.parts:
            texts += [filled(AGAIN, attempt) for attempt in again]
        user = Message("user", "\n\n".join(texts))
        if "system" not in self.parts:
            return [user]
        return [Message("system", filled("system", {})), user]


class ResolvedPrompt(Config):
    """A prompt file with one variant, layout and language."""

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
        """12 hex digits over all texts that can be sent."""
        used = {*self.layout.part_names, "aspect", "aspect_scale", AGAIN}
        parts = {}
        for name, text in self.parts.items():
            base_name = name.removesuffix("_binary").removesuffix("_other")
            if base_name in used or name.startswith(f"{ANSWER}_"):
                parts[name] = text
        return content_hash([self.model_dump(exclude={"parts"}), parts])

    def template(self, names: Sequence[str], absent: Collection[str] = ()) -> str:
        """The parts ``names`` as one text, without empty ones and those that contain one of the
        placeholders ``absent``."""
        texts = []
        for name in names:
            if name == ANSWER:
                name = f"{ANSWER}_{self.answer.format}"
            text = self.parts.get(name, "").strip()
            if text and set(absent).isdisjoint(_PLACEHOLDER.findall(text)):
                texts.append(text)
        return "\n\n".join(texts)

    def require(
        self, names: Sequence[str], placeholders: Collection[str], where: str
    ) -> None:
        """Raises ConfigError if the parts ``names`` of the file ``where`` lack a placeholder. No
        parts lack none: their level is not judged."""
        text = self.template(names)
        for placeholder in placeholders:
            if names and placeholder not in text:
                raise ConfigError(f"{where}: no {placeholder} in {', '.join(names)}")

    def text(self, names: Sequence[str], values: Mapping[str, str | None]) -> str:
        """The parts ``names`` filled, without those that contain a placeholder with value None."""
        absent = [name for name, value in values.items() if value is None]
        return fill(self.template(names, absent), values)


def load_prompt(
    prompt: str | Prompt,
    placeholders: Collection[str] = JUDGE_PLACEHOLDERS,
    parts: Collection[str] = (),
) -> Prompt:
    """The prompt file at a path, the shipped one of that name, or a Prompt from a config. Raises
    ConfigError for a missing one of ``parts``, or an unknown placeholder."""
    if isinstance(prompt, Prompt):
        where = f"prompt {prompt.name}"
    else:
        where = prompt
        if not where.endswith((".yaml", ".yml")) and not where.startswith("prompts/"):
            where = f"prompts/{prompt}"
        prompt = build_config(Prompt, read_yaml(where), where=where)
    if missing := sorted(set(parts) - set(prompt.parts)):
        raise ConfigError(f"{where}: no part {missing[0]!r}")
    texts: list[Texts | Prompt] = [
        prompt,
        *prompt.variants.values(),
        *prompt.languages.values(),
    ]
    for variant in prompt.variants.values():
        texts += variant.languages.values()
    for part, text in chain.from_iterable(t.parts.items() for t in texts):
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
    answer: AnswerReading | None = None,
) -> ResolvedPrompt:
    """The prompt with one variant, layout and language (default: the file's own, in English).
    Raises ConfigError for a name that the file does not have."""

    def named(kind: str, choices: Mapping[str, Any], name: str) -> Any:
        if name not in choices:
            names = list(choices)
            if kind == "language":
                names.insert(0, "en")
            raise ConfigError(
                f"the prompt {prompt.name!r} has no {kind} {name!r}",
                hint=f"it has: {', '.join(names) or 'none'}",
            )
        return choices[name]

    style, variant = Variant(), variant or prompt.variant
    if variant:
        style = named("variant", prompt.variants, variant)
    # Each layer replaces texts of those before it.
    layers: list[Texts] = [style]
    if language != "en":
        layers.append(named("language", prompt.languages, language))
        if language in style.languages:
            layers.append(style.languages[language])
    parts, roles = dict(prompt.parts), dict(prompt.roles)
    user, assistant = prompt.user, prompt.assistant
    for layer in layers:
        parts |= layer.parts
        roles |= layer.roles
        user = layer.user or user
        assistant = layer.assistant or assistant
    layout = layout or next(iter(prompt.layouts))
    shape = {"format": answer or prompt.answer.format}
    if answer == "prose":
        shape = {"format": "number", "line": "prose"}
    return ResolvedPrompt(
        layout=named("layout", prompt.layouts, layout),
        answer=prompt.answer.model_copy(update=shape),
        parts=parts,
        roles=roles,
        aspects=_resolved_aspects(prompt, style, layers),
        user=user,
        assistant=assistant,
        gap=prompt.gap,
        examples=style.examples,
    )


def _resolved_aspects(
    prompt: Prompt, style: Variant, layers: Sequence[Texts]
) -> dict[str, Aspect]:
    """Returns the prompt's aspects with the fields that ``layers`` and the variant replace."""
    overrides = style.model_dump(include={"scale", "whole"}, exclude_none=True)
    aspects = {}
    for name in sorted({*prompt.aspects}.union(*(layer.aspects for layer in layers))):
        fields = prompt.aspects.get(name, Aspect()).model_dump()
        for layer in layers:
            fields |= layer.aspects.get(name, {})
        fields |= overrides
        aspects[name] = build_config(
            Aspect, fields, where=f"prompt {prompt.name}, aspect {name}"
        )
    return aspects


def fill(template: str, values: Mapping[str, str | None]) -> str:
    """Fills the placeholders of ``template`` in one pass, so that a turn that contains ``{role}``
    stays unchanged. A line with a placeholder whose value is None is left out. Raises ConfigError
    for a judge's placeholder without a value; other braces stay."""

    def value(match: re.Match[str]) -> str:
        if match[1] in values:
            return values[match[1]] or ""
        if match[1] in JUDGE_PLACEHOLDERS:
            raise ConfigError(
                f"the prompt's placeholder {match[0]} has no value in this layout"
            )
        return match[0]

    absent = {name for name, text in values.items() if text is None}
    lines = template.strip().split("\n")
    filled = [line for line in lines if absent.isdisjoint(_PLACEHOLDER.findall(line))]
    text = "\n".join(filled)
    if len(filled) < len(lines):
        text = re.sub(r"\n{3,}", "\n\n", text)
    return _PLACEHOLDER.sub(value, text).strip()


def transcript(
    turns: Iterable[Turn | Message | None],
    names: Mapping[str, str] | None = None,
    *,
    gap: str = "[...]",
    keep_breaks: bool = False,
) -> str:
    """One line per turn, ``user: ...``, with other names for the roles in ``names``; None is a gap.
    Line breaks inside a turn become blanks, so that a turn cannot imitate another, unless
    ``keep_breaks``."""
    lines = []
    for turn in turns:
        if turn is None:
            lines.append(gap)
            continue
        content = turn.content if keep_breaks else " ".join(turn.content.split())
        lines.append(f"{(names or {}).get(turn.role, turn.role)}: {content}")
    return "\n".join(lines)


# -- the fence around foreign text -----------------------------------------------------------------
# Each turn is between marks, <user>...</user>, on one line, and the conversation between <dialogue>
# and </dialogue>. A sentence before it says that the text between the marks is material. Random
# marks would also work, but would separate prompts that share their beginning.


def harmless(text: str) -> str:
    """``text`` on one line, without invisible characters and with possible marks escaped."""
    return _OPENING.sub("&lt;", " ".join(_UNSEEN.sub("", text).split()))


def fenced(mark: str, text: str) -> str:
    """Returns a text of the dialogue between its marks: ``<response>...</response>``."""
    return f"<{mark}>{harmless(text)}</{mark}>"


def fenced_dialogue(turns: Iterable[Turn | None], *, gap: str) -> str:
    """One turn per line, each between the marks of its role; None is a gap."""
    lines = ["<dialogue>"]
    for turn in turns:
        lines.append(gap if turn is None else fenced(turn.role, turn.content))
    return "\n".join([*lines, "</dialogue>"])


@cache
def fence_note(language: str) -> str:
    """The sentence about the marks in ``language``, in English if it has no translation."""
    prompt = load_prompt("fence", parts=(FENCE_NOTE,))
    texts = prompt.languages.get(language, prompt)
    return texts.parts[FENCE_NOTE].strip()
