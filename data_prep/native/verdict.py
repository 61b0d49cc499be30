"""Verdict: what a judge said of one pair and criterion, asked in both orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from medal_judges.errors import RecordError
from medal_judges.fields import optional_text, text

Choice = Literal["native", "translated", "neither"]
Result = Literal["win", "tie", "loss"]
_CHOICES: tuple[Choice, ...] = ("native", "translated", "neither")


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: ``choice``, or None and the ``failure``; ``reason`` in the judge's words."""

    choice: Choice | None
    reason: str = ""
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """``native_first`` and ``translated_first`` are the answers by which dialogue was shown first.

    ``native`` and ``translated`` are the ids of the two.
    """

    id: str
    criterion: str
    group: str
    lang: str
    native: str
    translated: str
    native_first: Said
    translated_first: Said
    judge: str

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
        return (
            _share(self.native_first.choice, "native")
            + _share(self.translated_first.choice, "translated")
        ) / 2

    @property
    def failure(self) -> str | None:
        """Why there is no result; None where there is one."""
        return self.native_first.failure or self.translated_first.failure

    def to_record(self) -> dict[str, Any]:
        """The line; ``result`` stands there for readers and is worked out anew when read."""
        return asdict(self) | {"result": self.result}


def _share(choice: Choice | None, first: Choice) -> float:
    return 0.5 if choice == "neither" else float(choice == first)


def parse_verdict(record: object) -> Verdict:
    """Inverse of ``to_record``. Raises RecordError that names the field."""
    if not isinstance(record, Mapping):
        raise RecordError("(line)", "a JSON object", record)
    said = {
        name: text(name, record.get(name))
        for name in ("id", "criterion", "group", "lang", "native", "translated", "judge")
    }
    return Verdict(
        **said,
        native_first=_said(record, "native_first"),
        translated_first=_said(record, "translated_first"),
    )


def _said(record: Mapping[str, Any], field: str) -> Said:
    value = record.get(field)
    if not isinstance(value, Mapping):
        raise RecordError(field, "an answer: an object with choice, reason and failure", value)
    choice, failure = value.get("choice"), optional_text(value, "failure")
    if choice not in (*_CHOICES, None) or (choice is None) == (failure is None):
        raise RecordError(f"{field}.choice", "native, translated or neither, or a failure", choice)
    return Said(choice, optional_text(value, "reason") or "", failure)
