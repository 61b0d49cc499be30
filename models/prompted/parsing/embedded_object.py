"""Objects and lines that stand among other text of an answer: whose words they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from medal_judges.models.prompted.parsing.candidates import quotations, reported

_FENCE = re.compile(r"```\w{0,12}")
_LONGEST_LINE = 2_000


def is_quoted(text: str, start: int, end: int) -> bool:
    """Whether the object at [start, end) stands between quotation marks, on a line marked as a
    quotation, or is introduced as what somebody else said or wants."""
    first = text.rfind("\n", 0, start) + 1
    before = _FENCE.sub("", text[:start])
    after = text[end : end + 400].split("\n", 1)[0]
    marks = text[start - 1 : start] + text[end : end + 1]
    if (
        len(marks) == 2
        and marks in ('""', "''", "“”", "«»", "「」")
        and text.strip() != marks[0] + (text[start:end] + marks[1])
    ):
        return True
    if text[first:start].lstrip().startswith(">"):
        return True
    lead = before.rstrip()[-400:]
    here = text[first:start].strip(" `\t") != ""  # on the line of other words
    if here or lead.endswith((":", "：")):
        return reported(re.split(r"[.!?。！？]\s|\n", lead)[-1]) or (here and reported(f" {after}"))
    return reported(after) if after.strip(" `.") else False


def without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """``text`` with blanks for what stands in ``spans`` and for the fences of code."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return _FENCE.sub(lambda m: " " * len(m[0]), text)


def opening_brace(text: str) -> int | None:
    """Where the object opens that the answer begins with (a fence aside); None without one."""
    m = re.match(r"\s{0,100}(?:```\w{0,12}\s{0,20})?(?=\{)", text)
    return None if m is None else m.end()


def lines_of(text: str, names: Sequence[str]) -> list[str]:
    """What stands behind the name and a colon (or a dash), on each line that begins with one of
    ``names``. Lines that quote are left out, and what is behind a line's first 2,000 characters."""
    told = "|".join(re.escape(n.replace("_", " ")).replace(r"\ ", r"[\s_]{1,3}") for n in names)
    line = re.compile(
        rf"(?P<before>[^\w\n]{{0,12}}(?:\d{{1,2}}[^\w\n]{{1,6}})?)(?:{told})(?P<close>[^\w\n:=：→]{{0,6}}?)"
        r"(?:[:=：→]|\s[-–]\s)(?P<rest>[^\n]*)",
        re.IGNORECASE,
    )
    quoted = [(a, b) for a, b in quotations(text) if "\n" not in text[a:b]]
    rests: list[str] = []
    position = 0
    for each in text.split("\n"):
        m = line.match(each[:_LONGEST_LINE])
        begin = position + (m.start("rest") if m else 0)
        if m and ">" not in m["before"] and not any(a <= begin < b for a, b in quoted[:200]):
            rests.append(m["rest"])
        position += len(each) + 1
    return rests
