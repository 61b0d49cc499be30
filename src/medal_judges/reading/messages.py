"""Makes a dialogue out of the messages of a chat. The policy for message content:

- The dialogue consists of the texts that the user and the assistant exchange. Consecutive texts of
  one speaker become one turn, joined by a line break; a turn without text is dropped.
- System and developer prompts go to ``context["system_prompt"]``.
- Tool calls and results, which the user did not see, become short notes in ``context["tools"]``,
  each with the index of the next answer.
- An image, a sound or a file is marked in the text: ``[image]``.
- Thinking is dropped.
- A chat with several assistants (messages with different names) is an error.

Formats of messages: OpenAI (Chat Completions and Responses), Anthropic content blocks,
OpenTelemetry (GenAI message parts), ShareGPT and LangChain.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from medal_judges.errors import RecordError
from medal_judges.reading.names import Counts, Fields, Record
from medal_judges.reading.roles import ROLE_WORDS, MessageRole, stated_role
from medal_judges.reading.thoughts import THOUGHTS, without_thoughts
from medal_judges.records.dialogue import (
    SYSTEM_PROMPT,
    Dialogue,
    Role,
    Turn,
    language_code,
    parse_id,
)
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import as_text, text

_ROLES = (
    "user, assistant, system, developer, tool or function (human, gpt, bot, ... too)"
)
_COUNTED = {"call": "tool calls", "result": "tool results", "thinking": THOUGHTS}
_TOOLS = ("call", "result")
_SHOWN = ("text", "gap")
_MODALITIES = ("image", "audio", "video")
_OUTPUTS = ("output", "content", "response", "result")
# Kind of a part, or its mark in the text if it is a gap -> its types. ChatGPT's are in the second
# lines.
_TYPES = {
    "text": "text input_text output_text refusal summary_text "
    "code execution_output tether_quote audio_transcription",
    "thinking": "thinking redacted_thinking reasoning "
    "thoughts reasoning_recap user_editable_context model_editable_context",
    "image": "image image_url input_image image_generation_call image_asset_pointer",
    "audio": "audio input_audio output_audio audio_url audio_asset_pointer",
    "video": "video input_video video_url real_time_user_audio_video_asset_pointer",
    "mark": "step-start source source-url source-document",
    "call": "dynamic-tool tool-invocation",
    "file": "file input_file document container_upload blob uri",
}
_KINDS = {name: kind for kind, names in _TYPES.items() for name in names.split()}
# By their endings: server_tool_use, mcp_tool_result, web_search_call, custom_tool_call_output
_RESULTS = ("tool_result", "_call_output", "call_response")
_CALLS = ("tool_use", "_call")
_NOTE = 160  # most characters of arguments or of a result in a note


class _Part(NamedTuple):
    """``text`` is a text, the mark of a gap (``image``), or the note of a call or a result."""

    kind: Literal["text", "gap", "thinking", "call", "result"]
    text: str


_THINKING = _Part("thinking", "")


class _Message(NamedTuple):
    role: MessageRole
    parts: Sequence[_Part]
    name: str | None = None  # of the speaker


def read_messages(
    messages: Sequence[Record],
    *,
    id: str | None = None,
    lang: object = None,
    source: str | None = None,
    models: Mapping[str, str | None] | None = None,
    context: Record | None = None,
    meta: Record | None = None,
    folded: Counts | None = None,
) -> Dialogue:
    """Returns the dialogue of ``messages``, a list of {role, content}.

    Without ``id`` the id is a hash of the turns. ``folded`` counts the parts that are not text of
    the user or the assistant. Raises RecordError with message and field (``messages[3].role``).

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
    [{'turn': 1, 'note': 'search({"q": "bus"})'}, {'turn': 1, 'note': '-> ["9:00", "9:30"]'}]
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise RecordError("messages", "a non-empty list of {role, content}", messages)
    parsed = [
        parse_message(f"messages[{i}]", message) for i, message in enumerate(messages)
    ]
    models, context = dict(models or {}), dict(context or {})
    name = _assistant_name(parsed)
    if name is not None:
        models["assistant"] = models.get("assistant") or name
    chat = _Chat()
    for message in parsed:
        chat.add(message)
    if not chat.turns:
        raise RecordError("messages", "text of a user or an assistant", messages)
    if folded is not None:
        folded.update(chat.counts)
    chat.add_to(context)
    id = content_hash(chat.turns) if id is None else parse_id(id)
    code = sys.intern(language_code(lang))
    turns = tuple(Turn(role, content) for role, content in chat.turns)
    return Dialogue(id, turns, code, source, models, context, meta or {})


def _assistant_name(messages: Sequence[_Message]) -> str | None:
    """Returns the name of the assistant in its messages with text, None if they state none.

    Raises RecordError if they state several names.
    """
    first_messages: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message.role != "assistant" or not message.name:
            continue
        if shown_text(message.parts).strip():
            first_messages.setdefault(message.name, index)
    if len(first_messages) > 1:
        first, second = list(first_messages)[:2]
        expected = f"one assistant per chat ({first!r} answers too)"
        raise RecordError(f"messages[{first_messages[second]}].name", expected, second)
    return next(iter(first_messages), None)


