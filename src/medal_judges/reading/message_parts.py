"""What one chat message holds: text, gaps where an image or a sound was, tool calls and results.

Read are the parts of OpenAI (Chat Completions and Responses), Anthropic (content blocks),
OpenTelemetry (GenAI message parts) and Gemini.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from medal_judges.errors import RecordError
from medal_judges.records.validation import text

Kind = Literal["text", "gap", "thinking", "call", "result"]
_TEXT = ("text", "input_text", "output_text", "refusal", "summary_text")
_THINKING = ("thinking", "redacted_thinking", "reasoning")
# Type of a part -> what stands in the text in its place, and what a summary calls it.
_GAPS = {
    **dict.fromkeys(("image", "image_url", "input_image", "image_generation_call"), "image"),
    **dict.fromkeys(("audio", "input_audio", "output_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "input_video", "video_url"), "video"),
    **dict.fromkeys(("file", "input_file", "document", "container_upload"), "file"),
}
_MEDIA = ("blob", "uri", "inline_data", "inlineData", "file_data", "fileData")
# Gemini's parts have no type: what they are is the name of their one field.
_UNTYPED = {
    "text": "text",
    "functionCall": "function_call",
    "function_call": "function_call",
    "functionResponse": "function_response",
    "function_response": "function_response",
    **dict.fromkeys(("inlineData", "inline_data"), "inline_data"),
    **dict.fromkeys(("fileData", "file_data"), "file_data"),
}
_EXPECTED = (
    "a part of a known type (text, image_url, input_audio, file, tool_use, tool_result, ...)"
)


@dataclass(frozen=True, slots=True)
class MessagePart:
    """``text`` is the text itself, the name of a gap (``image``), or of a call its arguments and of
    a result what came back; ``tool`` and ``key`` are the name of the tool and the id of the call,
    where they are given."""

    kind: Kind
    text: str
    tool: str | None = None
    key: str | None = None


def parts_of(field: str, content: object) -> Iterator[MessagePart]:
    """The parts of a message's content: a text, one part, a list of parts, or None (nothing).

    Raises RecordError that names the part, for one of an unknown type too: it may be what the user
    read, and nobody would notice that it is gone.
    """
    if content is None:
        return
    if isinstance(content, str):
        yield MessagePart("text", text(field, content))
    elif isinstance(content, list | tuple):
        for index, part in enumerate(content):
            yield from _part(f"{field}[{index}]", part)
    elif isinstance(content, Mapping):
        yield from _part(field, content)
    else:
        raise RecordError(field, "a text, a list of parts, or null", content)


def text_of(field: str, content: object) -> str:
    """The text of a content as ``parts_of`` reads it, gaps marked, all else left out."""
    return joined(parts_of(field, content))


def joined(parts: Iterable[MessagePart]) -> str:
    """Texts and marked gaps, one a line; blank texts are left out."""
    shown = (gap_mark(p.text) if p.kind == "gap" else p.text for p in parts if p.kind in _SHOWN)
    return "\n".join(each for each in shown if each.strip())


def gap_mark(name: str) -> str:
    """``[image]``: what stands where the user or the assistant had one."""
    return f"[{name}]"


def is_item(message: Mapping[str, object]) -> bool:
    """Whether a message is an item of OpenAI's Responses: a call, a result or reasoning by itself,
    without a role."""
    kind = message.get("type")
    return "role" not in message and isinstance(kind, str) and _reader(kind) is not None


def call_of(field: str, call: object) -> MessagePart:
    """An entry of ``tool_calls`` (or a ``function_call``), name and arguments under ``function``,
    ``custom`` or bare."""
    if not isinstance(call, Mapping):
        raise RecordError(field, "an object with the tool's name", call)
    for key in ("function", "custom"):
        if isinstance(inner := call.get(key), Mapping):
            call = {**call, **inner}
    return _call(field, call)


_SHOWN = ("text", "gap")
_Reader = Callable[[str, Mapping[str, object]], "MessagePart"]


def _part(field: str, part: object) -> Iterator[MessagePart]:
    if isinstance(part, str):
        yield MessagePart("text", text(field, part))
        return
    if not isinstance(part, Mapping):
        raise RecordError(field, "a part: a text, or an object with a type", part)
    kind = part.get("type")
    if kind is None:
        kind = next((kind for name, kind in _UNTYPED.items() if part.get(name) is not None), None)
    read = _reader(kind) if isinstance(kind, str) else None
    if read is None:
        raise RecordError(f"{field}.type", _EXPECTED, kind)
    yield read(field, part)
    spoken = part.get("transcript")
    if isinstance(spoken, str) and spoken.strip():  # what was said is known
        yield MessagePart("text", text(f"{field}.transcript", spoken))


def _reader(kind: str) -> _Reader | None:
    """How a part of this type is read; None for a type that is not known."""
    if kind in _TEXT:
        return _text
    if kind in _THINKING:
        return lambda field, part: MessagePart("thinking", "")
    if kind in _GAPS:
        return lambda field, part: MessagePart("gap", _GAPS[kind])
    if kind in _MEDIA:
        return lambda field, part: MessagePart("gap", _medium(part))
    # By their endings: server_tool_use, mcp_tool_result, web_search_call, custom_tool_call_output
    if kind.endswith(("tool_result", "_call_output", "call_response", "function_response")):
        return _result
    if kind.endswith(("tool_use", "_call")):
        return _call
    return None


def _text(field: str, part: Mapping[str, object]) -> MessagePart:
    name = next((k for k in ("text", "content", "refusal") if part.get(k) is not None), "text")
    kind: Kind = "thinking" if part.get("thought") is True else "text"
    return MessagePart(kind, text(f"{field}.{name}", part.get(name)))


def _medium(part: Mapping[str, object]) -> str:
    """image, audio, video or file, by what the part says of itself."""
    inner = next((part[k] for k in _MEDIA if isinstance(part.get(k), Mapping)), part)
    assert isinstance(inner, Mapping)
    said = [inner.get(k) for k in ("modality", "mime_type", "mimeType")]
    for word in said:
        if isinstance(word, str) and word.split("/")[0] in ("image", "audio", "video"):
            return word.split("/")[0]
    return "file"


def _call(field: str, part: Mapping[str, object]) -> MessagePart:
    inner = next((part[k] for k in ("functionCall", "function_call") if k in part), part)
    inner = inner if isinstance(inner, Mapping) else part
    given = next((inner[k] for k in ("arguments", "input", "args", "action") if k in inner), None)
    named = inner.get("name") or str(part.get("type", "")).removesuffix("_call")
    tool = text(f"{field}.name", named or "tool")
    return MessagePart("call", _plain(given), tool, _key(part, inner))


def _result(field: str, part: Mapping[str, object]) -> MessagePart:
    inner = next((part[k] for k in ("functionResponse", "function_response") if k in part), part)
    inner = inner if isinstance(inner, Mapping) else part
    names = ("output", "content", "response", "result")
    given = next((inner[k] for k in names if inner.get(k) is not None), None)
    tool = inner.get("name")
    return MessagePart(
        "result", _plain(given), tool if isinstance(tool, str) else None, _key(part, inner)
    )


def _key(*places: Mapping[str, object]) -> str | None:
    names = ("call_id", "tool_use_id", "tool_call_id", "id")
    return next((str(p[k]) for p in places for k in names if p.get(k) is not None), None)


def _plain(value: object) -> str:
    """Arguments or a result as text: of a list of text parts their text, of all else JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(_is_text(each) for each in value):
        return "\n".join(str(each["text"]) for each in value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _is_text(part: object) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)
