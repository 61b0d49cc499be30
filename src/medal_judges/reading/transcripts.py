"""Chats as plain text: lines such as ``User: Hi!``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO

from medal_judges.errors import ConfigError, RecordError
from medal_judges.reading.messages import ROLE_WORDS

_MOST = 64_000_000  # characters of a file, which is read whole
# A name of at most 40 characters and a colon, bold or not; the wide colon is Chinese and Japanese.
_LABELLED = re.compile(
    r"\s*(?:\*\*)?(?P<name>[^\W\d_][\w .'()-]{0,39}?)(?:\*\*)?\s?(?::(?=\s|\*|$)|：)(?:\*\*)?\s*"
    r"(?P<text>.*)",
    re.DOTALL,
)
_RULE = re.compile(r"\s*([-=*_#~])\1{2,}\s*")


def begins_transcript(line: str) -> bool:
    """Whether a file that begins with ``line`` may be a transcript."""
    return _LABELLED.match(line) is not None


def is_transcript(value: object) -> bool:
    """Whether a cell holds a transcript: it begins with a known word for a speaker."""
    if not isinstance(value, str):
        return False
    found = _LABELLED.match(value.lstrip().partition("\n")[0])
    return found is not None and found["name"].strip().lower() in ROLE_WORDS


def transcript_rows(stream: IO[str]) -> Iterator[tuple[int, object]]:
    """Yields the chats of a file with their first lines, each as ``{"transcript": text}``. Lines of
    dashes (``---``, ``===``, ``***``) separate chats."""
    text = stream.read(_MOST + 1)
    if len(text) > _MOST:
        raise ConfigError(f"a transcript of more than {_MOST:,} characters", hint="cut it in parts")
    first, part = 0, ""
    for number, line in enumerate([*text.splitlines(), "---"], 1):
        if _RULE.fullmatch(line):
            if part:
                yield first, {"transcript": part}
            part = ""
        elif part or line.strip():
            first = first if part else number
            part += f"{line}\n"


def messages_of_transcript(text: str, roles: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns messages of ``role`` (the speaker's word) and ``content``.

    A line begins a turn if its word is one for a speaker, by itself or by ``roles`` (``Note: ...``
    in an answer is not); other lines belong to the turn before. Raises RecordError if no user or no
    assistant is known.
    """
    known: dict[str, str] = {word.lower(): role for word, role in {**ROLE_WORDS, **roles}.items()}
    names: dict[str, None] = {}
    messages: list[dict[str, str]] = []
    for line in text.splitlines():
        found = _LABELLED.match(line)
        name = found["name"].strip() if found else ""
        if found:
            names[name] = None
        if found and name.lower() in known:
            messages.append({"role": name, "content": found["text"]})
        elif messages:
            messages[-1]["content"] += f"\n{name}: {found['text']}" if found else f"\n{line}"
    if not {"user", "assistant"} <= {known.get(name.lower()) for name in names}:
        pairs = zip((*names, "Anna", "Bot")[:2], ("user", "assistant"), strict=True)
        hint = " ".join(f'--role "{name}={role}"' for name, role in pairs)
        expected = f"at least one speaker known as a user and one as an assistant ({hint})"
        raise RecordError("speaker", expected, ", ".join([*names][:9]))
    return [message | {"content": message["content"].strip()} for message in messages]
