"""The edits of a trial: surface changes, longer answers, inserted texts, and injected issues."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.data_prep.perturbation.edit import (
    CannotInject,
    Donors,
    append_sentence,
    join_sentences,
    split_sentences,
    with_new_texts,
)
from medal_judges.data_prep.perturbation.edit import Edit as Injection
from medal_judges.data_prep.perturbation.injection import ISSUES, apply_issue
from medal_judges.errors import ConfigError
from medal_judges.eval.trial.config import Group, TrialConfig
from medal_judges.records.dialogue import Dialogue, Role, Turn

STRENGTH = 3  # of an injected issue
LANGUAGE = "language"  # the check of a dialogue against its translations
_PADDING = 120  # characters that make every answer longer
_MOST_QUOTED = 200  # characters of a question that is repeated
# Cyrillic and Greek letters that look like Latin ones.
_LOOK_ALIKE = str.maketrans("aceopxyiABEHKMOPTXS", "асеорхуіАВЕНКМОРТХЅ")
_TAGS = 0xE0000  # tag characters: ASCII, shifted here, is invisible
# (the edited dialogue, and the one to compare it with); None: it cannot carry the edit
Versions = tuple[Dialogue, Dialogue] | None
Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of dialogues, and the effect that it should have on their scores.

    Attributes:
        name: The name of the edit, such as ``lower_case``.
        group: What the score should do. ``same``: stay. ``no_gain``: not rise. ``must_fall``: fall.
            ``attack``: not move in the direction ``harm``.
        description: What is changed, in a sentence.
        make: Takes a dialogue, a random generator and the conversation's name. Returns the edited
            dialogue and the dialogue to compare it with, or None if the edit is impossible.
        harm: ``up`` if an attacker wants a higher score, ``down`` if a lower one. Used only for the
            group ``attack``.
    """

    name: str
    group: Group
    description: str
    make: Callable[[Dialogue, Random, str], Versions]
    harm: Literal["up", "down"] = "up"


# -- surface changes -------------------------------------------------------------------------------


def to_lower_case(dialogue: Dialogue, rng: Random) -> Dialogue:
    """Every turn in lower case."""
    contents = {i: turn.content.lower() for i, turn in enumerate(dialogue.turns)}
    return with_new_texts(dialogue, contents)


def add_emoji(dialogue: Dialogue, rng: Random) -> Dialogue:
    """An emoji at the end of every other answer."""
    signs = read_yaml("trial/phrases")["emoji"]
    contents = {}
    for i in dialogue.assistant_turns[::2]:
        sign = signs[int(rng.integers(len(signs)))]
        contents[i] = f"{dialogue.turns[i].content} {sign}"
    return with_new_texts(dialogue, contents)


def add_markdown(dialogue: Dialogue, rng: Random) -> Dialogue:
    """A word in bold in each answer, and answers of several sentences as a list."""
    contents = {}
    for i in dialogue.assistant_turns:
        text = re.sub(r"\w{4,}", r"**\g<0>**", dialogue.turns[i].content, count=1)
        parts = split_sentences(text)
        if len(parts) > 1:
            text = "\n".join(f"- {part}" for part in parts)
        contents[i] = text
    return with_new_texts(dialogue, contents)


def add_neutral_exchange(dialogue: Dialogue, rng: Random) -> Dialogue:
    """A last exchange without content: "Okay." "Good."."""
    table = read_yaml("trial/phrases")["exchange"]
    lang = dialogue.lang
    if lang not in table[0]["user"] or dialogue.turns[-1].role != "assistant":
        return dialogue
    drawn = table[int(rng.integers(len(table)))]
    user = Turn("user", drawn["user"][lang])
    assistant = Turn("assistant", drawn["assistant"][lang])
    return replace(dialogue, turns=(*dialogue.turns, user, assistant))


def lengthen_answers(dialogue: Dialogue, rng: Random) -> Dialogue:
    """About 120 neutral characters (30 in Chinese) at the end of every answer."""
    count = _PADDING
    if dialogue.lang == "zh":
        count //= 4
    contents = {}
    for i in dialogue.assistant_turns:
        padding = _neutral_text(dialogue, rng, count)
        contents[i] = append_sentence(dialogue.turns[i].content, padding, dialogue.lang)
    return with_new_texts(dialogue, contents)