class _Chat:
    """What the messages of a chat become: turns, system prompts and notes of tools."""

    def __init__(self) -> None:
        self.turns: list[tuple[Role, str]] = []
        self.prompts: list[str] = []
        # The turn is the index of the next answer; None until there is one.
        self.notes: list[dict[str, int | str | None]] = []
        self.counts: Counts = Counter()

    def add(self, message: _Message) -> None:
        content = shown_text(message.parts)
        if message.role == "system":
            self.counts["system prompts"] += 1
            if content.strip():
                self.prompts.append(content)
            return
        kinds = {part.kind for part in message.parts}
        is_silent = kinds <= {"text", "thinking"} and not content
        if is_silent and message.role in ("user", "assistant"):
            self.counts["empty turns left out"] += 1
        is_said = False
        for part in message.parts:
            if part.kind != "text":
                self.counts[_COUNTED.get(part.kind, f"gaps [{part.text}]")] += 1
            if part.kind in _TOOLS:
                self.notes.append({"turn": None, "note": part.text})
            elif part.kind in _SHOWN and not is_said:
                # Calls before the text belong to it.
                is_said = True
                role: Role = "user" if message.role == "user" else "assistant"
                self._add_turn(role, content)

    def add_to(self, context: Fields) -> None:
        """Adds the system prompts, after an existing one, and the notes of tools."""
        if self.prompts:
            if earlier := context.get(SYSTEM_PROMPT):
                self.prompts.insert(0, str(earlier))
            context[SYSTEM_PROMPT] = "\n".join(self.prompts)
        if self.notes:
            context["tools"] = self.notes

    def _add_turn(self, role: Role, content: str) -> None:
        if not content:
            return
        if self.turns and self.turns[-1][0] == role:
            self.counts["turns merged into the one before"] += 1
            _, before = self.turns.pop()
            content = f"{before}\n{content}"
        self.turns.append((role, content))
        if role == "user":
            return
        for note in self.notes:
            if note["turn"] is None:
                note["turn"] = len(self.turns) - 1


def shown_text(parts: Iterable[_Part]) -> str:
    """Returns texts and marks of gaps, one per line."""
    lines = []
    for part in parts:
        if part.kind == "gap":
            lines.append(f"[{part.text}]")
        elif part.kind == "text" and part.text.strip():
            lines.append(part.text)
    return "\n".join(lines)


# -- one message -----------------------------------------------------------------------------------


def parse_message(field: str, message: object) -> _Message:
    """Returns the role, the parts and the speaker's name of a message in any known form. Raises
    RecordError that names what is wrong within ``field``."""
    if not isinstance(message, Mapping):
        raise RecordError(field, "an object with role and content", message)
    kind = message.get("type")
    if "role" not in message and kind_of_part(kind) is not None:
        # An item of OpenAI's Responses, which has no role.
        parts = list(_parts(field, message))
        if any(part.kind == "gap" for part in parts):
            return _Message("assistant", parts)
        return _Message("call", parts)
    role = stated_role(message)
    if role is None:
        raise RecordError(f"{field}.role", _ROLES, message.get("role", kind))
    column = "content"
    if message.get("content") in (None, "", []) and "parts" in message:
        column = "parts"
    parts = list(_parts(f"{field}.{column}", message.get(column)))
    if role == "tool":
        results = [part for part in parts if part.kind == "result"]
        return _Message(role, results or [_result(shown_text(parts))])
    if role == "call":
        return _Message(role, [_call_in_text(f"{field}.content", shown_text(parts))])
    if role == "assistant":
        parts = [*_without_thoughts(parts), *_parts_beside_content(field, message)]
    return _Message(role, parts, _speaker_name(field, message))


def _call_in_text(field: str, content: str) -> _Part:
    """Returns the note of ShareGPT's tool call: JSON of name and arguments, else any text."""
    try:
        call = json.loads(content)
    except (ValueError, RecursionError):
        call = None
    if not isinstance(call, dict):
        call = {"arguments": content}
    return _call(field, call)


