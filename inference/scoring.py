"""Scoring a file: streaming in, appending out, resumed after a kill."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

from medal_judges.errors import CoverageError, DataError, MedalError
from medal_judges.inference.kept import with_kept
from medal_judges.inference.resuming import Expected, asked_again, forget, resume
from medal_judges.inference.tables import journal_behind
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.models.base.judged_languages import UnknownLanguage, is_detecting
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.reading.language_detection import detects
from medal_judges.reading.report import ReadingReport
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, parse_judgement
from medal_judges.storage.files import only_run, require_other_file
from medal_judges.storage.journal import Journal


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """What is asked of a judge, and how a file of judgements that stands there is treated.

    The first four are of ``Judge.score``. ``overwrite`` starts the file again from the beginning;
    ``retry_failed`` asks again for all rows without a score, not only for those that lack an answer
    which may come now (``Judgement.transient``). ``keep``: fields of the dialogue that travel to
    ``Judgement.meta`` (kept.py). ``detect_language``: as in Judge.score; where ``lang`` is kept it
    is detected by default for any judge.

    >>> from medal_judges import ScoreOptions
    >>> ScoreOptions(level="turn", dimensions=["overall"]).overwrite
    False
    """

    level: ScoreLevel = "dialogue"
    dimensions: Sequence[str] | None = None
    token_budget: int | None = None
    unknown_language: UnknownLanguage = "warn"
    overwrite: bool = False
    retry_failed: bool = False
    keep: Sequence[str] = ()
    detect_language: bool | None = None

    def detects_language(self, judge: Judge) -> bool:
        """Whether the language of dialogues that state none is detected for ``judge``."""
        asked = self.detect_language
        if asked is None and "lang" in self.keep and detects():
            asked = True
        return is_detecting(judge.languages, asked)

    def score(
        self,
        judge: Judge,
        dialogues: Iterable[Dialogue],
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[Judgement]:
        """``judge.score`` of ``dialogues`` with these options."""
        detect = self.detects_language(judge)

        def judged(each: Iterable[Dialogue]) -> Iterator[Judgement]:
            return judge.score(
                each,
                level=self.level,
                dimensions=self.dimensions,
                token_budget=self.token_budget,
                unknown_language=self.unknown_language,
                detect_language=detect,
                progress=progress,
            )

        return with_kept(dialogues, judged, self.keep) if self.keep else judged(dialogues)


DEFAULT_OPTIONS = ScoreOptions()


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
    detected: Counter[str] = field(default_factory=Counter)  # languages of rows that state none
    failures: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)  # judgements that have a field of --keep

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
        if judgement.detected_language is not None:
            self.detected[judgement.detected_language] += 1
        if not judgement.scored:
            self.failures[judgement.failure or "no reason given"] += 1
        self.kept.update({name: value is not None for name, value in judgement.meta.items()})
        for name, value in judgement.scores.items():
            if value is not None:
                self.sums[name] = self.sums.get(name, 0.0) + value
                self.counts[name] += 1

    def merge(self, other: ScoreReport) -> None:
        """Add the counts of ``other``, of a part of the same run."""
        for each in fields(self):
            mine, more = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, Counter):
                mine.update(more)
            elif isinstance(mine, dict):
                mine.update({name: mine.get(name, 0.0) + value for name, value in more.items()})
            else:
                setattr(self, each.name, mine + more)

    @property
    def next_try(self) -> str:
        """How what is missing is asked for again; empty where nothing is missing."""
        same = [f"the same command asks again for {self.transient}"] if self.transient else []
        rest = [f"--retry-failed asks again for {self.lasting}"] if self.lasting else []
        return "; ".join(same + rest)

    def lines(self, languages: Sequence[str] | None) -> Iterator[str]:
        """The report in words; ``languages`` are those that the judge was made for."""
        coverage = "–" if self.coverage is None else f"{self.coverage:.1%}"
        again = f", {self.asked_again} asked again" if self.asked_again else ""
        yield f"{self.total} judgements ({self.resumed} from before{again}), coverage {coverage}"
        yield from (f"  unscored: {n} x {reason}" for reason, n in self.failures.most_common())
        if self.next_try:
            yield f"  {self.next_try}"
        known = "any, or not known" if languages is None else ", ".join(languages)
        yield f"  languages that the judge was made for: {known}"
        if self.detected:
            told = ", ".join(f"{lang} ({n})" for lang, n in self.detected.most_common())
            yield f"  judgements whose language was not stated and was detected: {told}"
        if self.languages:
            other = ", ".join(f"{lang} ({n})" for lang, n in self.languages.most_common())
            yield f"  judgements in other languages: {other}"
        if absent := [name for name, count in self.kept.items() if not count]:
            yield f"  --keep: no chat has {', '.join(map(repr, absent))}"
        if self.truncated:
            yield f"  {self.truncated} lost {self.truncated_turns} whole turns to the window"
        if self.dialogues and self.seconds:
            rate = self.dialogues / self.seconds
            yield f"{self.dialogues} dialogues in {self.seconds:.1f} s: {rate:.1f} dialogues/s"

    def require_coverage(self, floor: float) -> None:
        """Raise CoverageError (exit code 3) when coverage is under ``floor``."""
        if self.coverage is not None and self.coverage < floor:
            listed = [("bad line left out", self.left_out)] if self.left_out else []
            listed += self.failures.most_common(5)
            reasons = "; ".join(f"{n} x {reason}" for reason, n in listed)
            written = "the judgements are written, unscored ones with their reason"
            parts = [written, self.next_try, "--min-coverage sets the floor"]
            raise CoverageError(
                f"coverage {self.coverage:.1%} is under the floor of {floor:.0%}: {reasons}",
                hint="; ".join(part for part in parts if part),
            )


def score_file(
    file: str | Path,
    judge: Judge | str | Path,
    out: str | Path,
    options: ScoreOptions = DEFAULT_OPTIONS,
    *,
    reading: ReadingReport | None = None,
    progress: Callable[[int], None] | None = None,
) -> ScoreReport:
    """Judge the dialogues of ``file`` into ``out``, a file of judgements, as ``medal score`` does.

    ``judge`` is a judge, or what Judge.from_pretrained takes. An earlier run's file is resumed, see
    ``score_to_file``. Raises MedalError where another process writes to ``out``.

    >>> from medal_judges import ScoreOptions, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.jsonl")
    >>> report.total, report.coverage
    (3, 1.0)
    >>> score_file("dialogues.jsonl", "length", "turns.jsonl", ScoreOptions(level="turn")).total
    6
    """
    require_other_file(out, [file])
    loaded = judge if isinstance(judge, Judge) else Judge.from_pretrained(judge)
    with only_run(out):
        dialogues = read_dialogues(file, reading=reading)
        return score_to_file(dialogues, loaded, Path(out), options, progress=progress)


def score_to_file(
    dialogues: Iterable[Dialogue],
    judge: Judge,
    out: Path,
    options: ScoreOptions = DEFAULT_OPTIONS,
    *,
    gone: Container[str] = (),
    progress: Callable[[int], None] | None = None,
) -> ScoreReport:
    """Append a judgement line for every dialogue to ``out``, in input order, window by window; a
    parquet or CSV file is made of them at the end (tables.py).

    A file that stands there is resumed: its complete lines are kept, a half-written last one is
    dropped, and dialogues judged already are passed over, but for those that are asked again (see
    ``ScoreOptions``). ``gone``: see Expected. Raises MedalError when those lines come from another
    judge or settings, are of other dimensions or another level, or do not match the input; ``out``
    is then left as it is.
    """
    with journal_behind(out, overwrite=options.overwrite) as lines:
        return _score_to_lines(dialogues, judge, lines, options, gone, progress)


def _score_to_lines(
    dialogues: Iterable[Dialogue],
    judge: Judge,
    out: Path,
    options: ScoreOptions,
    gone: Container[str],
    progress: Callable[[int], None] | None,
) -> ScoreReport:
    report = ScoreReport()
    _require_judgements(out)
    names = judge._check_dimensions(options.dimensions)  # before anything of OUT is removed
    if options.overwrite:
        forget(out)
    signature = str(judge.signature())
    window = judge.window if judge.resumes_windows else 1
    expected = Expected(
        signature,
        tuple(names),
        options.level,
        options.retry_failed,
        gone,
        (*options.keep,),
        options.detects_language(judge),
        options.unknown_language,
        window,
    )

    def keep(rows: Sequence[Judgement]) -> None:
        for judgement in rows:
            report.add(judgement)
        if progress is not None:
            progress(1)

    def write(each: Iterable[Dialogue], journal: Journal) -> None:
        judged = options.score(judge, _counted(each, report), progress)
        # Every line would cost half the speed of a fast judge; a window is what a kill may lose.
        for judgement in journal.append_each(judged, min(judge.window, 64)):
            report.add(judgement)

    with _input_errors(dialogues, report, out) as given:
        rest, again = resume(given, expected, out, keep)
        report.resumed, start = report.total, time.perf_counter()
        if again:
            with asked_again(out) as journal:
                write(again, journal)
            report.asked_again = report.total - report.resumed
        write(rest, Journal(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.touch()  # an empty input gives an empty file
    report.seconds = time.perf_counter() - start
    return report


def _require_judgements(out: Path) -> None:
    """Raise MedalError when ``out`` is some other file: it must not be cut, nor removed.

    Its first complete line has to be a judgement; a file without one was cut in its first window.
    """
    if not out.exists() or out.stat().st_size == 0:
        return
    with open(out, "rb") as raw:
        begin = raw.read(8)
    is_gzip = out.suffix == ".gz"
    fits = begin.startswith(b"\x1f\x8b") == is_gzip
    try:
        whole = next(Journal(out).records(parse_judgement), None) is not None
        fits = fits and (whole or is_gzip or begin.startswith(b'{"id"'))
    except DataError:
        fits = False
    if not fits:
        raise MedalError(
            f"{out} is there and is no file of judgements; it was left as it is",
            hint="give another --out",
        )


@contextmanager
def _input_errors(
    dialogues: Iterable[Dialogue], report: ScoreReport, out: Path
) -> Iterator[Iterator[Dialogue]]:
    """``dialogues``; an error in their file that leaves the block also says what is kept by then,
    and how to resume."""
    bad: list[DataError] = []

    def reading() -> Iterator[Dialogue]:
        try:
            yield from dialogues
        except DataError as error:
            bad.append(error)
            raise

    try:
        yield reading()
    except DataError as error:
        if error in bad and report.total:
            kept = f"{report.total} judgements made before it are kept in {out}"
            error.hint = f"{error.hint}\n  {kept}; the same command then resumes after them"
        raise


def _counted(dialogues: Iterable[Dialogue], report: ScoreReport) -> Iterator[Dialogue]:
    for dialogue in dialogues:
        report.dialogues += 1
        yield dialogue
