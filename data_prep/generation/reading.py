"""Reads agents' answers: an utterance, the mark that ends a dialogue, the user judge's verdict."""

from __future__ import annotations

import re
from dataclasses import dataclass

from medal_judges.models.prompted.answers import after_thinking

END_OF_DIALOGUE = "END_OF_DIALOGUE"
# Anywhere as the prompt writes it, also with its underscores escaped or left out; in small letters
# and without them only where nothing else is said, since people do speak of the end of dialogue.
_MARK = (
    r"(?:END(?:\\?[\s_-]){1,9}OF(?:\\?[\s_-]){1,9}DIALOGUE"
    r"|(?i:end(?:\\?_){1,9}of(?:\\?_){1,9}dialogue))"
)
_ALONE = r"\A\W{0,20}(?i:end\s{1,9}of\s{1,9}dialogue)\W{0,20}\Z"
# What encloses the mark goes with it, what stands apart from it stays.
_END = re.compile(
    rf"{_ALONE}|\s{{0,20}}[*_`\"'(\[{{<]{{0,9}}(?<![A-Za-z]){_MARK}(?![A-Za-z])[*_`\"')\]}}>]*[.!]?\s*"
)
_LABEL = re.compile(r"\A(?:\*\*)?(?:user|human)(?:\*\*)?\s*[:\uff1a]\s*(?:\*\*)?\s*", re.IGNORECASE)
_QUOTES = {'"': '"', "“": "”", "«": "»", "„": "“", "「": "」"}
_VERDICT = re.compile(
    r"\A[\s*_`\"'([]*(yes|no)\b[\s*_`\"')\]]*[.,:;!\-–—\u3002\uff0c\uff1a\uff01]*\s*", re.IGNORECASE
)
_FIELDS = re.compile(r'\A\{\s*"verdict"\s*:\s*"(Yes|No)"\s*(?:,\s*"reason"\s*:\s*"([^"]*))?')


@dataclass(frozen=True, slots=True)
class Utterance:
    """What is left of an answer as a message; ``ends`` says that it held END_OF_DIALOGUE."""

    text: str
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reason`` is the judge's own, empty where it accepts. An answer that is neither yes nor no
    is a rejection that is not ``readable``: nothing says that the utterance is fit."""

    accepted: bool
    reason: str = ""
    readable: bool = True


def read_utterance(answer: str) -> Utterance:
    """The message in a user agent's answer: without a label such as ``user:`` before it and
    quotation marks around it. Only a whole label goes: letters of the message never do."""
    text = _bare(without_thinking(answer))
    ends = _END.search(text) is not None
    if ends:
        text = _bare(_END.sub(" ", text).strip())
    return Utterance(text, ends)


def _bare(text: str) -> str:
    text = _LABEL.sub("", text, count=1)
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    return text


def read_verdict(answer: str) -> Verdict:
    """``Yes.`` accepts; ``No. reason`` rejects (MEDAL, Table 10). So do the two fields of a JSON
    object, also of one that was cut behind the verdict."""
    text = without_thinking(answer)
    if (fields := _FIELDS.match(text)) is not None:
        text = f"{fields[1]}. {fields[2] or ''}"
    verdict = _VERDICT.match(text)
    if verdict is None:
        return Verdict(False, " ".join(text.split()), readable=False)
    if verdict[1].lower() == "yes":
        return Verdict(True)
    return Verdict(False, " ".join(text[verdict.end() :].split()))


def without_thinking(answer: str) -> str:
    """What follows the reasoning of a model that thinks aloud; empty where the reasoning has no
    end. Nothing else is removed: this is all that is done to a chatbot's answer."""
    rest = after_thinking(answer)
    return "" if rest is None else rest[0].strip()
