"""Prompt files: the texts that a language model is sent, as jinja2 templates in configs/prompts/.

Judges, simulated users and translation use the same format. A judge's file has the part ``user``,
and may have ``system``, ``prefill`` (the beginning of the answer) and ``again`` (a second question,
for the number alone)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import Message
from medal_judges.models.prompted.answers import AnswerShape, Scale
from medal_judges.records.dialogue import Turn
from medal_judges.records.signature import content_hash

AGAIN = "again"  # the part for a second question
GAP = "[...]"  # stands for turns that are left out
_ENVIRONMENT = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
)
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


class Aspect(Config):
    """What a prompt file says about one dimension.

    Attributes:
        key: The dimension's key in a JSON answer. None is the dimension's name.
        label: The dimension's name elsewhere, such as ``non-repetition``. None is the dimension's
            name with spaces for underscores.
        definition: Replaces the rubric's definition of the dimension. None keeps it.
        criteria: What the model is told to look at.
        low_means: What the low end of the scale means.
        high_means: What the high end of the scale means.
        bands: What each rating means, from the lowest to the highest (only for G-Eval).
        scale: The (lowest, highest) score to ask for, later mapped to the rubric's scale. None asks
            on the rubric's scale.
        whole: Whether to ask for whole numbers only. A continuous dimension is never asked for
            whole numbers if ``scale`` is None.
        role: Who the model is told to be, one of the prompt's ``roles``. None gives it no role.
        steps: How to evaluate, step by step (only for G-Eval).
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
    steps: tuple[str, ...] = ()


class Prompt(Config):
    """The content of a prompt file.

    Attributes:
        name: The prompt's name.
        source: The paper that the prompt follows, such as ``DIET, appendix A``.
        parts: Name -> jinja2 template, such as ``user`` and ``system`` (the messages) or ``again``
            (a second question).
        answer: How the model is asked to write its score.
        layouts: Arrangements of the questions: name -> ``each`` (one for each dimension) or
            ``together`` (one about all). The first is the default.
        variants: Wordings that the templates distinguish, such as ``zero_shot``. The first is the
            default.
        roles: Who the templates can tell the model to be, such as ``expert``.
        examples: The variants that show three scored dialogues (ORALIS, section 4.2), such as
            ``few_shot``.
        scales: Variant -> the (lowest, highest) whole number that it asks for, such as ``{"hd": [1,
            3]}``.
        languages: Languages with a translation of the prompt, such as ``de`` in the file
            NAME_de.yaml.
        speakers: Role -> the speaker's name in a transcript without tags, such as ``{"assistant":
            "Chatbot"}``.
        aspects: Dimension -> what the prompt says about it.
    """

    name: str
    source: str = ""
    parts: Mapping[str, str]
    answer: AnswerShape = AnswerShape()
    layouts: Mapping[str, Literal["each", "together"]] = {"plain": "each"}
    variants: tuple[str, ...] = ("plain",)
    roles: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    scales: Mapping[str, Scale] = {}
    languages: tuple[str, ...] = ()
    speakers: Mapping[str, str] = {"user": "User", "assistant": "Assistant"}
    aspects: Mapping[str, Aspect] = {}

    def render(self, part: str, values: Mapping[str, Any]) -> str:
        """Returns the template ``part`` (such as ``user``) filled with ``values``, or an empty
        string if the prompt has no such template.

        Args:
            values: Template variable -> value.

        Raises:
            ConfigError: The template needs a value that is not given.
        """
        try:
            return compile_template(self.parts.get(part, "")).render(values).strip()
        except (TemplateError, TypeError) as error:
            raise ConfigError(f"prompt {self.name}: {part}: {error}") from error

    def messages(
        self,
        values: Mapping[str, object],
        *,
        again: Sequence[Mapping[str, object]] = (),
    ) -> list[Message]:
        """Returns the chat messages of the prompt: the system message, if it has one, and the user
        message.

        Args:
            values: Template variable -> value.
            again: For each earlier answer that could not be used, template variable -> value for
                the template ``again``. Each filled template is appended to the user message.

        Raises:
            ConfigError: A template needs a value that is not given.
        """
        texts = [self.render("user", values)]
        if AGAIN in self.parts:
            texts += [self.render(AGAIN, {**values, **attempt}) for attempt in again]
        messages = [Message("user", "\n\n".join(texts))]
        if system := self.render("system", values):
            messages.insert(0, Message("system", system))
        return messages

    def value_names(self, part: str) -> set[str]:
        """Returns the names of the variables in the template ``part``. The set is empty if the
        prompt has no such template.

        Raises:
            ConfigError: The template is not valid.
        """
        try:
            return find_undeclared_variables(
                _ENVIRONMENT.parse(self.parts.get(part, ""))
            )
        except TemplateError as error:
            raise ConfigError(f"prompt {self.name}: {part}: {error}") from error

    @property
    def hash(self) -> str:
        """A hash of 12 hex digits of the prompt file's content, without ``name`` and ``source``."""
        return content_hash(self.model_dump(exclude={"name", "source"}))


