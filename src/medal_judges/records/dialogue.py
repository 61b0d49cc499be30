"""Turn and Dialogue: a conversation whose assistant is judged."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from medal_judges.errors import RecordError
from medal_judges.records.languages import UNKNOWN_LANGUAGE, language_code
from medal_judges.records.validation import parse, text

Role = Literal["user", "assistant"]
ROLES: tuple[Role, ...] = ("user", "assistant")
SYSTEM_PROMPT = "system_prompt"  # key of Dialogue.context


def parse_id(value: object) -> str:
    """Returns the id as text; whole numbers become text. Raises RecordError if it is absent or
    empty."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise RecordError("id", "a non-empty text", value)
    return text("id", value)


def _language(value: object) -> str:
    return sys.intern(language_code(value))


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. ``content`` may be empty: some chatbots answer with nothing.

    >>> Turn("user", "Hi!")
    Turn(role='user', content='Hi!')
    """

    __pydantic_config__ = ConfigDict(extra="ignore", str_max_length=1 << 40)
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation between a user and an assistant, immutable.

    ``lang`` is ISO 639-1 if known. ``models`` names who spoke as ``user`` and ``assistant``.
    ``context`` holds scene, persona, gender and affect (MEDAL, section 3). Real logs have two turns
    of one role in a row, empty turns and a last turn by the user; all are allowed.

    >>> dialogue = Dialogue("d1", (Turn("user", "Hi!"), Turn("assistant", "Hello!")), lang="en")
    >>> dialogue.assistant_turns
    (1,)
    """

    id: Annotated[str, BeforeValidator(parse_id)]
    turns: Annotated[tuple[Turn, ...], Field(validation_alias="dialogue")]
    lang: Annotated[str, BeforeValidator(_language)] = UNKNOWN_LANGUAGE
    source: str | None = None
    models: Mapping[str, str | None] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def assistant_turns(self) -> tuple[int, ...]:
        """Indices (from 0) of the assistant's turns, which are judged."""
        return tuple(i for i, turn in enumerate(self.turns) if turn.role == "assistant")

    @property
    def chatbot(self) -> str | None:
        """Name of the judged system; intervals resample whole systems."""
        return self.models.get("assistant")

    def upto(self, turn: int) -> Dialogue:
        """Returns the dialogue up to and including turn index ``turn``, with the same id."""
        return replace(self, turns=self.turns[: turn + 1])

    def to_record(self) -> dict[str, Any]:
        """Returns the dialogue's part of a line, without the fields that are unknown."""
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
    """Returns the dialogue of a JSON object in the line format; ``turns`` may stand for
    ``dialogue``.

    Raises RecordError that names the field: a missing id, no turns, an unknown role, content that
    is no text. Chats in other forms: ``medal_judges.reading``.
    """
    if not isinstance(record, dict):
        raise RecordError("(line)", "a JSON object", record)
    turns = record.get("dialogue", record.get("turns"))
    if not isinstance(turns, list) or not turns:
        raise RecordError("dialogue", "a non-empty list of {role, content}", turns)
    names = ("id", "lang", "source", "models", "context", "meta")
    return parse(Dialogue, {name: record.get(name) for name in names} | {"dialogue": turns})