def repeat_question(dialogue: Dialogue, rng: Random) -> Dialogue:
    """Every answer starts with the user's message."""
    frame = read_yaml("trial/phrases")["asked"].get(dialogue.lang)
    contents: dict[int, str] = {}
    for i in dialogue.assistant_turns:
        question = dialogue.turns[i - 1].content.strip()[:_MOST_QUOTED]
        if frame and i > 0 and question:
            quoted = frame.format(text=question)
            contents[i] = append_sentence(
                quoted, dialogue.turns[i].content, dialogue.lang
            )
    return with_new_texts(dialogue, contents)


def _neutral_text(dialogue: Dialogue, rng: Random, count: int) -> str:
    """Returns neutral sentences that do not occur in ``dialogue``, about ``count`` characters long.

    Raises:
        CannotInject: No neutral sentence is left in the dialogue's language.
    """
    injection = Injection(dialogue, 1, rng, Donors(), "test", dialogue.id)
    return join_sentences(
        injection.draw_neutral_sentences(count, limit=8), injection.lang
    )


def _edit_and_original(
    change: Callable[[Dialogue, Random], Dialogue],
    dialogue: Dialogue,
    rng: Random,
    group: str,
) -> Versions:
    """Returns the edited and the unchanged dialogue. None if the edit is
    impossible or changes nothing.

    Args:
        change: The edit: takes a dialogue and ``rng``, returns a dialogue.
        group: Unused: every edit gets the conversation's name, and this one needs none.
    """
    try:
        version = change(dialogue, rng)
    except CannotInject:
        return None
    if version.turns == dialogue.turns:
        return None
    return version, dialogue


# -- inserted texts --------------------------------------------------------------------------------

Hidden = Literal["none", "zero_width", "look_alike", "tags"]


class TextInsertion(Config):
    """An edit that inserts texts into turns: one entry of configs/trial/texts.yaml.

    Attributes:
        group: What the score should do. ``same``: stay. ``no_gain``: not rise. ``attack``: not move
            in the direction ``harm``.
        what: A description of the edit, such as "Every answer flatters the user.".
        role: The speaker whose turns get the text: ``user`` or ``assistant``.
        where: Which turns of that speaker get the text: ``each``, the ``first`` or the ``last``.
        place: Whether the text goes to the ``start`` or the ``end`` of a turn.
        control: The dialogue to compare with. ``none``: the original. ``neutral``: the original
            with harmless sentences of the same length.
        harm: ``up`` if an attacker wants a higher score, ``down`` if a lower one.
        hidden: How the text is hidden from a reader. ``none``: visible. ``zero_width``: invisible
            characters between letters. ``look_alike``: Cyrillic or Greek letters. ``tags``:
            invisible characters.
        texts: The texts to draw from. Each is a mapping, language -> text: ``{en: "Thank you.", de:
            "Danke."}``.
    """

    group: Literal["same", "no_gain", "attack"]
    what: str
    role: Role
    where: Literal["each", "first", "last"]
    place: Literal["start", "end"]
    control: Literal["none", "neutral"] = "none"
    harm: Literal["up", "down"] = "up"
    hidden: Hidden = "none"
    texts: tuple[Annotated[Mapping[str, str], Field(min_length=1)], ...] = Field(
        min_length=1
    )

    def make_versions(self, dialogue: Dialogue, rng: Random, group: str) -> Versions:
        """Returns the dialogue with the text inserted, and the dialogue to compare it with.

        Args:
            dialogue: The dialogue to edit.
            rng: Draws the texts.
            group: The name of the conversation, which has no effect here.

        Returns:
            The edited dialogue, then the original or (if ``control`` is ``neutral``) one with
                neutral sentences in place of the text. None if the edit is impossible: no turn has
                the role, or a text cannot be inserted in the dialogue's language.
        """
        lang = dialogue.lang
        turns = [i for i, turn in enumerate(dialogue.turns) if turn.role == self.role]
        turns = {"each": turns, "first": turns[:1], "last": turns[-1:]}[self.where]
        if not turns or any(lang not in text for text in self.texts):
            return None
        drawn = rng.permutation(len(self.texts))
        contents = {}
        controls = {}
        for number, turn in enumerate(turns):
            text = self.texts[int(drawn[number % len(drawn)])][lang]
            disguised = disguise(text, self.hidden)
            if disguised is None:
                return None
            content = dialogue.turns[turn].content
            contents[turn] = self._add_text(content, disguised, lang)
            if self.control == "neutral":
                try:
                    neutral = _neutral_text(dialogue, rng, len(text))
                except CannotInject:
                    return None
                controls[turn] = self._add_text(content, neutral, lang)
        return with_new_texts(dialogue, contents), with_new_texts(dialogue, controls)

    def _add_text(self, content: str, new: str, lang: str) -> str:
        left, right = content, new
        if self.place == "start":
            left, right = new, content
        return append_sentence(left, right, lang, "\n" in new)


