"""Scoring a file: streaming in, appending out, going on after a kill."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import IO, Any, get_args

from medal_judges.dialogue import Dialogue
from medal_judges.errors import CoverageError, DataError, MedalError, RecordError
from medal_judges.jsonl import open_text, to_line
from medal_judges.judgement import Judgement, parse_judgement
from medal_judges.models.judge import Judge, ScoreLevel, items_of

_ANEW = "give another --out, or --overwrite to start anew"


@dataclass(slots=True)
class ScoreReport:
    """What a run did. Sums are per dimension over the scored rows; ``resumed`` counts judgements
    that stood in the file already and are part of every other figure; ``left_out`` counts bad
    lines, which nobody judged: each is one judgement that is missing."""

    total: int = 0
    scored: int = 0
    resumed: int = 0
    dialogues: int = 0
    left_out: int = 0
    truncated: int = 0
    truncated_turns: int = 0
    tokens: float = 0
    seconds: float = 0
    failures: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def coverage(self) -> float | None:
        """Share of judgements with a number in every dimension, bad lines left out counted as
        missing; None for an empty file."""
        asked = self.total + self.left_out
        return self.scored / asked if asked else None

    def add(self, judgement: Judgement) -> None:
        self.total += 1
        self.scored += judgement.scored
        self.truncated += judgement.truncated_turns > 0
        self.truncated_turns += judgement.truncated_turns
        self.tokens += judgement.usage.get("tokens", 0)
        if not judgement.scored:
            self.failures[judgement.failure or "no reason given"] += 1
        for name, value in judgement.scores.items():
            if value is not None:
                self.sums[name] = self.sums.get(name, 0.0) + value
                self.counts[name] += 1

    def require_coverage(self, floor: float) -> None:
        """Raise CoverageError (exit code 3) when coverage is under ``floor``."""
        if self.coverage is not None and self.coverage < floor:
            told = [(self.left_out, "bad line left out")] if self.left_out else []
            told += [(n, reason) for reason, n in self.failures.most_common(5)]
            reasons = "; ".join(f"{n} x {reason}" for n, reason in told)
            raise CoverageError(
                f"coverage {self.coverage:.1%} is under the floor of {floor:.0%}: {reasons}",
                hint="the judgements are written, unscored ones with their reason; "
                "--min-coverage sets the floor",
            )


@dataclass(frozen=True, slots=True)
class _Run:
    """What all lines of one file have in common: the judge's signature, and what it was asked."""

    judge: str
    dimensions: tuple[str, ...]
    level: ScoreLevel


