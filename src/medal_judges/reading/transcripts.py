"""Transcripts: chats as text, with a line such as ``User: Hi!`` for each turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from medal_judges.errors import ConfigError, RecordError
from medal_judges.reading.roles import OTHERS, ROLE_WORDS
from medal_judges.reading.thoughts import thoughts_on_one_line

_MOST = 64_000_000  # characters of a transcript file, which is read whole
_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
# A line of a transcript: perhaps a time, a name of at most 40 characters and a colon, bold or not;
# the wide colon is Chinese and Japanese.
SPOKEN = re.compile(
    rf"\s*(?:[\[(]?(?P<time>{_DAY}[T ]{_CLOCK}Z?|{_CLOCK}(?:\s?[AaPp][Mm])?)[\])]?[\s,-]*)?"
    r"(?:\*\*)?(?P<name>[^\W\d_][\w .'()-]{0,39}?)(?:\*\*)?\s?(?::(?=\s|\*|$)|：)(?:\*\*)?\s*"
    r"(?P<text>.*)",
    re.DOTALL,
)
RULE = re.compile(
    r"\s*(?:([-=*_#~])\1{2,}|([-=])\2{2,}\s*(?P<heading>.*?[^\s=-])[\s=-]*)\s*"
)


def speaker_of(line: str) -> str | None:
    """Returns the name before the colon, in lower case; None for a line without one."""
    match = SPOKEN.match(line)
    return match and match["name"].strip().lower()


def transcript_rows(
    stream: IO[str], roles: Mapping[str, str] = {}
) -> Iterator[tuple[int, object]]:
    """Yields each chat of a file as (number of its first line, ``{"transcript": text}``), with the
    ``heading`` of the line before it.

    A line such as ``---``, or ``=== Chat 2 ===``, separates two chats if the next line is that of a
    speaker in ``ROLE_WORDS`` or ``roles`` or of the first one in the file; a heading (``# Chat 2``)
    may be between. Else it is text of an answer. Raises ConfigError for a file that is too long.
    """
    text = stream.read(_MOST + 1)
    if len(text) > _MOST:
        raise ConfigError(
            f"a transcript of more than {_MOST:,} characters", hint="cut it in parts"
        )
    lines = text.splitlines()
    separators = _separators(lines, roles)
    first, chat = 0, ""
    heading: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if number in separators:
            if chat:
                yield first, {"transcript": chat} | heading
            rule = RULE.fullmatch(line)
            chat, heading = "", {}
            if rule and rule["heading"]:
                heading = {"heading": rule["heading"]}
        elif chat or line.strip():
            if not chat:
                first = number
            chat += f"{line}\n"
    if chat:
        yield first, {"transcript": chat} | heading


def _separators(lines: Sequence[str], roles: Mapping[str, str]) -> set[int]:
    """Returns the numbers of the lines that separate chats."""
    names = [speaker_of(line) for line in lines]
    speakers = {word.lower() for word in (*ROLE_WORDS, *roles)} | {*names[:1]} - {None}
    separators = set()
    # Whether a speaker is next: at once, or after lines such as ``Date: ...``.
    follows, follows_later = True, True
    for number, name in reversed([*enumerate(names, 1)]):
        line = lines[number - 1]
        rule = RULE.fullmatch(line)
        if rule:
            if follows or (follows_later and rule["heading"] is not None):
                separators.add(number)
        elif name in speakers:
            follows = follows_later = True
        elif line.strip() and not line.startswith("#"):
            follows = False
            follows_later = follows_later and name is not None
    return separators


def messages_of_transcript(text: str, roles: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns messages with ``role`` (the speaker's name in the text), ``content`` and perhaps
    ``time``.

    A line begins a turn if its first word is a known name of a speaker or is in ``roles``; other
    lines (``Note: ...`` in an answer) belong to the turn before. Raises RecordError if the user or
    the assistant is missing.
    """
    if OTHERS in roles:
        raise ConfigError(
            "the role '*=...' is not for transcripts, where any line may have a colon",
            hint="name each speaker: --role Anna=user (in YAML: columns.roles: {Anna: user})",
        )
    role_by_name: dict[str, str] = dict(ROLE_WORDS)
    for word, role in roles.items():
        role_by_name[word.lower()] = role
    names: dict[str, None] = {}
    messages: list[dict[str, str]] = []
    for line in thoughts_on_one_line(text).splitlines():
        match = SPOKEN.match(line)
        if match:
            name = match["name"].strip()
            names[name] = None
            if name.lower() in role_by_name:
                messages.append({"role": name, "content": match["text"]})
                if match["time"]:
                    messages[-1]["time"] = match["time"]
                continue
        if messages:
            messages[-1]["content"] += f"\n{line}"
    speaking = {role_by_name.get(name.lower()) for name in names}
    if not {"user", "assistant"} <= speaking:
        pairs = zip((*names, "Anna", "Bot")[:2], ("user", "assistant"), strict=True)
        hint = " ".join(f'--role "{name}={role}"' for name, role in pairs)
        expected = (
            f"at least one speaker known as a user and one as an assistant ({hint})"
        )
        raise RecordError("speaker", expected, ", ".join([*names][:9]))
    for message in messages:
        message["content"] = message["content"].strip()
    return messages
