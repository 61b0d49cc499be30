"""Comparison of two records of tests/pins.py: what differs, one line a difference."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path
from typing import Any

# Name in the old record: name in the new one, of JSON fields and values, CSV files and sections of
# the page.
RENAMED: dict[str, str] = {
    "within": "within_system",
    "planted": "injected",
    "table-planted-issues-planted": "table-injected-issues-injected",
    "table-planted-issues-planted.csv": "table-injected-issues-injected.csv",
}
# What one record need not share with the next.
IGNORED = {
    *("seconds", "version", "judge_version", "signature"),
    *("title", "columns", "note", "reason", "clusters", "facts"),
    "cascades",  # dropped; the list was empty
}
IGNORED_SECTIONS = {"facts", "signatures", "dimensions"}  # dimensions: repeated the leaderboard
# Only in the old record: results.json has what they held.
IGNORED_TABLES = {
    *("calibration.csv", "cascades.csv", "ceilings.csv", "counts.csv", "disagreements.csv"),
    *("facts.csv", "points.csv", "signatures.csv", "systems.csv"),
}
TOLERANCE = 1e-6


def values(old: Any, new: Any, place: str) -> Iterator[str]:
    """Differences of two JSON values, one line each. ``failure`` only has to be there or not."""
    if isinstance(old, dict) and isinstance(new, dict):
        old = {key if key in new else RENAMED.get(key, key): value for key, value in old.items()}
        for key in [*old, *(key for key in new if key not in old)]:
            if key in IGNORED:
                continue
            if key not in old or key not in new:
                yield f"{place}.{key}: only in {'NEW' if key in new else 'OLD'}"
            elif key == "failure":
                yield from values(old[key] is None, new[key] is None, f"{place}.{key} is null")
            else:
                yield from values(old[key], new[key], f"{place}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{place}: {len(old)} values became {len(new)}"
        for index, (left, right) in enumerate(zip(old, new, strict=False)):
            yield from values(left, right, f"{place}[{index}]")
    elif is_number(old) and is_number(new):
        if not math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield f"{place}: {old} became {new} ({new - old:+.2g})"
    elif old != new and not (isinstance(old, str) and RENAMED.get(old) == new):
        yield f"{place}: {shortened(old)} became {shortened(new)}"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def json_files(old: Path, new: Path) -> Iterator[str]:
    read = (json.loads(path.read_text(encoding="utf-8")) for path in (old, new))
    return values(*read, old.name)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def row_files(old: Path, new: Path, *, in_order: bool = True) -> Iterator[str]:
    """Line by line; the lines of one dialogue together where the order between them is free."""
    left, right = rows(old), rows(new)
    if not in_order:  # a stable sort: what was asked of one dialogue stays in its order
        left, right = (sorted(each, key=lambda row: str(row["id"])) for each in (left, right))
    for number, (one, other) in enumerate(zip_longest(left, right), 1):
        if one is None or other is None:
            yield f"{old.name}: {len(left)} lines became {len(right)}"
            return
        place = f"{old.name}:{number} {one.get('id')}"
        # The judge of a judgement is its signature.
        drop = {"judge"} if "scores" in one else set()
        kept = [{k: v for k, v in row.items() if k not in drop} for row in (one, other)]
        yield from values(*kept, place)


NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?")


class PageNumbers(HTMLParser):
    """The numbers in tables, captions, tooltips of charts and disagreements, by section.

    Sentences and axes are left out: the former may be reworded, the latter drawn otherwise.
    """

    SHOWING = ("td", "th", "figcaption", "title", "dd")

    def __init__(self) -> None:
        super().__init__()
        self.sections: dict[str, Counter[str]] = {}
        self.section = ""
        self.inside: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "section":
            self.section = dict(attrs).get("id") or ""
        self.inside[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self.inside[tag] -= 1

    def handle_data(self, data: str) -> None:
        whole = self.section == "disagreements"
        if self.section and (whole or any(self.inside[tag] > 0 for tag in self.SHOWING)):
            numbers = self.sections.setdefault(self.section, Counter())
            numbers.update(NUMBER.findall(data))


def page_numbers(path: Path) -> dict[str, Counter[str]]:
    parser = PageNumbers()
    parser.feed(path.read_text(encoding="utf-8"))
    return {k: v for k, v in parser.sections.items() if k not in IGNORED_SECTIONS}


def table_numbers(folder: Path) -> dict[str, list[float]]:
    """Of each CSV file the numbers with decimals below its headings, in ascending order."""
    tables = {}
    for path in sorted(folder.glob("*.csv")):
        if path.name not in IGNORED_TABLES:
            _, _, body = path.read_text(encoding="utf-8").partition("\n")
            tables[path.name] = sorted(map(float, re.findall(r"-?\d+\.\d+(?:e-\d+)?", body)))
    return tables


def counted(old: dict[str, Counter[str]], new: dict[str, Counter[str]]) -> Iterator[str]:
    """Numbers that one page shows and the other does not, by section."""
    old = {RENAMED.get(name, name): numbers for name, numbers in old.items()}
    for name in sorted({*old, *new}):
        if name not in old or name not in new:
            yield f"the page, {name}: only in {'NEW' if name in new else 'OLD'}"
            continue
        for side, extra in (("OLD", old[name] - new[name]), ("NEW", new[name] - old[name])):
            if extra:
                few = ", ".join(list(extra)[:8])
                yield f"the page, {name}: {extra.total()} numbers only in {side}: {few}"
