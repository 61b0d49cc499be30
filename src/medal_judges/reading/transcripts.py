"""Transcripts: chats as text, with a line such as ``User: Hi!`` for each turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from medal_judges.errors import ConfigError, RecordError
from medal_judges.reading.names import OTHERS, ROLE_WORDS, Fields
from medal_judges.reading.thoughts import thoughts_on_one_line

_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
# Characters without a sign: direction marks, zero-width spaces, byte-order marks, fillers, ...
_UNSEEN = (
    r"\u00ad\u034f\u061c\u115f\u1160\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800"
    r"\u3164\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef"
)
_SPACE = rf"[\s{_UNSEEN}]*"
_INVISIBLE = re.compile(rf"[{_UNSEEN}]")
_LEADING = re.compile(_SPACE)
# A line of a transcript: perhaps a time, a name of at most 40 characters and a colon, bold or not;
# the wide colon is Chinese and Japanese.
_SPOKEN = re.compile(
    rf"(?:[\[(]?(?P<time>{_DAY}[T ]{_CLOCK}Z?|{_CLOCK}(?:\s?[AaPp][Mm])?)[\])]?"
    rf"[\s,{_UNSEEN}-]{{0,40}})?(?:\*\*)?"
    rf"(?P<name>[^\W\d_][\w .'(){_UNSEEN}-]{{0,39}}?)(?:\*\*)?\s?"
    rf"(?::(?=\s|\*|$|[{_UNSEEN}])|：)(?:\*\*)?"
)
_RULES = tuple(mark * 3 for mark in "-=*_#~")


def _speaker(line: str) -> tuple[str, str, str | None] | None:
    """Returns the speaker, the text and the time of a line; None for a line without a speaker."""
    start = _LEADING.match(line)
    assert start is not None  # it matches an empty text
    match = _SPOKEN.match(line, start.end())
    if match is None:
        return None
    name = _INVISIBLE.sub("", match["name"]).strip()
    return name, line[match.end() :].lstrip(), match["time"]


def is_transcript(text: str) -> bool:
    """Says whether the first line is a line of a speaker in ROLE_WORDS."""
    spoken = _speaker(text.lstrip().partition("\n")[0])
    return spoken is not None and spoken[0].lower() in ROLE_WORDS


def begins_transcript(line: str) -> bool:
    """Says whether a line has a speaker, known or not, or separates chats."""
    return _speaker(line) is not None or _heading(line) is not None


def _heading(line: str) -> str | None:
    """Returns the heading in a line such as ``=== Chat 2 ===``, an empty text for ``---``, and None
    for any other line."""
    text = line.strip()
    if not text.startswith(_RULES):
        return None
    heading = text.strip(text[0])
    if heading and text[0] not in "-=":
        return None
    return heading.strip("-= ")


def chats_of_transcript(
    text: str, roles: Mapping[str, str]
) -> Iterator[tuple[int, Fields]]:
    """Yields each chat of a file as (number of its first line, ``{"transcript": text}``), with the
    ``heading`` of the line before it.

    A line such as ``---``, or ``=== Chat 2 ===``, separates two chats if the next line is that of a
    speaker in ``ROLE_WORDS`` or ``roles`` or of the first one in the file; a heading (``# Chat 2``)
    may be between. Any other such line is text of an answer.
    """
    lines = text.splitlines()
    separators = _separators(lines, roles)
    first = 0
    chat: list[str] = []
    heading: Fields = {}
    for number, line in enumerate([*lines, ""], 1):
        if chat and (number in separators or number > len(lines)):
            yield first, {"transcript": "\n".join(chat)} | heading
            chat = []
        if number in separators:
            words = _heading(line)
            heading = {}
            if words:
                heading["heading"] = words
        elif chat or line.strip():
            if not chat:
                first = number
            chat.append(line)


def _separators(lines: Sequence[str], roles: Mapping[str, str]) -> set[int]:
    """Returns the numbers of the lines that separate chats."""
    names: list[str | None] = []
    for line in lines:
        spoken = _speaker(line)
        name = None
        if spoken:
            name = spoken[0].lower()
        names.append(name)
    speakers = {*ROLE_WORDS, *roles, *names[:1]} - {None}
    separators = set()
    # Whether a speaker is next: at once, or after lines such as ``Date: ...``.
    follows, follows_later = True, True
    for number, name in reversed([*enumerate(names, 1)]):
        line = lines[number - 1]
        heading = _heading(line)
        if heading is not None:
            if follows or (follows_later and heading):
                separators.add(number)
        elif name in speakers:
            follows = follows_later = True
        elif line.strip() and not line.startswith("#"):
            follows = False
            follows_later = follows_later and name is not None
    return separators


def messages_of_transcript(text: str, roles: Mapping[str, str]) -> list[Fields]:
    """Returns messages with ``role``, ``content`` and perhaps ``time``.

    A line begins a turn if its first word is a known name of a speaker or is in ``roles``; other
    lines (``Note: ...`` in an answer) belong to the turn before. Raises RecordError if the user or
    the assistant is missing.
    """
    if OTHERS in roles:
        problem = (
            "the role '*=...' is not for transcripts, where any line may have a colon"
        )
        raise ConfigError(problem, hint="name each speaker: --role Anna=user")
    role_by_name = {**ROLE_WORDS, **roles}
    names: dict[str, None] = {}
    messages: list[Fields] = []
    texts: list[list[str]] = []  # of each message
    for line in thoughts_on_one_line(text).splitlines():
        spoken = _speaker(line)
        if spoken:
            name, content, time = spoken
            names[name] = None
            if name.lower() in role_by_name:
                messages.append({"role": role_by_name[name.lower()], "time": time})
                texts.append([content])
                continue
        if texts:
            texts[-1].append(line)
    if not {"user", "assistant"} <= {message["role"] for message in messages}:
        pairs = zip((*names, "Anna", "Bot")[:2], ("user", "assistant"), strict=True)
        hint = " ".join(f'--role "{name}={role}"' for name, role in pairs)
        expected = (
            f"at least one speaker known as a user and one as an assistant ({hint})"
        )
        raise RecordError("speaker", expected, ", ".join([*names][:9]))
    for message, lines in zip(messages, texts, strict=True):
        message["content"] = "\n".join(lines).strip()
    return messages
