"""Scoring a file: streaming in, appending out, resumed after a kill."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from medal_judges.dialogue import Dialogue
from medal_judges.errors import CoverageError, DataError, MedalError, RecordError
from medal_judges.inference.resuming import Run, asked_again, forget, resume
from medal_judges.jsonl import open_text, to_line
from medal_judges.judgement import Judgement, parse_judgement
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.models.base.judged_languages import UnknownLanguage


@dataclass(slots=True)
class ScoreReport:
    """What a run did. Sums are per dimension over the scored rows; ``resumed`` counts judgements
    that stood in the file already and are part of every other figure; ``asked_again`` counts those
    that stood there and were made once more, ``transient`` those that still lack an answer which
    the same command asks for again, ``lasting`` those without a score for another reason.
    ``left_out`` counts bad lines, which nobody judged: each is one judgement that is missing."""

    total: int = 0
    scored: int = 0
    resumed: int = 0
    asked_again: int = 0
    transient: int = 0
    lasting: int = 0
    dialogues: int = 0
    left_out: int = 0
    truncated: int = 0
    truncated_turns: int = 0
    tokens: float = 0
    seconds: float = 0
    languages: Counter[str] = field(default_factory=Counter)  # that the judge was not made for
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
        self.transient += judgement.transient
        self.lasting += not (judgement.scored or judgement.transient)
        self.truncated += judgement.truncated_turns > 0
        self.truncated_turns += judgement.truncated_turns
        self.tokens += judgement.usage.get("tokens", 0)
        if judgement.unknown_language is not None:
            self.languages[judgement.unknown_language] += 1
        if not judgement.scored:
            self.failures[judgement.failure or "no reason given"] += 1
        for name, value in judgement.scores.items():
            if value is not None:
                self.sums[name] = self.sums.get(name, 0.0) + value
                self.counts[name] += 1

    @property
    def next_try(self) -> str:
        """How what is missing is asked for again, as the beginning of a sentence; empty where
        nothing is."""
        same = f"the same command asks again for {self.transient}; " if self.transient else ""
        rest = f"--retry-failed asks again for {self.lasting}; " if self.lasting else ""
        return same + rest

    def require_coverage(self, floor: float) -> None:
        """Raise CoverageError (exit code 3) when coverage is under ``floor``."""
        if self.coverage is not None and self.coverage < floor:
            told = [(self.left_out, "bad line left out")] if self.left_out else []
            told += [(n, reason) for reason, n in self.failures.most_common(5)]
            reasons = "; ".join(f"{n} x {reason}" for n, reason in told)
            raise CoverageError(
                f"coverage {self.coverage:.1%} is under the floor of {floor:.0%}: {reasons}",
                hint="the judgements are written, unscored ones with their reason; "
                f"{self.next_try}--min-coverage sets the floor",
            )


def score_to_file(
    dialogues: Iterable[Dialogue],
    judge: Judge,
    out: Path,
    *,
    level: ScoreLevel = "dialogue",
    dimensions: Sequence[str] | None = None,
    token_budget: int | None = None,
    overwrite: bool = False,
    retry_failed: bool = False,
    gone: Container[str] | None = None,
    unknown_language: UnknownLanguage = "warn",
    progress: Callable[[int], None] | None = None,
) -> ScoreReport:
    """Append a judgement line for every dialogue to ``out``, in input order; flushed by window.

    A file that stands there is resumed: its complete lines are kept, a half-written last one is
    dropped, and dialogues judged already are passed over, but for those whose judgement lacks an
    answer that may come now (``Judgement.transient``): they are asked again, with ``retry_failed``
    all that have no score. ``gone``: see Run. Raises MedalError when those lines come from another
    judge or settings, are of other dimensions or another level, or do not match the input; ``out``
    is then left as it is.
    """
    report = ScoreReport()
    out.parent.mkdir(parents=True, exist_ok=True)
    _require_judgements(out)
    names = judge._check_dimensions(dimensions)  # before anything of OUT is removed
    if overwrite:
        forget(out)
    run = Run(str(judge.signature()), tuple(names), level, retry_failed, gone)

    def keep(rows: Sequence[Judgement]) -> None:
        for judgement in rows:
            report.add(judgement)
        if progress is not None:
            progress(1)

    rest, again = resume(_reading(dialogues, report, out), run, out, keep)
    report.resumed = report.total
    start = time.perf_counter()

    def write(each: Iterable[Dialogue], stream: IO[str]) -> None:
        for judgement in judge.score(
            _counted(each, report),
            level=level,
            dimensions=dimensions,
            token_budget=token_budget,
            unknown_language=unknown_language,
            progress=progress,
        ):
            stream.write(to_line(judgement))
            report.add(judgement)
            _flush(stream, report, judge.window)

    if again:
        with asked_again(out) as stream:
            write(again, stream)
        report.asked_again = report.total - report.resumed
    with open_text(out, "a") as stream:
        write(rest, stream)
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


def _counted(dialogues: Iterable[Dialogue], report: ScoreReport) -> Iterator[Dialogue]:
    for dialogue in dialogues:
        report.dialogues += 1
        yield dialogue


def _flush(stream: IO[str], report: ScoreReport, window: int) -> None:
    # Every line would cost half the speed of a fast judge; a window is what a kill may lose.
    if report.total % min(window, 64) == 0:
        stream.flush()
