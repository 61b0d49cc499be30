"""Pairs: a native and a translated dialogue of one context, language, user and chatbot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from medal_judges.errors import MedalError
from medal_judges.labelled import LabelledDialogue

Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two dialogues that differ in how they came to be. ``group`` is their seed context's."""

    group: str
    lang: str
    user: str
    chatbot: str
    native: LabelledDialogue
    translated: LabelledDialogue

    @property
    def id(self) -> str:
        """Context, language, user and chatbot, which no other pair has together."""
        return f"{self.group}--{self.lang}--{self.user}--{self.chatbot}"


@dataclass(frozen=True, slots=True)
class Paired:
    """``pairs`` in the order of the translated rows, and what has no partner."""

    pairs: tuple[Pair, ...]
    native_only: int
    translated_only: int


def paired(native: Iterable[LabelledDialogue], translated: Iterable[LabelledDialogue]) -> Paired:
    """Pairs of rows that agree in group, language, user and chatbot. Native rows in languages
    without any translation (the English ones) are not counted as lacking a partner.

    Raises MedalError for two rows of one side with the same four, for a dialogue that stands on
    both sides, and where nothing fits.
    """
    theirs = _by_key(translated, "translated")
    langs = {key[1] for key in theirs}
    ours = _by_key((row for row in native if row.dialogue.lang in langs), "native")
    pairs = tuple(
        Pair(*key, native=ours[key], translated=row) for key, row in theirs.items() if key in ours
    )
    if not pairs:
        raise MedalError(
            "no native dialogue has the context, language, user and chatbot of a translated one",
            hint="give the file of `medal generate` and its translation by `medal data translate`",
        )
    if same := [pair.native.id for pair in pairs if pair.native.id == pair.translated.id]:
        raise MedalError(
            f"{len(same)} dialogues, such as {same[0]!r}, are both native and translated",
            hint="give two files: native ones first, then those of `medal data translate`",
        )
    return Paired(pairs, len(ours) - len(pairs), len(theirs) - len(pairs))


def _by_key(rows: Iterable[LabelledDialogue], side: str) -> dict[Key, LabelledDialogue]:
    found: dict[Key, LabelledDialogue] = {}
    for row in rows:
        models = row.dialogue.models
        key = (
            row.group,
            row.dialogue.lang,
            models.get("user") or "",
            models.get("assistant") or "",
        )
        if key in found:
            raise MedalError(
                f"{side} rows {found[key].id!r} and {row.id!r} have the same context, language, "
                "user and chatbot: which one to compare is not said",
                hint="leave one of them out",
            )
        found[key] = row
    return found