def _without_thoughts(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Yields the parts of an answer. Thoughts within its texts become separate parts."""
    for part in parts:
        if part.kind != "text":
            yield part
            continue
        answer, count = without_thoughts(part.text)
        yield from [_THINKING] * count
        yield part._replace(text=answer)


def _parts_beside_content(field: str, message: Record) -> Iterator[_Part]:
    """Yields what an answer has in other fields: a refusal, a sound, thoughts and calls."""
    if message.get("refusal") is not None:
        yield _Part("text", text(f"{field}.refusal", message["refusal"]))
    audio = message.get("audio")
    if isinstance(audio, Mapping):
        yield from _parts(f"{field}.audio", {**audio, "type": "audio"})
    if any(map(message.get, ("reasoning_content", "reasoning", "thinking"))):
        yield _THINKING
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list | tuple):
        raise RecordError(f"{field}.tool_calls", "a list of calls, or null", calls)
    for index, call in enumerate(calls or ()):
        yield _call(f"{field}.tool_calls[{index}]", call)
    if message.get("function_call") is not None:
        yield _call(f"{field}.function_call", message["function_call"])


def _speaker_name(field: str, message: Record) -> str | None:
    """Returns the name of the speaker or of the model. Returns None if it is the word of a role."""
    for column in ("name", "model"):
        name = as_text(message.get(column))
        if name is not None and text(f"{field}.{column}", name).strip():
            if name.lower() in ROLE_WORDS:
                return None
            return str(name)
    return None


# -- parts of a message ----------------------------------------------------------------------------


def _parts(field: str, content: object) -> Iterator[_Part]:
    """Yields the parts of ``content``: a text, one part, a list of parts, or None. Raises
    RecordError for an unknown type of part, because it may be text that the user read."""
    content = as_text(content)
    if content is None:
        return
    if isinstance(content, str):
        yield _Part("text", text(field, content))
    elif isinstance(content, Mapping):
        yield from _parts_of_object(field, content)
    elif isinstance(content, list | tuple):
        for index, part in enumerate(map(as_text, content)):
            if not isinstance(part, str | Mapping):
                expected = "a part: a text, or an object with a type"
                raise RecordError(f"{field}[{index}]", expected, part)
            yield from _parts(f"{field}[{index}]", part)
    else:
        raise RecordError(field, "a text, a list of parts, or null", content)


def _parts_of_object(field: str, content: Record) -> Iterator[_Part]:
    default = None
    if isinstance(content.get("text"), str):
        default = "text"
    type = content.get("type", content.get("content_type", default))
    kind = kind_of_part(type)
    if content.get("thought") is True:  # Gemini's
        kind = "thinking"
    if kind is None:
        examples = "text, image_url, input_audio, file, tool_use, tool_result, ..."
        raise RecordError(f"{field}.type", f"a part of a known type ({examples})", type)
    if kind == "text":
        name = _filled_name(content, ("text", "content", "refusal")) or "text"
        yield _Part("text", text(f"{field}.{name}", as_text(content.get(name))))
    elif kind == "thinking":
        yield _THINKING
    elif kind == "call":
        yield _call(field, content)
    elif kind == "result":
        yield _result(content.get(_filled_name(content, _OUTPUTS) or ""))
    elif kind != "mark":
        if content.get("modality") in _MODALITIES:  # OpenTelemetry's blobs
            kind = content["modality"]
        yield _Part("gap", kind)
    transcript = content.get("transcript")
    if kind != "mark" and isinstance(transcript, str) and transcript.strip():
        yield _Part("text", text(f"{field}.transcript", transcript))


def _filled_name(record: Record, names: Iterable[str]) -> str | None:
    """Returns the first of ``names`` that has a value in ``record``."""
    return next((name for name in names if record.get(name) is not None), None)


def kind_of_part(type_name: object) -> str | None:
    """Returns the kind of a part, or the mark of its gap; None for an unknown type.

    The kinds are text, thinking, call, result, and mark, which nobody reads.
    """
    if not isinstance(type_name, str):
        return None
    if type_name in _KINDS:
        return _KINDS[type_name]
    if type_name.endswith(_RESULTS):
        return "result"
    # The AI SDK's types begin with tool-.
    if type_name.endswith(_CALLS) or type_name.startswith("tool-"):
        return "call"
    return None


def _call(field: str, call: object) -> _Part:
    """Returns the note of a tool call; its name and arguments are in ``call`` or in its
    ``function``."""
    if not isinstance(call, Mapping):
        raise RecordError(field, "an object with the tool's name", call)
    function = call
    for name in ("toolInvocation", "function"):
        if isinstance(call.get(name), Mapping):
            function = call[name]
    value = None
    for name in ("action", "args", "input", "arguments"):  # the last one counts
        value = function.get(name, value)
    arguments = _short(value)
    if arguments == "{}":
        arguments = ""
    kind = str(call.get("type", "")).removesuffix("_call").removeprefix("tool-")
    tool = function.get("name") or function.get("toolName") or kind or "tool"
    return _Part("call", f"{text(f'{field}.name', tool)[:60]}({arguments})")


def _result(value: object) -> _Part:
    return _Part("result", f"-> {_short(value)}")


def _short(value: object) -> str:
    """Returns the beginning of arguments or of a result on one line, as text or as JSON."""
    if isinstance(value, list) and value:
        texts = [
            part.get("text") if isinstance(part, Mapping) else None for part in value
        ]
        if None not in texts:
            value = "\n".join(map(str, texts))
    if value is not None and not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join((value or "")[: 4 * _NOTE].split())
    if len(line) <= _NOTE:
        return line
    return f"{line[: _NOTE - 1]}…"
