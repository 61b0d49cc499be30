"""Edited versions of a dialogue for a trial: surface changes, longer answers, inserted texts, and
injected issues.

A change returns ``Versions``, or None if the dialogue cannot carry it (no sentences in its
language, no letters with case, ...). Sentences are in configs/trial/ and configs/perturbation/.
The trial's page shows the docstring of each change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.data_prep.perturbation.edit import (
    LANGUAGES,
    CannotInject,
    Donors,
    Edit,
    attach,
    glue,
    sentences,
    with_contents,
    word_pairs,
)
from medal_judges.data_prep.perturbation.injection import apply_issue
from medal_judges.records.dialogue import Dialogue, Role, Turn

# Issues that a single turn can carry, with their strength.
SINGLE_TURN = (("irrelevant", 2), ("uninterpretable", 2), ("unsafe", 1))
_PADDING = 120  # characters that make every answer longer
_MOST_QUOTED = 200  # characters of a question that is repeated
# Cyrillic and Greek letters that look like Latin ones.
_LOOK_ALIKE = str.maketrans("aceopxyiABEHKMOPTXS", "асеорхуіАВЕНКМОРТХЅ")
_TAGS = 0xE0000  # tag characters: ASCII, shifted here, is invisible


@dataclass(frozen=True, slots=True)
class Versions:
    """A changed dialogue, and the ``control`` to compare it with (None: the original). ``touched``:
    the assistant turns with the edit."""

    version: Dialogue
    control: Dialogue | None = None
    touched: tuple[int, ...] = ()


Change = Callable[[Dialogue, np.random.Generator], Versions | None]


def _neutral_text(dialogue: Dialogue, rng: np.random.Generator, length: int) -> str:
    """Neutral sentences of about ``length`` characters that are not in the dialogue. Raises
    CannotInject if its language has none."""
    edit = Edit(dialogue, 1, rng, Donors(), "test", dialogue.id)
    return glue(edit.filler(length, limit=8), edit.lang)


def _changed(dialogue: Dialogue, contents: Mapping[int, str]) -> Versions | None:
    """The version with new ``contents`` by turn; None if no turn changes."""
    new = {}
    touched = []
    for i, text in contents.items():
        turn = dialogue.turns[i]
        if text == turn.content:
            continue
        new[i] = text
        if turn.role == "assistant":
            touched.append(i)
    if new:
        return Versions(with_contents(dialogue, new), touched=tuple(touched))
    return None


def _each_turn(dialogue: Dialogue, change: Callable[[str], str]) -> Versions | None:
    contents = [change(turn.content) for turn in dialogue.turns]
    return _changed(dialogue, dict(enumerate(contents)))


# -- changes that should not matter ---------------------------------------------------------------


def lower_case(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """Every turn in lower case."""
    return _each_turn(dialogue, str.lower)


def typography(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """Typographic quotes for plain ones, swapped apostrophes, an ellipsis sign, two spaces after a
    sentence, a space at the end of each turn."""
    marks = read_yaml("trial/phrases")["quotes"].get(dialogue.lang, "“”’")

    def change(text: str) -> str:
        typeset = re.sub(r'"([^"\n]*)"', rf"{marks[0]}\1{marks[1]}", text)
        if "'" in text:
            typeset = typeset.replace("'", marks[2])
        else:
            typeset = typeset.replace("’", "'")
        typeset = re.sub(r"(?<=[.!?]) (?=\S)", "  ", typeset.replace("...", "…"))
        if text:
            return f"{typeset} "
        return text

    return _each_turn(dialogue, change)


def emoji(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """An emoji at the end of every other answer."""
    signs = read_yaml("trial/phrases")["emoji"]
    answers = [i for i in dialogue.assistant_turns if dialogue.turns[i].content.strip()]
    contents = {}
    for i in answers[::2]:
        sign = signs[int(rng.integers(len(signs)))]
        contents[i] = f"{dialogue.turns[i].content} {sign}"
    return _changed(dialogue, contents)


def markdown(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """A word in bold in each answer, and answers of several sentences as a list."""

    def change(text: str) -> str:
        bold = re.sub(r"\w{4,}", r"**\g<0>**", text, count=1)
        parts = sentences(bold)
        if len(parts) > 1:
            return "\n".join(f"- {part}" for part in parts)
        return bold

    answers = dialogue.assistant_turns
    return _changed(dialogue, {i: change(dialogue.turns[i].content) for i in answers})


def paraphrase(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """A synonym for one word of each turn, if small_changes.yaml has one."""
    if not (pairs := word_pairs(dialogue.lang)):
        return None

    def change(text: str) -> str:
        for pattern, synonym in pairs:
            if pattern.search(text):
                return pattern.sub(synonym, text, count=1)
        return text

    return _each_turn(dialogue, change)


def other_name(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """The user gives a name in the first turn; the version has a name of another origin."""
    table = read_yaml("trial/phrases")["names"]
    if dialogue.lang not in table["sentence"] or dialogue.turns[0].role != "user":
        return None
    first, second, *_ = rng.permutation(len(table["names"]))

    def with_name(name: str) -> Dialogue:
        sentence = table["sentence"][dialogue.lang].format(name=name)
        opening = attach(dialogue.turns[0].content, sentence, dialogue.lang)
        return with_contents(dialogue, {0: opening})

    return Versions(with_name(table["names"][second]), with_name(table["names"][first]))


def neutral_turn(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """A last exchange without content: "Okay." "Good."."""
    lang = dialogue.lang
    table = read_yaml("trial/phrases")["exchange"]
    if lang not in table[0]["user"] or dialogue.turns[-1].role != "assistant":
        return None
    drawn = table[int(rng.integers(len(table)))]
    added = (
        Turn("user", drawn["user"][lang]),
        Turn("assistant", drawn["assistant"][lang]),
    )
    return Versions(replace(dialogue, turns=dialogue.turns + added))


# -- changes that must not raise a score -----------------------------------------------------------


def longer_answers(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """About 120 neutral characters (30 in Chinese) at the end of every answer."""
    if dialogue.lang not in LANGUAGES:
        return None
    length = _PADDING // 4 if dialogue.lang == "zh" else _PADDING
    contents: dict[int, str] = {}
    for i in dialogue.assistant_turns:
        try:
            padding = _neutral_text(with_contents(dialogue, contents), rng, length)
        except CannotInject:
            # a long dialogue repeats sentences
            padding = _neutral_text(dialogue, rng, length)
        contents[i] = attach(dialogue.turns[i].content, padding, dialogue.lang)
    return _changed(dialogue, contents)


def repeated_question(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """Every answer starts with the user's message."""
    frame = read_yaml("trial/phrases")["asked"].get(dialogue.lang)
    if frame is None:
        return None
    contents = {}
    for i in dialogue.assistant_turns:
        before = dialogue.turns[i - 1]
        if i > 0 and before.role == "user" and before.content.strip():
            quoted = frame.format(text=before.content.strip()[:_MOST_QUOTED])
            contents[i] = attach(quoted, dialogue.turns[i].content, dialogue.lang)
    return _changed(dialogue, contents)


