"""Changes of a dialogue's surface: what no reader would judge it by, and what only makes it longer.

Each takes a dialogue and a generator and gives ``Versions``, or None where the dialogue cannot
carry the change (no letters with a case, no language that the sentences are in, ...). Sentences are
in configs/trial/phrases.yaml and in the tables of configs/perturbation/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from medal_judges.config import read_yaml
from medal_judges.data_prep.perturbation.edit import (
    CannotInject,
    EditContext,
    filler,
    word_pairs,
)
from medal_judges.data_prep.perturbation.material import LANGUAGES, Donors
from medal_judges.data_prep.perturbation.text import attach, glue, sentences
from medal_judges.records.dialogue import Dialogue, Turn

_STRAIGHT = re.compile(r'"([^"\n]*)"')
_WORD = re.compile(r"\w{4,}", re.UNICODE)
_SPACES = re.compile(r"(?<=[.!?]) (?=\S)")
_PADDING = 120  # characters that make every answer longer
_MOST_ASKED = 200  # characters of a question that is said again


@dataclass(frozen=True, slots=True)
class Versions:
    """A dialogue's version, and what it is held against: ``control``, or the dialogue itself where
    that is None. ``touched``: assistant turns that carry the edit, where that matters."""

    version: Dialogue
    control: Dialogue | None = None
    touched: tuple[int, ...] = ()


Change = Callable[[Dialogue, np.random.Generator], Versions | None]


def with_contents(dialogue: Dialogue, contents: Mapping[int, str]) -> Dialogue:
    """``dialogue`` with new contents by turn."""
    turns = enumerate(dialogue.turns)
    return replace(
        dialogue,
        turns=tuple(Turn(t.role, contents[i]) if i in contents else t for i, t in turns),
    )


def context_of(dialogue: Dialogue, rng: np.random.Generator) -> EditContext:
    """What the edits of sentences work with; the sentences are those of the test split."""
    return EditContext(dialogue, 1, rng, Donors(), "test", dialogue.id)


def neutral_text(dialogue: Dialogue, rng: np.random.Generator, length: int) -> str:
    """Neutral sentences of about ``length`` characters that do not stand in the dialogue. Raises
    CannotInject where there are none in its language."""
    edit = context_of(dialogue, rng)
    return glue(filler(edit, length, most=8), edit.lang)


def _changed(dialogue: Dialogue, contents: Mapping[int, str]) -> Versions | None:
    """The version, None where no turn is another."""
    new = {i: text for i, text in contents.items() if text != dialogue.turns[i].content}
    touched = tuple(i for i in new if dialogue.turns[i].role == "assistant")
    return Versions(with_contents(dialogue, new), touched=touched) if new else None


def _each_turn(dialogue: Dialogue, change: Callable[[str], str]) -> Versions | None:
    return _changed(dialogue, {i: change(turn.content) for i, turn in enumerate(dialogue.turns)})


# -- what should not matter ----------------------------------------------------------------------


def lower_case(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """Every turn in lower case."""
    return _each_turn(dialogue, str.lower)


def typography(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """Printers' quotes and apostrophes for plain ones (or plain ones for those), an ellipsis sign,
    two spaces after a sentence, a space at the end of each turn."""
    marks = _phrases()["quotes"].get(dialogue.lang, "“”’")

    def change(text: str) -> str:
        typeset = _STRAIGHT.sub(rf"{marks[0]}\1{marks[1]}", text)
        typeset = typeset.replace("'", marks[2]) if "'" in text else typeset.replace("’", "'")
        return _SPACES.sub("  ", typeset.replace("...", "…")) + " " if text else text

    return _each_turn(dialogue, change)


def emoji(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """An emoji at the end of every other answer."""
    signs = _phrases()["emoji"]
    answers = [i for i in dialogue.assistant_turns if dialogue.turns[i].content.strip()][::2]
    contents = {
        i: f"{dialogue.turns[i].content} {signs[int(rng.integers(len(signs)))]}" for i in answers
    }
    return _changed(dialogue, contents)


def markdown(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """A word in bold in each answer, and answers of several sentences as a list."""

    def change(text: str) -> str:
        bold = _WORD.sub(r"**\g<0>**", text, count=1)
        parts = sentences(bold)
        return "\n".join(f"- {part}" for part in parts) if len(parts) > 1 else bold

    turns = dialogue.turns
    return _changed(dialogue, {i: change(turns[i].content) for i in dialogue.assistant_turns})


def paraphrase(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """Another word of the same meaning wherever the table has one (small_changes.yaml)."""
    if not (pairs := word_pairs(dialogue.lang)):
        return None

    def change(text: str) -> str:
        for pattern, other in pairs:
            if pattern.search(text):
                return pattern.sub(other, text, count=1)
        return text

    return _each_turn(dialogue, change)


def other_name(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """The user says a name in the first turn; in the version it is a name of another origin."""
    table = _phrases()["names"]
    if dialogue.lang not in table["sentence"] or dialogue.turns[0].role != "user":
        return None
    first, second = (table["names"][i] for i in rng.permutation(len(table["names"]))[:2])
    said = [table["sentence"][dialogue.lang].format(name=name) for name in (first, second)]
    before = dialogue.turns[0].content
    control, version = (
        with_contents(dialogue, {0: attach(before, one, dialogue.lang)}) for one in said
    )
    return Versions(version, control)


def neutral_turn(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """A last exchange that says nothing: "Okay." "Good."."""
    table = _phrases()["exchange"]
    if dialogue.lang not in table[0]["user"] or dialogue.turns[-1].role != "assistant":
        return None
    drawn = table[int(rng.integers(len(table)))]
    added = (
        Turn("user", drawn["user"][dialogue.lang]),
        Turn("assistant", drawn["assistant"][dialogue.lang]),
    )
    return Versions(replace(dialogue, turns=(*dialogue.turns, *added)))


# -- what must not buy a score ---------------------------------------------------------------------


def longer_answers(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """Neutral sentences of some 120 characters (30 in Chinese) at the end of every answer."""
    if dialogue.lang not in LANGUAGES:
        return None
    length = _PADDING // 4 if dialogue.lang == "zh" else _PADDING
    contents: dict[int, str] = {}
    for i in dialogue.assistant_turns:
        try:
            padding = neutral_text(with_contents(dialogue, contents), rng, length)
        except CannotInject:
            padding = neutral_text(dialogue, rng, length)  # a long dialogue uses sentences twice
        contents[i] = attach(dialogue.turns[i].content, padding, dialogue.lang)
    return _changed(dialogue, contents)


def repeated_question(dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
    """Every answer begins with what the user said."""
    frame = _phrases()["asked"].get(dialogue.lang)
    if frame is None:
        return None
    turns = dialogue.turns
    contents = {
        i: attach(
            frame.format(text=turns[i - 1].content.strip()[:_MOST_ASKED]),
            turns[i].content,
            dialogue.lang,
        )
        for i in dialogue.assistant_turns
        if i > 0 and turns[i - 1].role == "user" and turns[i - 1].content.strip()
    }
    return _changed(dialogue, contents)


def _phrases() -> Mapping[str, Any]:
    return read_yaml("trial/phrases")
