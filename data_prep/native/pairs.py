"""Pairs of a native and a translated dialogue, and what a judge says of them, in both orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from medal_judges.errors import MedalError, RecordError
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.validation import optional_text, text

Choice = Literal["native", "translated", "neither"]
Result = Literal["win", "tie", "loss"]
_CHOICES: tuple[Choice, ...] = ("native", "translated", "neither")


@dataclass(frozen=True, slots=True)
class NativePair:
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

    pairs: tuple[NativePair, ...]
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
        NativePair(*key, native=ours[key], translated=row)
        for key, row in theirs.items()
        if key in ours
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


def _by_key(
    rows: Iterable[LabelledDialogue], side: str
) -> dict[tuple[str, str, str, str], LabelledDialogue]:
    by_key: dict[tuple[str, str, str, str], LabelledDialogue] = {}
    for row in rows:
        models = row.dialogue.models
        speakers = models.get("user") or "", models.get("assistant") or ""
        same = by_key.setdefault((row.group, row.dialogue.lang, *speakers), row)
        if same is not row:
            raise MedalError(
                f"{side} rows {same.id!r} and {row.id!r} have the same context, language, user and "
                "chatbot: it is not clear which one to compare",
                hint="leave one of them out",
            )
    return by_key


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """One answer: ``choice``, or None and the ``failure``; ``reason`` in the judge's words."""

    choice: Choice | None
    reason: str = ""
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """The answers on one pair and criterion: ``native_first`` and ``translated_first`` by which
    dialogue was shown first. ``native`` and ``translated`` are the ids of the two."""

    id: str
    criterion: str
    group: str
    lang: str
    native: str
    translated: str
    native_first: PairAnswer
    translated_first: PairAnswer
    judge: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What was asked."""
        return self.id, self.criterion, self.native, self.translated

    @property
    def result(self) -> Result | None:
        """Of the native dialogue: win or loss where both answers agree, else tie; None where an
        answer is missing (MEDAL, appendix C.5)."""
        if self.failure is not None:
            return None
        if self.inconsistent or self.native_first.choice == "neither":
            return "tie"
        return "win" if self.native_first.choice == "native" else "loss"

    @property
    def inconsistent(self) -> bool:
        """Whether the two answers differ: then the order decided."""
        return self.native_first.choice != self.translated_first.choice

    @property
    def first_shown(self) -> float:
        """Share of the two answers that chose what was shown first; neither counts as a half."""
        choices = (self.native_first.choice, "native"), (self.translated_first.choice, "translated")
        return sum(0.5 if c == "neither" else float(c == first) for c, first in choices) / 2

    @property
    def failure(self) -> str | None:
        """Why there is no result; None where there is one."""
        return self.native_first.failure or self.translated_first.failure

    def to_record(self) -> dict[str, Any]:
        """The line; ``result`` stands there for readers and is computed again when read."""
        return asdict(self) | {"result": self.result}


def parse_verdict(record: object) -> PairVerdict:
    """Inverse of ``to_record``. Raises RecordError that names the field."""
    if not isinstance(record, Mapping):
        raise RecordError("(line)", "a JSON object", record)
    names = ("id", "criterion", "group", "lang", "native", "translated", "judge")
    return PairVerdict(
        **{name: text(name, record.get(name)) for name in names},
        native_first=_answer(record, "native_first"),
        translated_first=_answer(record, "translated_first"),
    )


def _answer(record: Mapping[str, object], field: str) -> PairAnswer:
    value = record.get(field)
    if not isinstance(value, Mapping):
        raise RecordError(field, "an answer: an object with choice, reason and failure", value)
    choice, failure = value.get("choice"), optional_text(value, "failure")
    if choice not in (*_CHOICES, None) or (choice is None) == (failure is None):
        raise RecordError(f"{field}.choice", "native, translated or neither, or a failure", choice)
    return PairAnswer(choice, optional_text(value, "reason") or "", failure)