@lru_cache(maxsize=1024)
def compile_template(text: str) -> Template:
    """Returns the jinja2 template with this ``text``. It runs in a sandbox.

    Raises:
        jinja2.TemplateSyntaxError: The text is not a template.
    """
    return _ENVIRONMENT.from_string(text)


def load_prompt(
    prompt: str | Prompt,
    known: Collection[str] | None = None,
    parts: Collection[str] = (),
    language: str = "en",
) -> Prompt:
    """Loads a prompt file and checks its templates.

    Args:
        prompt: A file, or the name of a shipped one, such as ``oralis``. A loaded Prompt is only
            checked.
        known: The names of variables that templates may use, such as ``["dialogue"]``. None allows
            any.
        parts: The names of templates that must exist, such as ``["user"]``.
        language: The language to load, such as ``de``.

    Raises:
        ConfigError: The file, the language or a template is missing. Or a template is not valid or
            uses an unknown variable.
    """
    where = str(prompt)
    if isinstance(prompt, Prompt):
        where = f"prompt {prompt.name}"
    else:
        if not where.endswith((".yaml", ".yml")) and not where.startswith("prompts/"):
            where = f"prompts/{prompt}"
        prompt = build_config(Prompt, read_yaml(where), where=where)
        if language != "en":
            if language not in prompt.languages:
                raise ConfigError(
                    f"{where} has no language {language!r}",
                    hint=f"Use one of: {', '.join(['en', *prompt.languages])}",
                )
            stem, dot, ending = where.partition(".yaml")
            where = f"{stem}_{language}{dot}{ending}"
            prompt = build_config(Prompt, read_yaml(where), where=where)
    if missing := sorted(set(parts) - set(prompt.parts)):
        raise ConfigError(f"{where}: write a part {missing[0]!r}")
    for part in prompt.parts:
        used = prompt.value_names(part)
        if known is not None and (unknown := used - set(known)):
            raise ConfigError(
                f"{where}: {part}: no value {min(unknown)!r} here",
                hint=f"Use one of: {', '.join(sorted(known))}",
            )
    return prompt


def transcript(
    turns: Iterable[Turn | Message | None],
    names: Mapping[str, str] | None = None,
    *,
    keep_breaks: bool = False,
) -> str:
    """Returns ``turns`` as text, with a line ``role: content`` for each.

    Args:
        turns: The turns. None stands for turns that are left out, and becomes a line ``[...]``.
        names: Role -> the name to write instead, such as ``{"assistant": "Chatbot"}``. None writes
            the role.
        keep_breaks: Whether to keep line breaks in a turn. By default they become spaces, so that a
            turn cannot imitate another turn.
    """
    lines = []
    for turn in turns:
        if turn is None:
            lines.append(GAP)
            continue
        content = turn.content if keep_breaks else " ".join(turn.content.split())
        lines.append(f"{(names or {}).get(turn.role, turn.role)}: {content}")
    return "\n".join(lines)


# -- the fence around foreign text -----------------------------------------------------------------
# Each turn is between marks, <user>...</user>, on one line, and the conversation between <dialogue>
# and </dialogue>. A sentence before it says that the text between the marks is material. Random
# marks would also work, but would separate prompts that share their beginning.


def sanitise_line(text: str) -> str:
    """Returns ``text`` on one line, without invisible characters. Tags are escaped: ``<user>``
    becomes ``&lt;user>``."""
    return _OPENING.sub("&lt;", " ".join(_UNSEEN.sub("", text).split()))


def fence_text(mark: str, text: str) -> str:
    """Returns ``text`` between tags named ``mark``, such as ``<response>...</response>``.

    Tags in the text itself are escaped.
    """
    return f"<{mark}>{sanitise_line(text)}</{mark}>"


def fence_dialogue(turns: Iterable[Turn | None]) -> str:
    """Returns ``turns`` as text between ``<dialogue>`` tags, with one tagged line for each turn,
    such as ``<user>Hi</user>``.

    None in ``turns`` stands for turns that are left out, and becomes ``[...]``.
    """
    lines = ["<dialogue>"]
    for turn in turns:
        lines.append(GAP if turn is None else fence_text(turn.role, turn.content))
    return "\n".join([*lines, "</dialogue>"])


@cache
def fence_note(language: str) -> str:
    """Returns the sentence in a prompt that explains the tags around turns.

    Args:
        language: A language code such as ``de``. Without a translation the sentence is in English.
    """
    notes = load_prompt("fence", parts=("en",)).parts
    return notes.get(language, notes["en"]).strip()
