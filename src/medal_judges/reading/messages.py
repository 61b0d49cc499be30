"""From the messages of a chat to what is judged: the policy of message content.

- Judged is what the user and the assistant read of each other. Texts of one speaker in a row are
  one turn, joined by a line break; a turn without text is left out.
- System and developer prompts go to ``context["system_prompt"]``.
- Tool calls and their results become short notes in ``context["tools"]``, each with the index of
  the answer that follows it. They are not part of the answer's text: the user did not see them, a
  judge would score them as if they had been said, and the same chat from a table that has no tool
  rows would score differently.
- An image, a sound or a file is a gap, marked in the text: ``[image]``.
- Thinking is left out.
- Where several assistants speak, one has to be named. The answers of the others then stand on the
  user's side, each with its speaker's name in brackets: they are what the named one answered to.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from medal_judges.errors import RecordError
from medal_judges.reading.message_parts import MessagePart, call_of, is_item, joined, parts_of
from medal_judges.reading.tool_notes import ToolNotes
from medal_judges.records.dialogue import SYSTEM_PROMPT, Dialogue, Turn, parse_id
from medal_judges.records.languages import language_code
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import text

Speaker = Literal["user", "assistant"]
MessageRole = Literal["user", "assistant", "system", "tool", "call"]
TOOLS = "tools"  # key of Dialogue.context
# What loaders and logs call those who speak, in lower case. ``call``: ShareGPT's tool calls.
ROLE_WORDS: Mapping[str, MessageRole] = {
    **dict.fromkeys(("user", "human", "customer", "client", "visitor", "prompter"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "bot", "ai", "chatbot", "chatgpt"), "assistant"),
    **dict.fromkeys(("agent", "aimessage", "aimessagechunk"), "assistant"),
    "humanmessage": "user",
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function", "observation", "ipython", "tool_response"), "tool"),
    **dict.fromkeys(("function_call", "tool_call"), "call"),
}
_COUNTED = {
    "call": "tool calls",
    "result": "tool results",
    "thinking": "thoughts left out",
}
_ROLES = "user, assistant, system, developer, tool or function (human, gpt, bot, ... too)"


@dataclass(frozen=True, slots=True)
class FoldedChat:
    """``turns`` as (speaker, text), never two of one speaker in a row; ``context`` holds the system
    prompt and the notes of tools, ``name`` who answered as assistant, where it is said."""

    turns: tuple[tuple[Speaker, str], ...]
    context: Mapping[str, Any]
    name: str | None


@dataclass(frozen=True, slots=True)
class _ReadMessage:
    """One message: ``name`` of its speaker, ``parts`` in their order."""

    role: MessageRole
    parts: Sequence[MessagePart]
    name: str | None = None

    @property
    def text(self) -> str:
        return joined(self.parts)


def read_messages(
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

    >>> from medal_judges import read_messages
    >>> call = {"function": {"name": "search", "arguments": '{"q": "bus"}'}}
    >>> dialogue = read_messages([
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
    return Dialogue(name, turns, code, source, models, context, meta or {})


def fold_messages(
    messages: object, *, assistant: str | None = None, folded: Counter[str] | None = None
) -> FoldedChat:
    """What the policy above makes of ``messages``: a list of {role, content}.

    ``assistant``: who is judged where several answer (by a message's ``name`` or ``model``).
    ``folded`` counts what was folded, marked, merged and left out, in words for a summary. Raises
    RecordError that names the message and its field.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise RecordError("messages", "a non-empty list of {role, content}", messages)
    read = [_read(f"messages[{i}]", each) for i, each in enumerate(messages)]
    name, several = _judged(read, assistant)
    counts: Counter[str] = Counter()
    turns: list[tuple[Speaker, str]] = []
    system: list[str] = []
    tools = ToolNotes()
    for message in read:
        _count(message, counts)
        said = message.text
        if message.role == "system":
            system += [said] if said.strip() else []
            continue
        before, after = _around_text(message.parts)
        tools.add(before)
        if said.strip():
            speaker: Speaker = "user" if message.role == "user" else "assistant"
            if several and speaker == "assistant" and message.name != name:
                counts["answers of other assistants"] += 1
                speaker, said = "user", f"[{message.name or 'assistant'}] {said}"
            if turns and turns[-1][0] == speaker:
                counts["turns merged into the one before"] += 1
                said = f"{turns.pop()[1]}\n{said}"
            turns.append((speaker, said))
            if speaker == "assistant":
                tools.place(len(turns) - 1)
        tools.add(after)
    if not turns:
        raise RecordError("messages", "text of a user or an assistant", messages)
    if folded is not None:
        folded.update(counts)
    notes = tools.records()
    context = {SYSTEM_PROMPT: "\n".join(system)} if system else {}
    return FoldedChat(tuple(turns), context | ({TOOLS: notes} if notes else {}), name)


def _count(message: _ReadMessage, counts: Counter[str]) -> None:
    if message.role == "system":
        counts["system prompts"] += 1
        return
    for part in message.parts:
        if part.kind != "text":
            counts[_COUNTED.get(part.kind, f"gaps [{part.text}]")] += 1
    silent = all(p.kind == "text" and not p.text.strip() for p in message.parts)
    if silent and message.role in ("user", "assistant"):
        counts["empty turns left out"] += 1


def _around_text(
    parts: Sequence[MessagePart],
) -> tuple[Sequence[MessagePart], Sequence[MessagePart]]:
    """The parts before the first text or gap, and those from there on."""
    first = next((i for i, part in enumerate(parts) if part.kind in ("text", "gap")), len(parts))
    return parts[:first], parts[first:]


def _judged(read: Sequence[_ReadMessage], assistant: str | None) -> tuple[str | None, bool]:
    """(Who is judged, whether others answer too). Raises RecordError where that is not said."""
    names: dict[str, int] = {}  # name -> its first message
    for index, message in enumerate(read):
        if message.role == "assistant" and message.name is not None and message.text.strip():
            names.setdefault(message.name, index)
    if assistant is not None:
        if names and assistant not in names:
            field = f"messages[{next(iter(names.values()))}].name"
            raise RecordError(field, f"an answer of the assistant {assistant!r}", [*names])
        return assistant, len(names) > 1
    if len(names) > 1:
        first, second = list(names)[:2]
        expected = f"one assistant a chat ({first!r} answers too), or the name of the one to judge"
        raise RecordError(f"messages[{names[second]}].name", expected, second)
    return next(iter(names), None), False


# -- one message -----------------------------------------------------------------------------------


def _read(field: str, message: object) -> _ReadMessage:
    if not isinstance(message, Mapping):
        raise RecordError(field, "an object with role and content", message)
    if is_item(message):
        parts = list(parts_of(field, message))
        return _ReadMessage("assistant" if parts[0].kind == "gap" else "call", parts)
    role = _role(f"{field}.role", message)
    place = "content" if message.get("content") is not None or "parts" not in message else "parts"
    parts = list(parts_of(f"{field}.{place}", message.get(place)))
    if role == "tool":
        return _ReadMessage(role, _results(message, parts))
    if role == "call":
        return _ReadMessage(role, [call_of(f"{field}.content", _parsed(joined(parts)))])
    if role == "assistant":
        parts += _beside_content(field, message)
    return _ReadMessage(role, parts, _name(field, message))


def _role(field: str, message: Mapping[str, object]) -> MessageRole:
    # LangChain writes ``type``: human, ai, tool
    said = message["role"] if "role" in message else message.get("type")
    known = ROLE_WORDS.get(said.strip().lower()) if isinstance(said, str) else None
    if known is None:
        raise RecordError(field, _ROLES, said)
    return known


def _name(field: str, message: Mapping[str, object]) -> str | None:
    for key in ("name", "model"):
        value = message.get(key)
        if value is not None and text(f"{field}.{key}", value).strip():
            return str(value) if str(value).lower() not in ROLE_WORDS else None
    return None


def _beside_content(field: str, message: Mapping[str, object]) -> list[MessagePart]:
    """What an answer holds beside its content: a refusal, speech, thinking, calls."""
    parts: list[MessagePart] = []
    if message.get("refusal") is not None:
        parts.append(MessagePart("text", text(f"{field}.refusal", message["refusal"])))
    if isinstance(message.get("audio"), Mapping):
        parts += parts_of(f"{field}.audio", {**message["audio"], "type": "audio"})  # type: ignore[dict-item]
    if any(message.get(key) for key in ("reasoning_content", "reasoning", "thinking")):
        parts.append(MessagePart("thinking", ""))
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list | tuple):
        raise RecordError(f"{field}.tool_calls", "a list of calls, or null", calls)
    listed = [(f"{field}.tool_calls[{i}]", call) for i, call in enumerate(calls or ())]
    if message.get("function_call") is not None:
        listed.append((f"{field}.function_call", message["function_call"]))
    return [*parts, *(call_of(place, call) for place, call in listed)]


def _results(message: Mapping[str, object], parts: list[MessagePart]) -> list[MessagePart]:
    """The results that a tool's message holds; its text is one."""
    if any(part.kind == "result" for part in parts):
        return [part for part in parts if part.kind == "result"]
    name, key = message.get("name"), message.get("tool_call_id")
    tool = name if isinstance(name, str) else None
    return [MessagePart("result", joined(parts), tool, None if key is None else str(key))]


def _parsed(said: str) -> Mapping[str, object]:
    """ShareGPT's call: JSON of name and arguments, else some text."""
    try:
        call = json.loads(said)
    except (ValueError, RecursionError):
        call = None
    return call if isinstance(call, dict) else {"arguments": said}
