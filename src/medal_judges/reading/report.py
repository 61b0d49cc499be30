"""ReadingReport: what was read, folded and skipped while chats were read."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from medal_judges.errors import CoverageError, DataError, visible
from medal_judges.reading.options import ReadOptions
from medal_judges.storage.files import require_other_file
from medal_judges.storage.jsonl import open_text, to_line

# What differs from row to row in a problem: an index, a place in the text.
_PLACE = re.compile(r"\[\d+\]|\b(column|character|line|row|lines|rows) [\d,]+")
_SHOWN = 5


@dataclass(slots=True)
class ReadingReport:
    """Counts of one reading: ``read`` dialogues by ``forms``; rows ``left_out`` by reason;
    ``folded``: what of messages is not text of user or assistant; ids ``made`` from the content,
    and ``numbered`` because an earlier row has them.

    The first ``keep`` problems (None: all) are in ``messages``; all of them go to the file
    ``listed``, JSON lines of file, line (a table's row) and problem, which replaces the list of an
    earlier run. ``strict``: a bad row is an error.
    """

    listed: Path | None = None
    keep: int | None = 20
    strict: bool = False
    read: int = 0
    made: int = 0
    numbered: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    folded: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.listed is not None and not self.strict:
            self.listed.unlink(missing_ok=True)

    @property
    def count(self) -> int:
        """Number of skipped rows."""
        return self.left_out.total()

    def add(self, error: DataError) -> None:
        """Counts and lists a row that is skipped."""
        reason = _PLACE.sub(r"\1 N", error.problem.split(", got ")[0])[:200]
        if reason not in self.left_out and len(self.left_out) >= 1000:  # hostile keys
            reason = "other problems"
        self.left_out[reason] += 1
        if self.keep is None or len(self.messages) < self.keep:
            self.messages.append(error.message)
        if self.listed is not None:
            entry = {"file": error.path, "line": error.line, "problem": error.problem}
            self.listed.parent.mkdir(parents=True, exist_ok=True)
            with open_text(self.listed, "a") as stream:
                stream.write(to_line(entry))

    def show(self, *, always: bool = False) -> None:
        """Prints the summary on standard error: ``always``, or if any row was changed."""
        if always or self.count or self.folded or self.made or self.numbered:
            print(self.summary(), file=sys.stderr)

    def summary(self) -> str:
        """Returns what was read, folded and skipped, in lines for a terminal."""
        forms = ", ".join(
            name if len(self.forms) == 1 else f"{count:,} {name}"
            for name, count in self.forms.most_common()
        )
        lines = [f"{self.read:,} dialogues read" + (f" ({forms})" if forms else "")]
        lines[0] += f"; {self.count:,} bad rows left out" if self.count else ""
        if self.folded:
            lines.append("folded: " + ", ".join(f"{n:,} {w}" for w, n in self.folded.most_common()))
        if self.made:
            lines.append(f"{self.made:,} ids made from the content: there were none")
        if self.numbered:
            lines.append(f"{self.numbered:,} ids numbered (ID#2): an earlier row had them")
        lines += [f"{n:,} x {why}" for why, n in self.left_out.most_common(_SHOWN)]
        if (more := len(self.left_out) - _SHOWN) > 0:
            lines.append(f"and {more} other reasons")
        if self.listed is not None and self.count:
            lines.append(f"all of them are listed in {self.listed}")
        elif self.listed is None:
            lines += self.messages
            if (more := self.count - len(self.messages)) > 0:
                lines.append(f"and {more:,} more")
        return visible("\n  ".join(lines))

    def require_rest(self) -> None:
        """Raises CoverageError (exit code 3) if every row is bad."""
        if self.count and not self.read:
            hint = f"the first: {self.messages[0]}" if self.messages else None
            raise CoverageError(f"all {self.count} rows are bad and were left out", hint=hint)


def reading_report(
    options: ReadOptions, listed: Path | None = None, inputs: Iterable[str | Path] = ()
) -> ReadingReport:
    """Returns the report of a command: bad rows go to the file ``listed``, without one all of them
    to standard error. Raises ConfigError if ``listed`` is one of ``inputs``."""
    if listed is None or options.strict:
        return ReadingReport(keep=None, strict=options.strict)
    require_other_file(listed, inputs, option="the list of bad rows")
    return ReadingReport(listed)


def list_beside(out: str | Path) -> Path:
    """Returns ``scored.skipped.jsonl`` for ``scored.jsonl``, ``scored.jsonl.gz``, ..."""
    target = Path(out)
    stem = re.sub(r"(\.jsonl|\.parquet|\.csv)?(\.gz)?\Z", "", target.name)
    return target.with_name(f"{stem}.skipped.jsonl")