def score_to_file(
    dialogues: Iterable[Dialogue],
    judge: Judge,
    out: Path,
    *,
    level: ScoreLevel = "dialogue",
    dimensions: Sequence[str] | None = None,
    token_budget: int | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ScoreReport:
    """Append a judgement line for every dialogue to ``out``, in input order; flushed by window.

    A file that stands there is gone on with: its complete lines are kept, a half-written last one
    is dropped, and dialogues judged already are passed over. Raises MedalError when those lines
    come from another judge or settings, are of other dimensions or another level, or do not match
    the input; ``out`` is then left as it is.
    """
    report = ScoreReport()
    out.parent.mkdir(parents=True, exist_ok=True)
    _require_judgements(out)
    names = judge._check_dimensions(dimensions)  # before anything of OUT is removed
    if overwrite:
        out.unlink(missing_ok=True)
    run = _Run(str(judge.signature()), tuple(names), level)
    iterator = _resume(_reading(dialogues, report, out), run, out, report, progress)
    report.resumed = report.total
    start = time.perf_counter()
    with open_text(out, "a") as stream:
        counted = _counted(iterator, report)
        for judgement in judge.score(
            counted,
            level=level,
            dimensions=dimensions,
            token_budget=token_budget,
            progress=progress,
        ):
            stream.write(to_line(judgement))
            report.add(judgement)
            _flush(stream, report, judge.window)
    report.seconds = time.perf_counter() - start
    return report


def _require_judgements(out: Path) -> None:
    """Raise MedalError when ``out`` is some other file: it must not be cut, nor removed.

    Its first complete line has to be a judgement; a file without one was cut in its first window.
    """
    if not out.exists() or out.stat().st_size == 0:
        return
    refusal = MedalError(
        f"{out} is there and is no file of judgements; it was left as it is",
        hint="give another --out",
    )
    with open(out, "rb") as raw:
        if (raw.read(2) == b"\x1f\x8b") != (out.suffix == ".gz"):
            raise refusal
    try:
        with open_text(out) as stream:
            line = stream.readline()
        if line.endswith("\n"):
            parse_judgement(json.loads(line))
        elif not line.startswith('{"id"') and line:
            raise refusal
    except (ValueError, RecordError) as error:
        raise refusal from error
    except (EOFError, OSError):  # a gzip member that a kill cut short
        return


def _reading(dialogues: Iterable[Dialogue], report: ScoreReport, out: Path) -> Iterator[Dialogue]:
    """``dialogues``; an error in their file also says what is kept and how to go on."""
    try:
        yield from dialogues
    except DataError as error:
        kept = f"{report.total} judgements made before it are kept in {out}"
        if report.total:
            error.hint = f"{error.hint}\n  {kept}; the same command then goes on after them"
        raise


def _counted(dialogues: Iterator[Dialogue], report: ScoreReport) -> Iterator[Dialogue]:
    for dialogue in dialogues:
        report.dialogues += 1
        yield dialogue


def _flush(stream: IO[str], report: ScoreReport, window: int) -> None:
    # Every line would cost half the speed of a fast judge; a window is what a kill may lose.
    if report.total % min(window, 64) == 0:
        stream.flush()


def _resume(
    dialogues: Iterator[Dialogue],
    run: _Run,
    out: Path,
    report: ScoreReport,
    progress: Callable[[int], None] | None,
) -> Iterator[Dialogue]:
    """Add what stands in ``out`` to ``report``; returns the dialogues that are left to judge.

    What is kept is copied beside and takes the place of ``out`` at the end: a refusal leaves
    ``out`` as it was, and a gzip member that a kill cut short could not be appended to.
    """
    if not out.exists() or out.stat().st_size == 0:
        return dialogues
    kept = out.with_name(f".kept-{out.name}")
    try:
        with open_text(kept, "w") as stream:
            for lines, rows in _earlier(out):
                dialogue = next(dialogues, None)
                _check_match(rows, dialogue, run, out)
                assert dialogue is not None
                if len(rows) < len(items_of(dialogue, run.level)):
                    # A kill can leave the last dialogue with some of its turns: judged again.
                    dialogues = chain([dialogue], dialogues)
                    break
                stream.writelines(lines)
                for judgement in rows:
                    report.add(judgement)
                if progress is not None:
                    progress(1)
        kept.replace(out)
    finally:
        kept.unlink(missing_ok=True)
    return dialogues


def _check_match(
    rows: Sequence[Judgement], dialogue: Dialogue | None, run: _Run, out: Path
) -> None:
    """Raise MedalError where ``rows``, of one dialogue, are not what ``run`` would write of it.

    They may be fewer: a kill can leave the last dialogue with some of its turns.
    """
    found = rows[0]
    if found.judge != run.judge:
        raise _refusal(out, "by another judge or with other settings", found.judge, run.judge)
    if dialogue is None or dialogue.id != found.id:
        raise _other_input(out, found.id, repr(dialogue.id) if dialogue else "ended")
    if set(found.scores) != set(run.dimensions):
        there, now = ", ".join(found.scores), ", ".join(run.dimensions)
        raise _refusal(out, "for other dimensions", there, now)
    turns = [row.turn for row in rows]
    levels = [name for name in get_args(ScoreLevel) if _begins(dialogue, name, turns)]
    if not levels:
        raise _other_input(out, f"turns {turns} of {found.id!r}", "other turns")
    if run.level not in levels:
        raise _refusal(out, "at another level", " or ".join(levels), run.level)


def _begins(dialogue: Dialogue, level: ScoreLevel, turns: Sequence[int | None]) -> bool:
    """Whether what is judged of ``dialogue`` at ``level`` begins with ``turns``."""
    return [item.turn for item in items_of(dialogue, level)][: len(turns)] == turns


def _refusal(out: Path, how: str, there: str, now: str) -> MedalError:
    return MedalError(f"{out} was written {how}:\n    there: {there}\n    now:   {now}", hint=_ANEW)


def _other_input(out: Path, there: str, now: str) -> MedalError:
    return MedalError(
        f"{out} does not go with this input: it has {there} where the input has {now}", hint=_ANEW
    )


def _earlier(out: Path) -> Iterator[tuple[list[str], list[Judgement]]]:
    """Lines and judgements of one dialogue after the other, as far as lines are whole JSON."""
    for _, group in groupby(_complete_lines(out), key=lambda pair: pair[1].get("id")):
        pairs = list(group)
        try:
            rows = [parse_judgement(record) for _, record in pairs]
        except RecordError as error:
            raise MedalError(
                f"{out} has a line that is no judgement: {error}", hint=_ANEW
            ) from error
        yield [line for line, _ in pairs], rows


def _complete_lines(out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(line, its JSON object) of every line up to the first that is not whole."""
    with open_text(out) as stream:
        while True:
            try:
                line = stream.readline()
            except (EOFError, OSError, gzip.BadGzipFile, UnicodeDecodeError):
                return
            if not line.endswith("\n"):
                return
            try:
                record = json.loads(line)
            except ValueError:
                return
            if not isinstance(record, dict):
                return
            yield line, record