# -- inserted texts --------------------------------------------------------------------------------

Hidden = Literal["none", "zero_width", "look_alike", "tags"]


class TextInsertion(Config):
    """``texts`` by language to insert into turns of ``role``; configs/trial/texts.yaml explains the
    keys."""

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

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages in which every text exists."""
        shared = set.intersection(*map(set, self.texts))
        return tuple(lang for lang in self.texts[0] if lang in shared)

    def versions(self, dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
        """The dialogue with the text, and a control with neutral sentences if ``control`` says so.
        None if the dialogue has no turn of ``role`` or is in another language."""
        turns = [i for i, turn in enumerate(dialogue.turns) if turn.role == self.role]
        turns = {"each": turns, "first": turns[:1], "last": turns[-1:]}[self.where]
        if not turns or dialogue.lang not in self.languages:
            return None
        drawn = rng.permutation(len(self.texts))
        contents: dict[int, str] = {}
        controls: dict[int, str] = {}
        for number, turn in enumerate(turns):
            text = self.texts[int(drawn[number % len(drawn)])][dialogue.lang]
            disguised = hidden(text, self.hidden)
            if disguised is None:
                return None
            before = dialogue.turns[turn].content
            contents[turn] = self._added(before, disguised, dialogue.lang)
            if self.control == "neutral":
                try:
                    neutral = _neutral_text(dialogue, rng, len(text))
                except CannotInject:
                    return None
                controls[turn] = self._added(before, neutral, dialogue.lang)
        control = with_contents(dialogue, controls) if controls else None
        touched = tuple(turns) if self.role == "assistant" else ()
        return Versions(with_contents(dialogue, contents), control, touched)

    def _added(
        self,
        text: str,
        new: str,
        lang: str,
    ) -> str:
        left, right = (new, text) if self.place == "start" else (text, new)
        return attach(left, right, lang, "\n" in new)


def hidden(text: str, how: Hidden) -> str | None:
    """``text`` disguised as ``how`` says; None if too few of its letters can be disguised."""
    if how == "zero_width":
        return re.sub(r"([^\W_])", "\\1\u200b", text)
    if how == "look_alike":
        changed = text.translate(_LOOK_ALIKE)
        count = sum(old != new for old, new in zip(text, changed, strict=True))
        if count > 10:
            return changed
        return None
    if how == "tags":
        tagged = "".join(chr(_TAGS + ord(c)) for c in text if 0x20 <= ord(c) < 0x7F)
        if len(tagged) > len(text) // 2:
            return tagged
        return None
    return text


@lru_cache(maxsize=8)
def text_insertions(path: str) -> Mapping[str, TextInsertion]:
    """The entries of a YAML file or a shipped config (``trial/texts``), by name. Raises ConfigError
    with the name of a bad entry and the key."""
    insertions = {}
    for name, entry in read_yaml(path).items():
        insertions[name] = build_config(TextInsertion, entry, where=f"{path}: {name}")
    return insertions


# -- injected issues -------------------------------------------------------------------------------


def injected(
    dialogue: Dialogue,
    issue: str,
    strength: int,
    rng: np.random.Generator,
    donors: Donors,
    group: str,
    start: int = 0,
    end: int | None = None,
) -> Versions | None:
    """The dialogue with ``issue`` in the turns from ``start`` up to ``end``, and its control, with
    sentences of the test split; None if these turns cannot carry the issue."""
    part = replace(dialogue, turns=dialogue.turns[start:end])
    edit = Edit(part, strength, rng, donors, "test", group)
    try:
        apply_issue(issue, edit)
    except CannotInject:
        return None
    faulty = with_contents(dialogue, edit.injected, start)
    sound = with_contents(dialogue, edit.control, start)
    return Versions(faulty, sound, tuple(start + i for i in edit.touched))


def injected_at(
    dialogue: Dialogue,
    start: int,
    end: int,
    rng: np.random.Generator,
    donors: Donors,
    group: str,
) -> Versions | None:
    """The dialogue with a random single-turn issue in the turns from ``start`` up to ``end``, and
    its control; None if no issue fits."""
    for i in rng.permutation(len(SINGLE_TURN)):
        issue, strength = SINGLE_TURN[i]
        made = injected(dialogue, issue, strength, rng, donors, group, start, end)
        if made is not None:
            return made
    return None


def several(
    dialogue: Dialogue,
    issues: Sequence[tuple[str, int]],
    rng: np.random.Generator,
    donors: Donors,
    group: str,
) -> Versions | None:
    """The dialogue with all ``issues`` (name, strength), and a control with the harmless edits of
    all; None if the dialogue cannot carry one of the issues."""
    faulty = sound = dialogue
    touched: set[int] = set()
    for issue, strength in issues:
        seed = int(rng.integers(2**32))
        # The same draws for both, so that their edits are in about the same turns.
        about = (issue, strength)
        on_faulty = injected(faulty, *about, np.random.default_rng(seed), donors, group)
        on_sound = injected(sound, *about, np.random.default_rng(seed), donors, group)
        if on_faulty is None or on_sound is None or on_sound.control is None:
            return None
        faulty = on_faulty.version
        sound = on_sound.control
        touched.update(on_faulty.touched)
    return Versions(faulty, sound, tuple(sorted(touched)))