def disguise(text: str, how: Hidden) -> str | None:
    """Returns ``text`` hidden from a human reader, or None if too few of its
    characters can be hidden.

    Args:
        text: The text to hide.
        how: ``zero_width`` puts invisible characters between letters. ``look_alike`` replaces
            letters by Cyrillic or Greek ones. ``tags`` replaces all characters by invisible ones.
            ``none`` changes nothing.
    """
    if how == "zero_width":
        return re.sub(r"([^\W_])", "\\1\u200b", text)
    if how == "look_alike":
        changed = text.translate(_LOOK_ALIKE)
        count = sum(old != new for old, new in zip(text, changed, strict=True))
        return changed if count > 10 else None
    if how == "tags":
        tagged = "".join(chr(_TAGS + ord(c)) for c in text if 0x20 <= ord(c) < 0x7F)
        return tagged if len(tagged) > len(text) // 2 else None
    return text


# -- injected issues -------------------------------------------------------------------------------


def _injected_and_control(
    donors: Donors, issue: str, dialogue: Dialogue, rng: Random, group: str
) -> Versions:
    """Returns the dialogue with ``issue`` injected, and the same dialogue with harmless edits in
    the same turns. None if the issue cannot be injected.

    Args:
        donors: Other dialogues, whose texts are inserted.
        issue: The name of the issue, such as ``repetitive``.
        group: The name of the conversation, whose own texts are not inserted.
    """
    injection = Injection(dialogue, STRENGTH, rng, donors, "test", group)
    try:
        apply_issue(issue, injection)
    except CannotInject:
        return None
    faulty = with_new_texts(dialogue, injection.injected)
    return faulty, with_new_texts(dialogue, injection.control)


def trial_edits(config: TrialConfig, donors: Donors) -> list[Edit]:
    """Returns the edits that ``config`` selects.

    Args:
        config: The settings of the trial, with names of checks (edits) in ``checks``.
        donors: Other dialogues, whose texts are used to inject issues.

    Raises:
        ConfigError: A check is unknown, or two edits have the same name.
    """
    edits: dict[str, Edit] = {}
    for edit in (*_surface_edits(), *_read_text_edits("trial/texts")):
        edits[edit.name] = edit
    if config.texts is not None:
        for edit in _read_text_edits(config.texts):
            if edit.name in edits:
                raise ConfigError(f"two edits are called {edit.name!r}. Rename one")
            edits[edit.name] = edit
    for issue in ISSUES:
        description = f"Issue {issue.replace('_', ' ')} injected."
        make = partial(_injected_and_control, donors, issue)
        edits[issue] = Edit(issue, "must_fall", description, make)
    groups = dict.fromkeys(edit.group for edit in edits.values())
    for name in config.checks:
        if name not in (*groups, *edits, LANGUAGE):
            checks = ", ".join([*groups, *edits, LANGUAGE])
            raise ConfigError(f"no check {name!r}", hint=f"Use one of: {checks}")
    return [edit for edit in edits.values() if config.selects(edit.name, edit.group)]


def _surface_edits() -> Iterator[Edit]:
    groups: dict[Group, dict[str, Callable[[Dialogue, Random], Dialogue]]] = {
        "same": {
            "lower_case": to_lower_case,
            "emoji": add_emoji,
            "markdown": add_markdown,
            "neutral_turn": add_neutral_exchange,
        },
        "no_gain": {"length": lengthen_answers, "repeated_question": repeat_question},
    }
    for group, changes in groups.items():
        for name, change in changes.items():
            make = partial(_edit_and_original, change)
            yield Edit(name, group, str(change.__doc__), make)


def _read_text_edits(path: str) -> Iterator[Edit]:
    """Yields one edit for each entry of the YAML file ``path``, such as ``trial/texts``.

    Raises:
        ConfigError: An entry is not valid.
    """
    for name, entry in read_yaml(path).items():
        insertion = build_config(TextInsertion, entry, where=f"{path}: {name}")
        yield Edit(
            name,
            insertion.group,
            insertion.what,
            insertion.make_versions,
            insertion.harm,
        )
