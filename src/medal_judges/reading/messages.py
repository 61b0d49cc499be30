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
from typing import Any, Literal, NamedTuple

from medal_judges.errors import RecordError
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

_ROLES = "user, assistant, system, developer, tool or function (human, gpt, bot, ... too)"
_COUNTED = {"call": "tool calls", "result": "tool results", "thinking": THOUGHTS}
_TOOLS = ("call", "result")
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


class _Message(NamedTuple):
    role: MessageRole
    parts: Sequence[_Part]
    name: str | None = None  # of the speaker


def read_messages(
    messages: Sequence[Mapping[str, object]],
    *,
    id: str | None = None,
    lang: object = None,
    source: str | None = None,
    models: Mapping[str, str | None] | None = None,
    context: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    folded: Counter[str] | None = None,
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
    counts: Counter[str] = Counter()
    read = [parse_message(f"messages[{i}]", each) for i, each in enumerate(messages)]
    models, context = dict(models or {}), dict(context or {})
    names: dict[str, int] = {}  # of assistants, with the first message of each
    for index, message in enumerate(read):
        if message.role == "assistant" and message.name and shown_text(message.parts).strip():
            names.setdefault(message.name, index)
    if len(names) > 1:
        one, other = list(names)[:2]
        expected = f"one assistant per chat ({one!r} answers too)"
        raise RecordError(f"messages[{names[other]}].name", expected, other)
    if names:
        models["assistant"] = models.get("assistant") or next(iter(names))
    turns: list[tuple[Role, str]] = []
    prompts: list[str] = []
    notes: list[dict[str, object]] = []  # of tools
    for message in read:
        content, parts = shown_text(message.parts), message.parts
        if message.role == "system":
            counts["system prompts"] += 1
            prompts += [content] if content.strip() else []
            continue
        for part in parts:
            if part.kind != "text":
                counts[_COUNTED.get(part.kind, f"gaps [{part.text}]")] += 1
        is_silent = all(part.kind in ("text", "thinking") for part in parts)
        if is_silent and not content and message.role in ("user", "assistant"):
            counts["empty turns left out"] += 1
        shown = [i for i, part in enumerate(parts) if part.kind in ("text", "gap")]
        first = shown[0] if shown else len(parts)
        notes += [{"turn": None, "note": p.text} for p in parts[:first] if p.kind in _TOOLS]
        if content:
            speaker: Role = "user" if message.role == "user" else "assistant"
            if turns and turns[-1][0] == speaker:
                counts["turns merged into the one before"] += 1
                content = f"{turns.pop()[1]}\n{content}"
            turns.append((speaker, content))
            for note in notes if speaker == "assistant" else ():
                note["turn"] = len(turns) - 1 if note["turn"] is None else note["turn"]
        notes += [{"turn": None, "note": p.text} for p in parts[first:] if p.kind in _TOOLS]
    if not turns:
        raise RecordError("messages", "text of a user or an assistant", messages)
    if folded is not None:
        folded.update(counts)
    if prompts:
        own = [str(context[SYSTEM_PROMPT])] if context.get(SYSTEM_PROMPT) else []
        context[SYSTEM_PROMPT] = "\n".join([*own, *prompts])
    if notes:
        context["tools"] = notes
    id = content_hash(turns) if id is None else parse_id(id)
    code = sys.intern(language_code(lang))
    made = tuple(Turn(speaker, content) for speaker, content in turns)
    return Dialogue(id, made, code, source, models, context, meta or {})


def shown_text(parts: Iterable[_Part]) -> str:
    """Returns texts and marks of gaps, one per line."""
    shown = (
        f"[{p.text}]" if p.kind == "gap" else p.text for p in parts if p.kind in ("text", "gap")
    )
    return "\n".join(each for each in shown if each.strip())


# -- one message -----------------------------------------------------------------------------------


def parse_message(field: str, message: object) -> _Message:
    if not isinstance(message, Mapping):
        raise RecordError(field, "an object with role and content", message)
    kind = message.get("type")
    if "role" not in message and kind_of_part(kind) is not None:
        parts = list(_parts(field, message))  # an item of OpenAI's Responses, which has no role
        is_gap = any(part.kind == "gap" for part in parts)
        return _Message("assistant" if is_gap else "call", parts)
    role = stated_role(message)
    if role is None:
        raise RecordError(f"{field}.role", _ROLES, message.get("role", kind))
    has_content = message.get("content") not in (None, "", []) or "parts" not in message
    column = "content" if has_content else "parts"
    parts = list(_parts(f"{field}.{column}", message.get(column)))
    if role == "tool":
        results = [part for part in parts if part.kind == "result"]
        return _Message(role, results or [_Part("result", f"-> {_short(shown_text(parts))}")])
    if role == "call":
        try:  # ShareGPT's: JSON of name and arguments, else any text
            call = json.loads(shown_text(parts))
        except (ValueError, RecursionError):
            call = None
        call = call if isinstance(call, dict) else {"arguments": shown_text(parts)}
        return _Message(role, [_call(f"{field}.content", call)])
    if role == "assistant":
        parts = list(_spoken(parts))
        if message.get("refusal") is not None:
            parts.append(_Part("text", text(f"{field}.refusal", message["refusal"])))
        if isinstance(message.get("audio"), Mapping):
            parts += _parts(f"{field}.audio", {**message["audio"], "type": "audio"})
        if any(message.get(key) for key in ("reasoning_content", "reasoning", "thinking")):
            parts.append(_Part("thinking", ""))
        calls = message.get("tool_calls")
        if calls is not None and not isinstance(calls, list | tuple):
            raise RecordError(f"{field}.tool_calls", "a list of calls, or null", calls)
        for index, each in enumerate(calls or ()):
            parts.append(_call(f"{field}.tool_calls[{index}]", each))
        if message.get("function_call") is not None:
            parts.append(_call(f"{field}.function_call", message["function_call"]))
    for name in ("name", "model"):
        value = as_text(message.get(name))
        if value is not None and text(f"{field}.{name}", value).strip():
            return _Message(role, parts, None if str(value).lower() in ROLE_WORDS else str(value))
    return _Message(role, parts)


def _spoken(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Yields the parts of an answer, with the thoughts in its texts as parts of their own."""
    for part in parts:
        answer, count = without_thoughts(part.text) if part.kind == "text" else (part.text, 0)
        yield from [_Part("thinking", "")] * count
        yield part._replace(text=answer)


def _parts(field: str, content: object) -> Iterator[_Part]:
    """Yields the parts of ``content``: a text, one part, a list of parts, or None. Raises
    RecordError for an unknown type of part, because it may be text that the user read."""
    content = as_text(content)
    if content is None:
        return
    if isinstance(content, list | tuple):
        for index, part in enumerate(map(as_text, content)):
            if not isinstance(part, str | Mapping):
                expected = "a part: a text, or an object with a type"
                raise RecordError(f"{field}[{index}]", expected, part)
            yield from _parts(f"{field}[{index}]", part)
        return
    if isinstance(content, str):
        yield _Part("text", text(field, content))
        return
    if not isinstance(content, Mapping):
        raise RecordError(field, "a text, a list of parts, or null", content)
    plain = "text" if isinstance(content.get("text"), str) else None
    stated = content.get("type", content.get("content_type", plain))
    kind = "thinking" if content.get("thought") is True else kind_of_part(stated)  # Gemini's
    if kind is None:
        known = "text, image_url, input_audio, file, tool_use, tool_result, ..."
        raise RecordError(f"{field}.type", f"a part of a known type ({known})", stated)
    if kind == "text":
        names = ("text", "content", "refusal")
        name = next((k for k in names if content.get(k) is not None), "text")
        yield _Part("text", text(f"{field}.{name}", as_text(content.get(name))))
    elif kind == "thinking":
        yield _Part("thinking", "")
    elif kind == "mark":
        return
    elif kind == "call":
        yield _call(field, content)
    elif kind == "result":
        fields = ("output", "content", "response", "result")
        given = next((content[k] for k in fields if content.get(k) is not None), None)
        yield _Part("result", f"-> {_short(given)}")
    else:
        stated = content.get("modality")  # OpenTelemetry's blobs
        yield _Part("gap", stated if stated in ("image", "audio", "video") else kind)
    spoken = content.get("transcript")
    if isinstance(spoken, str) and spoken.strip():
        yield _Part("text", text(f"{field}.transcript", spoken))


def kind_of_part(stated: object) -> str | None:
    """Returns text, thinking, call, result, mark (nothing that anybody reads) or the mark of a
    gap; None for an unknown type."""
    if not isinstance(stated, str) or stated in _KINDS:
        return _KINDS.get(stated) if isinstance(stated, str) else None
    is_call = stated.endswith(_CALLS) or stated.startswith("tool-")  # the AI SDK's
    return "result" if stated.endswith(_RESULTS) else "call" if is_call else None


def _call(field: str, call: object) -> _Part:
    """Returns the note of a tool call; its name and arguments are in ``call`` or in its
    ``function``."""
    if not isinstance(call, Mapping):
        raise RecordError(field, "an object with the tool's name", call)
    nested = (call.get("function"), call.get("toolInvocation"), call)
    inner = next(value for value in nested if isinstance(value, Mapping))
    names = ("arguments", "input", "args", "action")
    given = _short(next((inner[k] for k in names if k in inner), None))
    kind = str(call.get("type", "")).removesuffix("_call").removeprefix("tool-")
    named = inner.get("name") or inner.get("toolName") or kind
    name = text(f"{field}.name", named or "tool")
    return _Part("call", f"{name[:60]}({given if given != '{}' else ''})")


def _short(value: object) -> str:
    """Returns the beginning of arguments or of a result on one line, as text or as JSON."""
    if isinstance(value, list):
        texts = [part.get("text") if isinstance(part, Mapping) else None for part in value]
        value = "\n".join(map(str, texts)) if value and None not in texts else value
    if value is not None and not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join((value or "")[: 4 * _NOTE].split())
    return line if len(line) <= _NOTE else f"{line[: _NOTE - 1]}…"
