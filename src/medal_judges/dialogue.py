"""Turn and Dialogue: what is judged. The assistant is always the one judged."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from medal_judges.errors import RecordError

Role = Literal["user", "assistant"]
ROLES: tuple[Role, ...] = ("user", "assistant")
UNKNOWN_LANGUAGE = "und"  # ISO 639-2 for undetermined; a line without `lang` is not guessed


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. ``content`` may be empty (chatbots do answer with nothing)."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation between a user and an assistant, immutable.

    ``lang`` is ISO 639-1 where known. ``models`` says who spoke as ``user`` and ``assistant``.
    ``context`` holds scene, persona, gender, affect (MEDAL, section 3). Two turns of one role in
    a row, empty turns and a last turn by the user are all allowed: real logs have them.
    """

    id: str
    turns: tuple[Turn, ...]
    lang: str = UNKNOWN_LANGUAGE
    source: str | None = None
    models: Mapping[str, str | None] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def assistant_turns(self) -> tuple[int, ...]:
        """Indices (from 0, into ``turns``) of the turns that are judged."""
        return tuple(i for i, turn in enumerate(self.turns) if turn.role == "assistant")

    @property
    def chatbot(self) -> str | None:
        """Name of the system judged, the cluster of bootstrap intervals."""
        return self.models.get("assistant")

    def upto(self, turn: int) -> Dialogue:
        """The dialogue that ends with turn index ``turn`` (inclusive); same id."""
        return replace(self, turns=self.turns[: turn + 1])

    def to_record(self) -> dict[str, Any]:
        """The dialogue's part of a line; unknown fields are left out, not written as null."""
        record: dict[str, Any] = {
            "id": self.id,
            "lang": self.lang,
            "dialogue": [{"role": t.role, "content": t.content} for t in self.turns],
        }
        optional = {
            "source": self.source,
            "models": dict(self.models),
            "context": dict(self.context),
            "meta": dict(self.meta),
        }
        return record | {key: value for key, value in optional.items() if value}


def parse_dialogue(record: object) -> Dialogue:
    """Dialogue of one JSON object in the line format.

    Raises RecordError that names the field: id missing, no turns, unknown role, non-text content.
    """
    if not isinstance(record, dict):
        raise RecordError("(line)", "a JSON object", record)
    turns = record.get("dialogue", record.get("turns"))
    if not isinstance(turns, list) or not turns:
        raise RecordError("dialogue", "a non-empty list of {role, content}", turns)
    return Dialogue(
        id=parse_id(record.get("id")),
        turns=tuple(_parse_turn(turn, i) for i, turn in enumerate(turns)),
        lang=_parse_lang(record.get("lang")),
        source=_optional_text(record, "source"),
        models=_mapping(record, "models"),
        context=_mapping(record, "context"),
        meta=_mapping(record, "meta"),
    )


def parse_id(value: object) -> str:
    """The id as text; whole numbers are taken as text. Raises RecordError when absent or empty."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise RecordError("id", "a non-empty text", value)
    return value


def _parse_turn(turn: object, index: int) -> Turn:
    if not isinstance(turn, dict):
        raise RecordError(f"dialogue[{index}]", "an object with role and content", turn)
    role, content = turn.get("role"), turn.get("content")
    if role not in ROLES:
        raise RecordError(f"dialogue[{index}].role", "'user' or 'assistant'", role)
    if not isinstance(content, str):
        raise RecordError(f"dialogue[{index}].content", "a text (may be empty)", content)
    return Turn(sys.intern(role), content)  # type: ignore[arg-type]


def _parse_lang(value: object) -> str:
    if value is None or value == "":
        return UNKNOWN_LANGUAGE
    if not isinstance(value, str):
        raise RecordError("lang", "an ISO 639-1 code such as 'en'", value)
    return sys.intern(value.strip().lower())


def _optional_text(record: Mapping[str, Any], key: str) -> str | None:
    value = record.get(key)
    if value is not None and not isinstance(value, str):
        raise RecordError(key, "a text or null", value)
    return value


def _mapping(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RecordError(key, "an object or null", value)
    return value
