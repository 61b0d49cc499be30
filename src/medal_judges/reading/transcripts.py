"""Chats as plain text: lines such as ``User: Hi!``, and what WhatsApp exports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from medal_judges.errors import ConfigError, RecordError
from medal_judges.reading.json_rows import NumberedRow
from medal_judges.reading.messages import ROLE_WORDS

_MOST = 64_000_000  # characters of a file, as of a JSON document: it is read whole
# "[01.10.26, 10:00:05] Anna: Hi" of an iPhone, "01/10/2026, 10:00 - Anna: Hi" of Android; marks of
# writing direction stand before some lines.
_STAMPED = re.compile(
    r"[\u200e\u200f\u202a\ufeff]*\[?\d{1,4}[./-]\d{1,2}[./-]\d{1,4},?\s+\d{1,2}[:.]\d{2}"
    r"(?:[:.]\d{2})?(?:\s?[AaPp]\.?\s?[Mm]\.?)?(?:\]\s*|\s+-\s+)(?P<said>.*)",
    re.DOTALL,
)
# A name of at most 40 characters and a colon, in bold type or not; the wide colon is Chinese and
# Japanese.
_LABELLED = re.compile(
    r"\s*(?:\*\*)?(?P<name>[^\W\d_][\w .'()-]{0,39}?)(?:\*\*)?\s?(?::(?=\s|\*|$)|：)(?:\*\*)?\s*"
    r"(?P<text>.*)",
    re.DOTALL,
)
_RULE = re.compile(r"\s*([-=*_#~])\1{2,}\s*")


def begins_transcript(line: str) -> bool:
    """Whether a file that begins with ``line`` may be a transcript."""
    return bool(_STAMPED.match(line) or _LABELLED.match(line))


def is_transcript(value: object) -> bool:
    """Whether a cell surely holds a transcript: it begins with a known word for a speaker, or with
    the time of a message."""
    if not isinstance(value, str):
        return False
    line = value.lstrip().partition("\n")[0]
    found = _LABELLED.match(line)
    known = found is not None and found["name"].strip().lower() in ROLE_WORDS
    return known or _STAMPED.match(line) is not None


def transcript_rows(stream: IO[str]) -> Iterator[NumberedRow]:
    """The chats of a file with the lines they begin on, each as ``{"transcript": text}``.

    Lines of dashes (``---``, ``===``, ``***``) part chats. Where there are none, blank lines do, if
    every part begins with a speaker and has two turns or more; else the file is one chat. Raises
    ConfigError for a file beyond 64 million characters.
    """
    text = stream.read(_MOST + 1)
    if len(text) > _MOST:
        raise ConfigError(f"a transcript of more than {_MOST:,} characters", hint="cut it in parts")
    lines = text.splitlines()
    parts = _parts(lines, lambda line: _RULE.fullmatch(line) is not None)
    if len(parts) == 1 and not any(map(_STAMPED.match, lines)):
        blocks = _parts(lines, lambda line: not line.strip())
        if all(_is_chat(block) for _, block in blocks):
            parts = blocks
    for number, part in parts:
        yield number, {"transcript": "\n".join(part)}


def _parts(lines: list[str], parting: Callable[[str], bool]) -> list[tuple[int, list[str]]]:
    """(Number of its first line, its lines) of each part between lines that are ``parting``."""
    parts: list[tuple[int, list[str]]] = []
    between = True
    for number, line in enumerate(lines, 1):
        if parting(line):
            between = True
        elif not between:
            parts[-1][1].append(line)
        elif line.strip():
            parts.append((number, [line]))
            between = False
    return parts


def _is_chat(block: list[str]) -> bool:
    labelled = [_LABELLED.match(line) is not None for line in block]
    return labelled[0] and sum(labelled) > 1


def messages_of_transcript(text: str, roles: Mapping[str, str]) -> list[dict[str, str]]:
    """Messages of ``role`` (the speaker's word, as it stands) and ``content``.

    With times, each line with a time is a message, or a notice of the app, which is left out, where
    it names nobody. Without, a line begins a turn where its word is one for a speaker, by itself or
    by ``roles`` (``Note: ...`` in an answer is none); other lines belong to the turn before. Raises
    RecordError where nobody is known to ask or nobody to answer, and with times also where a
    speaker is not known.
    """
    said = list(_lines(text))
    known: dict[str, str] = {word.lower(): role for word, role in ROLE_WORDS.items()}
    known |= {word.lower(): role for word, role in roles.items()}
    names = list(dict.fromkeys(name for name, _, _ in said if name))
    unknown = [n for n, _, sure in said if sure and n.lower() not in known]
    if unknown or not {"user", "assistant"} <= {known.get(name.lower()) for name in names}:
        pairs = zip((*names, "Anna", "Bot")[:2], ("user", "assistant"), strict=True)
        hint = " ".join(f'--role "{name}={role}"' for name, role in pairs)
        expected = f"speakers of whom it is known who asks and who answers ({hint})"
        raise RecordError("speaker", expected, ", ".join(names[:9]))
    messages: list[dict[str, str]] = []
    for name, content, _ in said:
        if name.lower() in known:
            messages.append({"role": name, "content": content})
        elif messages:
            messages[-1]["content"] += f"\n{name}: {content}" if name else f"\n{content}"
    return [message | {"content": message["content"].strip()} for message in messages]


def _lines(text: str) -> Iterator[tuple[str, str, bool]]:
    """(Who says it, or nothing; what; whether it surely is a message) of each line, notices of the
    app left out."""
    lines = text.splitlines()
    stamped = any(map(_STAMPED.match, lines))
    for line in lines:
        stamp = _STAMPED.match(line)
        found = _LABELLED.match(stamp["said"] if stamp else line)
        if found and (stamp or not stamped):
            yield found["name"].strip(), found["text"], stamp is not None
        elif not stamp:
            yield "", line, False
