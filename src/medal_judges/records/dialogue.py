"""Turn and Dialogue: what is judged. The assistant is always the one judged."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from medal_judges.errors import RecordError
from medal_judges.reading.messages import SYSTEM_PROMPT, fold_messages
from medal_judges.reading.released import is_released, line_of_released
from medal_judges.records.fields import mapping, optional_text, text
from medal_judges.records.languages import UNKNOWN_LANGUAGE, language_code
from medal_judges.records.signature import content_hash

Role = Literal["user", "assistant"]
ROLES: tuple[Role, ...] = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. ``content`` may be empty (chatbots do answer with nothing).

    >>> Turn("user", "Hi!")
    Turn(role='user', content='Hi!')
    """

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation between a user and an assistant, immutable.

    ``lang`` is ISO 639-1 where known. ``models`` says who spoke as ``user`` and ``assistant``.
    ``context`` holds scene, persona, gender, affect (MEDAL, section 3). Two turns of one role in
    a row, empty turns and a last turn by the user are all allowed: real logs have them.

    >>> dialogue = Dialogue("d1", (Turn("user", "Hi!"), Turn("assistant", "Hello!")), lang="en")
    >>> dialogue.assistant_turns
    (1,)
    >>> dialogue.to_messages()
    [{'role': 'user', 'content': 'Hi!'}, {'role': 'assistant', 'content': 'Hello!'}]
    >>> Dialogue.from_messages(dialogue.to_messages(), id="d1", lang="en") == dialogue
    True
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
        """Name of the system judged, which intervals leave out as a whole."""
        return self.models.get("assistant")

    def upto(self, turn: int) -> Dialogue:
        """The dialogue that ends with turn index ``turn`` (inclusive); same id."""
        return replace(self, turns=self.turns[: turn + 1])

    @classmethod
    def from_messages(
        cls,
        messages: Sequence[Mapping[str, object]],
        *,
        id: str | None = None,
        lang: object = None,
        source: str | None = None,
        models: Mapping[str, str | None] | None = None,
        context: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        assistant: str | None = None,
        folded: Counter[str] | None = None,
    ) -> Dialogue:
        """The dialogue of a chat's messages: OpenAI, Anthropic blocks, OpenTelemetry, Gemini.

        What is not text of user or assistant is treated as messages.py says: system prompts to
        ``context``, tools as notes there, images as marked gaps, thinking and empty turns left out,
        runs of one speaker merged; ``folded`` counts it. Without ``id`` it is a hash of the turns.
        ``assistant`` names who is judged where several answer. Raises RecordError that names the
        message (``messages[3].role``).

        >>> call = {"function": {"name": "search", "arguments": '{"q": "bus"}'}}
        >>> dialogue = Dialogue.from_messages([
        ...     {"role": "system", "content": "You help travellers."},
        ...     {"role": "user", "content": "When does the bus leave?"},
        ...     {"role": "assistant", "content": None, "tool_calls": [call]},
        ...     {"role": "tool", "content": '["9:00", "9:30"]'},
        ...     {"role": "assistant", "content": [{"type": "text", "text": "At nine."}]},
        ... ])
        >>> [turn.content for turn in dialogue.turns]
        ['When does the bus leave?', 'At nine.']
        >>> dialogue.context["tools"]
        [{'turn': 1, 'note': '[tool search({"q": "bus"}): 2 results]'}]
        """
        models, context = dict(models or {}), dict(context or {})
        chat = fold_messages(messages, assistant=assistant, folded=folded)
        if chat.name is not None:
            known = models.get("assistant") or chat.name
            models["assistant"] = known
            if assistant is not None and known != assistant:
                raise RecordError("models.assistant", f"the assistant {assistant!r}", known)
        prompts = [context.get(SYSTEM_PROMPT), chat.context.get(SYSTEM_PROMPT)]
        context |= chat.context
        if all(prompts):  # the row's own and the messages'
            context[SYSTEM_PROMPT] = "\n".join(map(str, prompts))
        turns = tuple(Turn(speaker, said) for speaker, said in chat.turns)
        code = sys.intern(language_code(lang))
        name = content_hash(chat.turns) if id is None else parse_id(id)
        return cls(name, turns, code, source, models, context, meta or {})

    def to_messages(self) -> list[dict[str, str]]:
        """OpenAI's messages: the system prompt, where the context holds one, and the turns. Notes
        of tools are left out: a note is no call."""
        prompt = self.context.get(SYSTEM_PROMPT)
        system = [{"role": "system", "content": prompt}] if isinstance(prompt, str) else []
        return system + [{"role": t.role, "content": t.content} for t in self.turns]

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
    """Dialogue of one JSON object in the line format, or in MEDAL's released form (released.py).

    Raises RecordError that names the field: id missing, no turns, unknown role, content that is no
    text or holds half of a surrogate pair.
    """
    if not isinstance(record, dict):
        raise RecordError("(line)", "a JSON object", record)
    if is_released(record):
        record = line_of_released(record)
    turns = record.get("dialogue", record.get("turns"))
    if not isinstance(turns, list) or not turns:
        raise RecordError("dialogue", "a non-empty list of {role, content}", turns)
    return Dialogue(
        id=parse_id(record.get("id")),
        turns=tuple(_parse_turn(turn, i) for i, turn in enumerate(turns)),
        lang=sys.intern(language_code(record.get("lang"))),
        source=optional_text(record, "source"),
        models=_models(record),
        context=mapping(record, "context"),
        meta=mapping(record, "meta"),
    )


def parse_id(value: object) -> str:
    """The id as text; whole numbers are taken as text. Raises RecordError when absent or empty."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise RecordError("id", "a non-empty text", value)
    return text("id", value)


def _parse_turn(turn: object, index: int) -> Turn:
    if not isinstance(turn, dict):
        raise RecordError(f"dialogue[{index}]", "an object with role and content", turn)
    role, content = turn.get("role"), turn.get("content")
    if role not in ROLES:
        raise RecordError(f"dialogue[{index}].role", "'user' or 'assistant'", role)
    field = f"dialogue[{index}].content"
    shared = ROLES[ROLES.index(role)]  # one object for all turns, not one a line
    return Turn(shared, text(field, content, "a text (may be empty)"))


def _models(record: Mapping[str, object]) -> dict[str, str | None]:
    models = mapping(record, "models")
    for role, name in models.items():
        if name is not None:
            text(f"models.{role}", name, "a text or null")
    return models
