"""Makes a dialogue out of the messages of a chat. The policy for message content:

- The dialogue consists of the texts that the user and the assistant exchange. Consecutive texts of
  one speaker become one turn, joined by a line break.
- An answer without text is an empty turn. A message of the user without text is dropped.
- System and developer prompts go to ``context["system_prompt"]``.
- Tool calls, their results and reasoning, which the user did not see, are left out and counted.
- An image, a sound or a file is marked in the text: ``[image]``.
- A chat with several assistants (messages with different names) is an error.

Messages have the form of OpenAI (Chat Completions and Responses), Anthropic and ShareGPT.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.names import ROLE_WORDS, Counts, Record
from medal_judges.reading.thoughts import THOUGHTS, remove_thoughts
from medal_judges.records.dialogue import (
    SYSTEM_PROMPT,
    Dialogue,
    Role,
    Turn,
    language_code,
    parse_id,
)
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import number_as_text, parse_text

_CALLS, _RESULTS = "tool calls", "tool results"
# Kind of a part -> its types. The kind of a gap is its mark in the text.
_TYPES = {
    "text": "text input_text output_text refusal summary_text",
    THOUGHTS: "thinking redacted_thinking reasoning",
    "image": "image image_url input_image image_generation_call",
    "audio": "audio input_audio output_audio audio_url",
    "video": "video input_video video_url",
    "file": "file input_file document container_upload",
}
_KINDS = {name: kind for kind, names in _TYPES.items() for name in names.split()}
# By the endings of types: server_tool_use, mcp_tool_result, function_call_output
_ENDINGS = {
    "tool_result": _RESULTS,
    "_call_output": _RESULTS,
    "tool_use": _CALLS,
    "_call": _CALLS,
}
_UNSEEN = (THOUGHTS, _CALLS, _RESULTS)
Part = tuple[str, str]  # (kind, text)


def read_messages(
    messages: Sequence[Record],
    *,
    id: str | None = None,
    lang: object = None,
    source: str | None = None,
    models: Mapping[str, str | None] | None = None,
    context: Record | None = None,
    meta: Record | None = None,
    changes: Counts | None = None,
) -> Dialogue:
    """Converts a list of {role, content}, as in the APIs of OpenAI and Anthropic, to a dialogue.

    Args:
        messages: The messages, the oldest first.
        id: Id of the dialogue, by default a hash of its turns.
        lang: Language of the dialogue, such as ``de`` or ``German``. None: unknown.
        source: Name of the data set or system that the dialogue is from.
        models: Role -> name of the speaker: ``{"assistant": "gpt-4.1"}``.
        context: What the dialogue started from: ``{"scene": "Two friends cook."}``.
        meta: Any other data to keep with the dialogue.
        changes: Counter of what was left out, such as ``{"tool calls": 2}``. It is increased.

    Raises:
        RecordError: ``messages`` is empty or holds no text, a message has an unknown role or type
            of content, the language is unknown, or messages name different assistants. The error
            names the field (``messages[3].role``).

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
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise RecordError("messages", "a non-empty list of {role, content}", messages)
    chat = _Chat()
    for index, message in enumerate(messages):
        chat.add(f"messages[{index}]", message)
    if not any(texts for _, texts in chat.turns):
        raise RecordError("messages", "text of a user or an assistant", messages)
    if changes is not None:
        changes.update(chat.counts)
    models, context = dict(models or {}), dict(context or {})
    chat.fill_models_and_context(models, context)
    turns = tuple(Turn(role, "\n".join(texts)) for role, texts in chat.turns)
    if id is None:
        id = content_hash([[turn.role, turn.content] for turn in turns])
    code = sys.intern(language_code(lang))
    return Dialogue(parse_id(id), turns, code, source, models, context, meta or {})


class _Chat:
    """The content of a chat, collected message by message.

    Attributes:
        turns: (role, texts) of each turn.
        prompts: Texts of the system prompts.
        names: Names that messages give the assistant, at most one.
        counts: What is not text -> how often it occurs: ``{"tool calls": 2}``.
    """

    def __init__(self) -> None:
        self.turns: list[tuple[Role, list[str]]] = []
        self.prompts: list[str] = []
        self.names: set[str] = set()
        self.counts: Counts = Counter()

    def add(self, field: str, message: Any) -> None:
        """Adds one ``message``.

        Args:
            field: Path of the message in the row, which an error names.

        Raises:
            RecordError: The role or the content cannot be read.
        """
        role, parts = parse_message(field, message)
        texts = []
        has_call = False
        for kind, content in parts:
            if kind in _UNSEEN:
                self.counts[kind] += 1
                has_call = has_call or kind != THOUGHTS
            elif kind != "text":
                self.counts[f"parts shown as [{kind}]"] += 1
                texts.append(f"[{kind}]")
            if content.strip():
                texts.append(content)
        if role == "system":
            self.prompts += texts
        elif role == "user" and texts:
            self._add_or_extend_turn("user", texts)
        elif role == "assistant" and (texts or not has_call):
            self._add_assistant_name(field, message)
            self._add_or_extend_turn("assistant", texts)

    def fill_models_and_context(
        self, models: dict[str, Any], context: dict[str, Any]
    ) -> None:
        """Adds the assistant's name to ``models`` and the system prompts to ``context``, two fields
        of a Dialogue.

        Args:
            models: Role -> name of the speaker. A name that the assistant already has is kept.
            context: ``system_prompt`` -> text. An earlier text is kept before the chat's prompts.
        """
        for name in self.names:
            models["assistant"] = models.get("assistant") or name
        if self.prompts:
            earlier_prompt = context.get(SYSTEM_PROMPT)
            if earlier_prompt:
                self.prompts.insert(0, str(earlier_prompt))
            context[SYSTEM_PROMPT] = "\n".join(self.prompts)

    def _add_or_extend_turn(self, role: Role, texts: list[str]) -> None:
        """Adds ``texts`` to the last turn if it has the same ``role``, otherwise as a new turn."""
        if self.turns and self.turns[-1][0] == role:
            self.turns[-1][1].extend(texts)
        else:
            self.turns.append((role, texts))

    def _add_assistant_name(self, field: str, message: Record) -> None:
        """Adds the name of the assistant, or of its model, in ``message``. Raises RecordError that
        names ``field`` if an earlier message has another name."""
        for column in ("name", "model"):
            name = number_as_text(message.get(column))
            if name is not None and parse_text(f"{field}.{column}", name).strip():
                self.names |= {name} - ROLE_WORDS.keys()
                break
        if len(self.names) > 1:
            expected = f"one assistant per chat, not {' and '.join(sorted(self.names))}"
            raise RecordError(f"{field}.name", expected, message)


