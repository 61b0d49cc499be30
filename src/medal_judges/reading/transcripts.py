"""Transcripts: chats as text, with a line such as ``User: Hi!`` for each turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from medal_judges.errors import ConfigError, RecordError
from medal_judges.reading.names import OTHERS, ROLE_WORDS, Fields
from medal_judges.reading.thoughts import join_thought_lines

_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
# Characters without a sign: controls, direction marks, zero-width spaces, byte-order marks,
# fillers, ...
_UNSEEN = (
    r"\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U00013430-\U0001345f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e01ef"
)
_INVISIBLE = re.compile(rf"[{_UNSEEN}]")
# A line of a transcript: perhaps a time, a name of at most 40 characters and a colon, bold or not;
# the wide colon is Chinese and Japanese.
_SPOKEN = re.compile(
    rf"[\s{_UNSEEN}]*(?:[\[(]?(?:{_DAY}[T ]{_CLOCK}Z?|{_CLOCK}(?:\s?[AaPp][Mm])?)[\])]?"
    rf"[\s,{_UNSEEN}-]{{0,40}})?(?:\*\*)?"
    rf"(?P<name>[^\W\d_][\w .'(){_UNSEEN}-]{{0,39}}?)(?:\*\*)?\s?"
    rf"(?::(?=\s|\*|$|[{_UNSEEN}])|：)(?:\*\*)?"
)
_RULE = re.compile(r"\s*([-=*_#~])\1\1")


def _split_speaker(line: str) -> tuple[str, str] | None:
    """Returns the speaker and the text of ``line``, None if it has no speaker."""
    match = _SPOKEN.match(line)
    if match is None:
        return None
    name = _INVISIBLE.sub("", match["name"]).strip()
    return name, line[match.end() :].lstrip()


def begins_with_role(text: str) -> bool:
    """Returns whether ``text`` begins with a usual name of a speaker and a colon, such as
    ``User: Hi!`` or ``Bot: Hello!``."""
    spoken = _split_speaker(text.lstrip().partition("\n")[0])
    return spoken is not None and spoken[0].lower() in ROLE_WORDS


def may_begin_transcript(line: str) -> bool:
    """Returns whether ``line`` begins with any name and a colon, such as ``Anna: Hi!``, or is a
    separator such as ``---``."""
    return _split_speaker(line) is not None or _RULE.match(line) is not None


def split_into_chats(
    text: str, roles: Mapping[str, str]
) -> Iterator[tuple[int, Fields]]:
    """Splits ``text``, a file of transcripts, into chats at separators such as ``---`` or
    ``=== Chat 2 ===``.

    A separator counts only if the next line is a message of a known speaker (``User: ...``). Blank
    lines and headings (``# ...``) between the two are ignored.

    Args:
        text: The content of the file.
        roles: Speaker's name in lower case -> role, such as ``{"kunde": "user"}``. Usual names such
            as ``human`` are known without it.

    Yields:
        (line number from 1 at which the chat begins, ``{"messages": text of the chat}``)
    """
    speakers = {*ROLE_WORDS, *roles}
    lines = text.splitlines()
    starts = [len(lines)]  # line before the first one of each chat, the last chat first
    follows = False  # whether a known speaker's line is next
    for number, line in reversed([*enumerate(lines, 1)]):
        spoken = _split_speaker(line)
        if follows and _RULE.match(line):
            starts.append(number)
        if spoken is not None and spoken[0].lower() in speakers:
            follows = True
        elif line.strip() and not line.startswith("#"):
            follows = False
    starts.append(0)
    starts.reverse()
    for start, end in pairwise(starts):
        chat = lines[start:end]
        if end < len(lines):
            chat.pop()  # the line that separates
        if any(map(str.strip, chat)):
            yield start + 1, {"messages": "\n".join(chat)}


def parse_transcript(text: str, roles: Mapping[str, str]) -> list[Fields]:
    """Returns the messages in ``text``, each as ``{"role": "user", "content": "Hi!"}``.

    A line without a known speaker (``Note: ...``) continues the message before it. Lines before the
    first message are ignored.

    Args:
        text: The transcript of one chat, with a line such as ``User: Hi!`` for each message.
        roles: Speaker's name in lower case -> role, such as ``{"kunde": "user"}``. Usual names such
            as ``human`` are known without it.

    Raises:
        RecordError: The user or the assistant has no message.
        ConfigError: ``roles`` has the name ``*``, which stands for all unknown speakers. Every line
            with a colon would become a message.
    """
    if OTHERS in roles:
        problem = (
            "the role '*=...' is not for transcripts, where any line may have a colon"
        )
        raise ConfigError(
            problem, hint="Type a role for each speaker: --role Anna=user"
        )
    role_by_name = {**ROLE_WORDS, **roles}
    names: dict[str, None] = {}
    messages: list[Fields] = []
    for line in join_thought_lines(text).splitlines():
        spoken = _split_speaker(line)
        if spoken is not None:
            names[spoken[0]] = None
        if spoken is not None and spoken[0].lower() in role_by_name:
            name, content = spoken
            messages.append({"role": role_by_name[name.lower()], "content": [content]})
        elif messages:
            messages[-1]["content"].append(line)
    if not {"user", "assistant"} <= {message["role"] for message in messages}:
        pairs = zip((*names, "Anna", "Bot")[:2], ("user", "assistant"), strict=True)
        hint = " ".join(f'--role "{name}={role}"' for name, role in pairs)
        expected = f"a user and an assistant among the speakers (type {hint})"
        raise RecordError("speaker", expected, ", ".join([*names][:9]))
    for message in messages:
        message["content"] = "\n".join(message["content"]).strip()
    return messages
