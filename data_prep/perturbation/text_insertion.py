"""Sentences of a YAML file put into the turns of one role, in the dialogue's language: politeness
that buys nothing, instructions to a judge, labels that nobody gave.

An entry of the file is an edit (see configs/trial/texts.yaml, whose head says what its keys mean).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import field_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.data_prep.perturbation.edit import CannotInject
from medal_judges.data_prep.perturbation.surface import Versions, neutral_text, with_contents
from medal_judges.data_prep.perturbation.text import attach
from medal_judges.records.dialogue import Dialogue, Role

Hidden = Literal["none", "zero_width", "look_alike", "tags"]

_ZERO_WIDTH = "\u200b"
# Cyrillic and Greek letters that look like Latin ones.
_LOOK_ALIKE = str.maketrans("aceopxyiABEHKMOPTXS", "асеорхуіАВЕНКМОРТХЅ")
_TAGS = 0xE0000  # tag characters: ASCII, shifted here, is invisible


class TextInsertion(Config):
    """One entry of the file: ``texts`` by language, into turns of ``role``; see configs/trial."""

    group: Literal["same", "no_gain", "attack"]
    what: str
    role: Role
    where: Literal["each", "first", "last"]
    place: Literal["start", "end"]
    control: Literal["none", "neutral"] = "none"
    harm: Literal["up", "down"] = "up"
    hidden: Hidden = "none"
    texts: tuple[Mapping[str, str], ...]

    @field_validator("texts")
    @classmethod
    def _some(cls, value: tuple[Mapping[str, str], ...]) -> tuple[Mapping[str, str], ...]:
        if not value or not all(value):
            raise ValueError("give at least one text")
        return value

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that every text has."""
        return tuple(lang for lang in self.texts[0] if all(lang in text for text in self.texts))

    def versions(self, dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
        """The dialogue with the text in it, and the control with neutral sentences where the entry
        asks for one. None where the dialogue has no such turn, or is in another language."""
        turns = self._turns(dialogue)
        if not turns or dialogue.lang not in self.languages:
            return None
        drawn = rng.permutation(len(self.texts))
        contents: dict[int, str] = {}
        controls: dict[int, str] = {}
        for number, turn in enumerate(turns):
            text = self.texts[int(drawn[number % len(drawn)])][dialogue.lang]
            shown = hidden(text, self.hidden)
            if shown is None:
                return None
            contents[turn] = self._with(dialogue, turn, shown)
            if self.control == "neutral":
                try:
                    neutral = neutral_text(dialogue, rng, len(text))
                except CannotInject:
                    return None
                controls[turn] = self._with(dialogue, turn, neutral)
        control = with_contents(dialogue, controls) if controls else None
        touched = tuple(turns) if self.role == "assistant" else ()
        return Versions(with_contents(dialogue, contents), control, touched)

    def _turns(self, dialogue: Dialogue) -> Sequence[int]:
        turns = [i for i, turn in enumerate(dialogue.turns) if turn.role == self.role]
        return {"each": turns, "first": turns[:1], "last": turns[-1:]}[self.where]

    def _with(self, dialogue: Dialogue, turn: int, text: str) -> str:
        before = dialogue.turns[turn].content
        parts = (text, before) if self.place == "start" else (before, text)
        return attach(*parts, dialogue.lang, line_end="\n" in text)


def hidden(text: str, how: Hidden) -> str | None:
    """``text`` kept from a reader's eye; None where that changes nothing (no Latin letters)."""
    if how == "zero_width":
        return "".join(c + _ZERO_WIDTH if c.isalnum() else c for c in text)
    if how == "look_alike":
        changed = text.translate(_LOOK_ALIKE)
        return changed if sum(a != b for a, b in zip(text, changed, strict=True)) > 10 else None
    if how == "tags":
        tagged = "".join(chr(_TAGS + ord(c)) for c in text if 0x20 <= ord(c) < 0x7F)
        return tagged if len(tagged) > len(text) // 2 else None
    return text


@lru_cache(maxsize=8)
def text_insertions(path: str) -> Mapping[str, TextInsertion]:
    """The entries of a file, or of a shipped one by its name (``trial/texts``), by name.

    Raises ConfigError that names the entry and the key.
    """
    return {
        name: build_config(TextInsertion, entry, where=f"{path}: {name}")
        for name, entry in read_yaml(path).items()
    }