def parse_message(field: str, message: Any) -> tuple[str, list[Part]]:
    """Splits ``message`` into its role and the parts of its content.

    Args:
        field: Name of the message in errors, such as ``messages[3]``.
        message: An object with ``role`` and ``content``.

    Returns:
        The role, which is ``user``, ``assistant``, ``system``, ``tool`` or ``call`` (a tool call).
        Then a (kind, text) pair for each part, such as ``("text", "Hi!")`` or ``("image", "")``.
        Thoughts and tool calls have an empty text.

    Raises:
        RecordError: The message is not an object, or its role or the type of a part is unknown.
    """
    if not isinstance(message, Mapping):
        raise RecordError(field, "an object with role and content", message)
    word = message.get("role")
    if word is None and _part_kind(message.get("type")):
        # an item of OpenAI's Responses, which has no role
        return "assistant", list(_parts(field, message))
    role = ROLE_WORDS.get(str(word).strip().lower())
    if role is None:
        expected = "user, assistant, system, developer, tool (human, gpt, bot, ... too)"
        raise RecordError(f"{field}.role", expected, word)
    if role in ("tool", "call"):
        return role, [(_RESULTS if role == "tool" else _CALLS, "")]
    parts = list(_parts(f"{field}.content", message.get("content")))
    if role == "assistant":
        parts = [*_split_thoughts(parts), *_parts_beside_content(field, message)]
    return role, parts


def _split_thoughts(parts: Sequence[Part]) -> Iterator[Part]:
    """Yields ``parts``, the (kind, text) pairs of an answer, with thoughts (text between think
    tags) removed from the texts. Each thought becomes a part with an empty text."""
    for kind, content in parts:
        content, count = remove_thoughts(content)
        yield from [(THOUGHTS, "")] * count
        yield kind, content


def _parts_beside_content(field: str, message: Record) -> Iterator[Part]:
    """Yields (kind, text) for what an answer has in fields other than ``content``: a refusal,
    audio, thoughts and tool calls."""
    if message.get("refusal") is not None:
        yield "text", parse_text(f"{field}.refusal", message["refusal"])
    if isinstance(message.get("audio"), Mapping):
        yield from _parts(f"{field}.audio", {**message["audio"], "type": "audio"})
    if any(map(message.get, ("reasoning_content", "reasoning", "thinking"))):
        yield THOUGHTS, ""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list | tuple):
        raise RecordError(f"{field}.tool_calls", "a list of calls, or null", calls)
    if message.get("function_call") is not None:
        calls = [*calls, message["function_call"]]
    yield from [(_CALLS, "")] * len(calls)


def _parts(field: str, content: object) -> Iterator[Part]:
    """Yields (kind, text) for each part of ``content``: a string, an object with a type, a list of
    these, or None.

    Raises:
        RecordError: The type of a part is unknown.
    """
    content = number_as_text(content)
    if content is None:
        return
    if isinstance(content, str):
        yield "text", parse_text(field, content)
    elif isinstance(content, list | tuple):
        for index, part in enumerate(content):
            if isinstance(part, list | tuple):
                expected = "a part: a text, or an object with a type"
                raise RecordError(f"{field}[{index}]", expected, part)
            yield from _parts(f"{field}[{index}]", part)
    elif isinstance(content, Mapping):
        yield from _part_of_object(field, content)
    else:
        raise RecordError(field, "a text, a list of parts, or null", content)


def _part_of_object(field: str, part: Record) -> Iterator[Part]:
    """Yields the one (kind, text) of ``part``, an object with a
    type: ``{"type": "text", "text": "Hi!"}``.

    Args:
        field: Path of ``part`` in the row, which an error names.

    Raises:
        RecordError: The type is unknown.
    """
    kind = _part_kind(part.get("type", "text" if "text" in part else None))
    if kind is None:
        examples = "text, image_url, input_audio, file, tool_use, tool_result, ..."
        expected = f"a part of a known type ({examples})"
        raise RecordError(f"{field}.type", expected, part.get("type"))
    if kind in _UNSEEN:
        yield kind, ""
        return
    names = ["transcript"]
    if kind == "text":
        names = ["text", "content", "refusal"]
    for name in names:
        if part.get(name) is not None:
            yield kind, parse_text(f"{field}.{name}", number_as_text(part[name]))
            return
    if kind == "text":
        raise RecordError(f"{field}.text", "a text", None)
    yield kind, ""


def _part_kind(type_name: object) -> str | None:
    """Returns the kind of a part with type ``type_name``: ``image`` for ``image_url``. Returns None
    if the type is unknown."""
    name = str(type_name)
    if name in _KINDS:
        return _KINDS[name]
    for ending, kind in _ENDINGS.items():
        if name.endswith(ending):
            return kind
    return None
