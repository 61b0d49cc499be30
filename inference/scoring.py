"""Scores a file of dialogues. A run reads them one after another, appends judgements, and resumes
after a kill."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medal_judges.config import MULTILINGUAL, OVERWRITE, RETRY_FAILED, Config, option
from medal_judges.errors import ConfigError, CoverageError, DataError, MedalError
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.metadata import input_hash, metadata_of
from medal_judges.inference.resuming import (
    EarlierDialogue,
    EarlierJudgements,
    earlier_file,
)
from medal_judges.models.base.judge import (
    NO_ASSISTANT_TURN,
    Judge,
    ScoreLevel,
    is_truncated,
    make_score_requests,
    should_detect_languages,
    truncation_warning,
)
from medal_judges.models.batching import chunks
from medal_judges.models.llm.cost import sum_usage_records, usage_text
from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, judgement_parser, parse_judgement
from medal_judges.storage.files import output_lock, protect_inputs, require_safe_out
from medal_judges.storage.jsonl import Journal
from medal_judges.storage.judgements import (
    TABLES,
    jsonl_path,
    read_judgements,
    write_judgements,
)

MIN_COVERAGE = 0.98
Write = Callable[[Judgement, dict[str, Any]], None]
_BLOCK = 64  # lines: writing each by itself would halve the speed of a fast judge


class ScoreOptions(Config):
    """How dialogues are scored, and what happens to an earlier file of judgements.

    Attributes:
        dimensions: The names of the dimensions to score. Empty means all.
        level: What gets a score: ``dialogue``, ``turn`` (each assistant turn) or ``last`` (the last
            assistant turn).
        keep: Metadata of a dialogue to copy to its judgements, such as ``["chatbot"]``.
        overwrite: Whether to replace an earlier file. Otherwise it is resumed.
        retry_failed: Whether to retry every judgement without a score. Otherwise only transient
            failures (such as time-outs) are retried.

    >>> from medal_judges import ScoreOptions
    >>> ScoreOptions(level="turn", dimensions=["overall"]).overwrite
    False
    """

    dimensions: tuple[str, ...] = option(
        (), flag="--dimension", help="Only this dimension. May be repeated."
    )
    level: ScoreLevel = option(
        "dialogue", help="Score the whole chat, each answer, or the last answer."
    )
    keep: tuple[str, ...] = option(
        (), help="Column that is copied to the scores. May be repeated."
    )
    overwrite: bool = OVERWRITE
    retry_failed: bool = RETRY_FAILED

    def score(
        self,
        judge: Judge,
        dialogues: Iterable[Dialogue],
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[Judgement]:
        """Yields the judgements of ``dialogues`` by ``judge`` with these options, in input order.
        Copies no metadata, whatever ``keep`` says.

        Args:
            progress: Called with the number of dialogues finished since its last call.

        Raises:
            ConfigError: The judge lacks one of the dimensions.
        """
        return judge.score(
            dialogues,
            level=self.level,
            dimensions=self.dimensions or None,
            progress=progress,
        )

    def is_done(self, judgement: Judgement) -> bool:
        """Returns whether ``judgement`` of an earlier run is final, so that it is not computed
        again.

        A judgement with a transient failure (such as a time-out) is never final. With
        ``retry_failed``, a judgement without a score is final only if its dialogue has no assistant
        turn.
        """
        if self.retry_failed and not judgement.scored:
            return judgement.failure == NO_ASSISTANT_TURN
        return not judgement.transient

    def run_record(self, judge: Judge) -> dict[str, Any]:
        """Returns the settings on which the judgements of ``judge`` depend, as a JSON object with
        the keys ``judge``, ``dimensions``, ``level``, ``keep`` and ``detect_language``.

        A file is resumed only if it was written with equal settings.

        Raises:
            ConfigError: The judge lacks one of the dimensions.
        """
        return {
            "judge": str(judge.signature()),
            "dimensions": judge._checked_names(self.dimensions or None),
            "level": self.level,
            "keep": list(self.keep),
            "detect_language": should_detect_languages(judge.languages),
        }


DEFAULT_OPTIONS = ScoreOptions()


@dataclass(slots=True)
class ScoreReport:
    """Counts of a scoring run.

    Attributes:
        total: Number of judgements. Input lines that cannot be read give none.
        scored: Number of judgements with a score in every dimension.
        resumed: Number of judgements from an earlier run.
        changed: Number of dialogues whose text or metadata have changed since an earlier run.
        transient: Number of judgements with a transient failure, such as a time-out. The same
            command scores them again.
        lasting: Number of judgements with a permanent failure. Only --retry-failed scores them
            again. Dialogues without an assistant turn are not counted.
        dialogues: Number of dialogues scored in this run.
        left_out: Number of input lines that cannot be read.
        truncated: Number of judgements of dialogues that are too long for the judge.
        truncated_turns: Number of turns that the judge did not read, because their dialogue is too
            long.
        cut_turns: Number of turns that the judge read in part, because their dialogue is too long.
        seconds: Duration of the run in seconds.
        languages: Language that the judge does not support -> number of judgements.
        failures: Reason -> number of judgements without a score.
        sums: Dimension -> sum of its scores: ``{"overall": 12.5}``.
        counts: Dimension -> number of its scores.
        copied: Field of --keep -> number of judgements that have a value: ``{"chatbot": 40}``.
        usage: Tokens and US dollars of this run, such as ``{"tokens": 1200, "money": 0.02}``.
    """

    total: int = 0
    scored: int = 0
    resumed: int = 0
    changed: int = 0
    transient: int = 0
    lasting: int = 0
    dialogues: int = 0
    left_out: int = 0
    truncated: int = 0
    truncated_turns: int = 0
    cut_turns: int = 0
    seconds: float = 0
    languages: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    copied: Counter[str] = field(default_factory=Counter)
    usage: dict[str, float] = field(default_factory=dict)

    @property
    def coverage(self) -> float | None:
        """The share of judgements, from 0 to 1, that have a score in every dimension. None without
        judgements.

        An input line that cannot be read counts as a judgement without scores.
        """
        count = self.total + self.left_out
        if count:
            return self.scored / count
        return None

    def add(self, judgement: Judgement) -> None:
        """Adds ``judgement``, new or from an earlier run, to the counts."""
        self.total += 1
        self.scored += judgement.scored
        self.transient += judgement.transient
        self.truncated += is_truncated(judgement)
        self.truncated_turns += judgement.truncated_turns
        self.cut_turns += judgement.cut_turns
        if judgement.unknown_language is not None:
            self.languages[judgement.unknown_language] += 1
        if not judgement.scored:
            is_lasting = judgement.failure != NO_ASSISTANT_TURN
            self.lasting += is_lasting and not judgement.transient
            self.failures[judgement.failure or "no reason given"] += 1
        for name, value in judgement.meta.items():
            self.copied[name] += value is not None
        for name, score in judgement.scores.items():
            if score is not None:
                self.sums[name] += score  # type: ignore[assignment]
                self.counts[name] += 1

    @property
    def retry_hint(self) -> str:
        """A sentence that says what to type to retry judgements without a score. It is empty if no
        judgement can be retried."""
        commands = []
        if self.transient:
            commands.append(
                f"Type the same command to score {self.transient} of them again"
            )
        if self.lasting:
            commands.append(
                f"Type --retry-failed to score {self.lasting} of them again"
            )
        return ". ".join(commands)

    def lines(self, languages: Sequence[str] | None) -> Iterator[str]:
        """Yields the lines of the report for the user. The mean scores are not among them.

        Args:
            languages: The codes of the languages that the judge supports, None if it names none.
        """
        coverage = "–"
        if self.coverage is not None:
            coverage = f"{self.coverage:.1%}"
        yield f"{self.total} judgements, coverage {coverage}"
        if self.resumed + self.changed:
            yield f"  {self.resumed} from an earlier run, {self.changed} chats changed since"
        if spent := usage_text(self.usage):
            yield f"  {spent}"
        for reason, count in self.failures.most_common():
            yield f"  without a score: {count} x {reason}"
        if self.retry_hint:
            yield f"  {self.retry_hint}"
        if languages and self.languages:
            others = ", ".join(f"{lang} ({n})" for lang, n in self.languages.items())
            yield f"  in other languages than the judge's ({', '.join(languages)}): {others}"
            if len(languages) == 1:
                yield f"  Type --judge {MULTILINGUAL} for more (pip install '.[multilingual]')"
        absent = [repr(name) for name, count in self.copied.items() if not count]
        if absent:
            yield f"  --keep: no chat has {', '.join(absent)}"
        if self.truncated:
            judgements = f"{self.truncated} judgements"
            yield f"  {truncation_warning(judgements, self.truncated_turns, self.cut_turns)}"
        if self.dialogues and self.seconds:
            rate = self.dialogues / self.seconds
            yield f"{self.dialogues} dialogues in {self.seconds:.1f} s: {rate:.1f} dialogues/s"

    def mean_lines(self) -> Iterator[str]:
        """Yields lines with the mean score of each dimension. Dimensions with equal means share a
        line."""
        # A baseline gives the same score for many dimensions.
        names_by_mean: dict[str, list[str]] = {}
        for name, count in self.counts.items():
            mean = f"{self.sums[name] / count:.3f}"
            names_by_mean.setdefault(mean, []).append(name)
        for mean, names in names_by_mean.items():
            yield f"mean of {', '.join(names)}: {mean}"

    def require_coverage(self, floor: float) -> None:
        """Checks that enough judgements have a score. A report without judgements passes.

        Args:
            floor: The lowest accepted coverage, a share from 0 to 1.

        Raises:
            CoverageError: The coverage is below ``floor`` (exit status 3).
        """
        if self.coverage is not None and self.coverage < floor:
            problems = self.failures.most_common(5)
            if self.left_out:
                problems.insert(0, ("bad line left out", self.left_out))
            reasons = "; ".join(f"{count} x {problem}" for problem, count in problems)
            hints = ["The scores are written, with the reason where one is missing"]
            if self.retry_hint:
                hints.append(self.retry_hint)
            hints.append("Type a lower --min-coverage to accept that")
            raise CoverageError(
                f"coverage {self.coverage:.1%} is below the minimum of {floor:.0%}: {reasons}",
                hint=". ".join(hints),
            )


@contextmanager
def open_judge(
    choice: JudgeChoice, workers: int = 1, device: str | None = None
) -> Iterator[Judge]:
    """Opens a context with a loaded judge.

    Args:
        choice: The judge to load.
        workers: The number of processes, on this machine or on the Ray cluster at $RAY_ADDRESS.
        device: Where the processes run, such as ``cpu``. With None or a CUDA device, they share the
            GPUs. Ignored for a single process, which runs where ``choice`` says.

    Raises:
        JudgeLoadError: The judge cannot be loaded.
        ConfigError: There are several workers and the judge sends requests to a server.
        MissingExtraError: There are several workers and Ray is not installed.
    """
    if workers == 1:
        yield choice.load()
        return
    from medal_judges.inference.ray_judge import open_on_ray

    with open_on_ray(choice, workers, device) as judge:
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
    """Scores the dialogues of ``file`` and writes the judgements to ``out``, as ``medal score``
    does. Returns the counts of the run.

    If the same judge with the same options wrote a judgement to ``out`` before, it is not computed
    again.

    Args:
        file: A file of chats, such as JSON lines or CSV.
        judge: A judge, or its shipped name, YAML file, folder or Hub id.
        out: A .jsonl, .parquet or .csv file. The last two get a .jsonl file beside them.
        options: How dialogues are scored.
        reading: Collects what could not be read in ``file``.
        progress: Called with the number of dialogues finished since its last call.

    Raises:
        ConfigError: ``out`` has another ending, or is the same file as ``file``.
        DataError: ``file`` cannot be read.
        JudgeLoadError: The judge cannot be loaded.
        MedalError: Another process writes to ``out``, or ``out`` was written by another judge or
            with other options.

    >>> from medal_judges import ScoreOptions, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.jsonl")
    >>> report.total, report.coverage
    (3, 1.0)
    >>> score_file("dialogues.jsonl", "length", "t.jsonl", ScoreOptions(level="turn")).total
    6
    """
    with protect_inputs(file), output_lock(out):
        require_safe_out(out)
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
    progress: Callable[[int], None] | None = None,
    read_as: Mapping[str, Any] = {},
) -> ScoreReport:
    """Scores ``dialogues`` with ``judge`` and writes the judgements to ``out``, in input order.
    Returns the counts of the run.

    If the same judge with the same options wrote a judgement to ``out`` before, it is not computed
    again.

    Args:
        out: A .jsonl, .parquet or .csv file. The last two get a .jsonl file beside them.
        options: How dialogues are scored.
        progress: Called with the number of dialogues finished since its last call.
        read_as: The settings with which the dialogues were read, such as ``{"format": "csv"}``.
            They are saved in the first line of the JSONL file.

    Raises:
        ConfigError: ``out`` has another ending.
        MedalError: ``out`` is no file of judgements, was written by another judge or with other
            options, or its .jsonl file is missing. It stays unchanged.
    """
    if not out.name.endswith((".jsonl", *TABLES)):
        raise ConfigError(
            f"judgements cannot be written to {out}",
            hint="Type a file that ends in .jsonl, .parquet or .csv",
        )
    lines = jsonl_path(out)
    run = options.run_record(judge)
    journal = Journal(lines, run)
    _require_judgements(lines)
    if options.overwrite:
        earlier_file(lines).unlink(missing_ok=True)
        lines.unlink(missing_ok=True)
    elif out.exists() and not lines.exists():
        raise MedalError(
            f"{out} cannot be resumed and was left unchanged: {lines.name} is missing",
            hint="Type another --out, or --overwrite to start again",
        )
    for path in (earlier_file(lines), lines):
        Journal(path, run).require_same_run()
    start = time.perf_counter()
    earlier = EarlierJudgements(lines, options.is_done)
    names = run["dimensions"]
    first: dict[str, Any] = {
        "dimensions": [judge.dimension(n).to_record() for n in names]
    }
    if read_as:
        first["reading"] = dict(read_as)
    block: list[dict[str, Any]] = []

    def write(judgement: Judgement, record: dict[str, Any]) -> None:
        nonlocal first
        block.append(record | first)
        first = {}
        if len(block) >= min(judge.window, _BLOCK):
            flush()

    def flush() -> None:
        journal.append(block, sync=False)
        block.clear()

    try:
        report = score_and_write_each(
            dialogues, judge, options, write, progress, earlier
        )
    finally:  # judgements before an error are written too
        flush()
    earlier.close_and_remove_if_used_up()
    lines.touch()  # an empty input gives an empty file
    if out != lines:
        write_judgements(out, _SavedJudgements(lines))
    report.seconds = time.perf_counter() - start
    return report


def score_and_write_each(
    dialogues: Iterable[Dialogue],
    judge: Judge,
    options: ScoreOptions,
    write: Write,
    progress: Callable[[int], None] | None = None,
    earlier: EarlierJudgements | None = None,
) -> ScoreReport:
    """Scores ``dialogues`` with ``judge``, passes each judgement to ``write``, and returns the
    counts of the run.

    Args:
        options: How dialogues are scored.
        write: Called with each judgement and its JSON object, in input order.
        progress: Called with the number of dialogues finished since its last call.
        earlier: Judgements of earlier runs, None if there are none. Those that are final are passed
            to ``write`` and not computed again.
    """
    run = _ScoringRun(judge, options, write, progress or (lambda count: None), earlier)
    models = judge.language_models()
    for model in models:
        # A cached answer that cannot be read would be read again.
        model.renews = options.retry_failed
    try:
        run.score_and_write(dialogues)
    finally:
        for model in models:
            model.renews = False
    if earlier:
        run.report.changed = earlier.changed
    return run.report


@dataclass(slots=True)
class _PendingDialogue:
    """A dialogue that has been read and whose judgements are not all written.

    Attributes:
        meta: Field -> value to add to each judgement.
        input: The hash of the dialogue and ``meta``.
        left: The number of judgements still to write.
        entry: The dialogue in an earlier run, None if it must be scored in this run.
    """

    meta: dict[str, Any]
    input: str
    left: int
    entry: EarlierDialogue | None


@dataclass(slots=True)
class _ScoringRun:
    """One pass over dialogues that scores them and writes their judgements.

    Attributes:
        judge: The judge that scores.
        options: How dialogues are scored.
        write: Called with each judgement and its JSON object.
        progress: Called with the number of dialogues finished since its last call.
        earlier: Judgements of earlier runs, None if there are none.
        report: Counts of the run.
        waiting: Dialogues that have been read and whose judgements are not all written.
    """

    judge: Judge
    options: ScoreOptions
    write: Write
    progress: Callable[[int], None]
    earlier: EarlierJudgements | None
    report: ScoreReport = field(default_factory=ScoreReport)
    waiting: deque[_PendingDialogue] = field(default_factory=deque)

    def score_and_write(self, dialogues: Iterable[Dialogue]) -> None:
        """Writes the judgements of each of ``dialogues``. They are from an earlier run if possible,
        otherwise computed."""
        unscored = self._queue_and_yield_unscored(dialogues)
        for judgement in self.options.score(self.judge, unscored, self.progress):
            noted = self.waiting[0]
            meta = noted.meta
            if "lang" in meta and judgement.detected_language is not None:
                meta = {**meta, "lang": judgement.detected_language}
            judgement = replace(judgement, meta=meta, input=noted.input)
            self.report.usage = sum_usage_records([self.report.usage, judgement.usage])
            self._count_and_write(judgement, judgement.to_record(judgement.dimensions))
            noted.left -= 1
            if not noted.left:
                self.report.dialogues += 1
                self.waiting.popleft()
                self._write_earlier()

    def _queue_and_yield_unscored(
        self, dialogues: Iterable[Dialogue]
    ) -> Iterator[Dialogue]:
        """Adds every dialogue to ``waiting``, and yields the ``dialogues`` that must be scored in
        this run."""
        # The last digits of a network's scores depend on the dialogues of its batch: a window is
        # scored as a whole.
        size = 1
        if self.judge.resumes_windows:
            size = self.judge.window
        for window in chunks(dialogues, size):
            notes = list(map(self._to_pending, window))
            is_scored = all(noted.entry for noted in notes)
            for noted, dialogue in zip(notes, window, strict=True):
                self.waiting.append(noted)
                if not is_scored:
                    noted.entry = None
                    yield dialogue
            self._write_earlier()

    def _to_pending(self, dialogue: Dialogue) -> _PendingDialogue:
        """Returns ``dialogue`` as an entry of ``waiting``. Takes its entry out of ``earlier``."""
        meta = metadata_of(dialogue, self.options.keep)
        input = input_hash(dialogue, meta)
        rows = len(make_score_requests(dialogue, self.options.level))
        entry = None
        if self.earlier:
            entry = self.earlier.take_done(dialogue.id, input, rows)
        return _PendingDialogue(meta, input, rows, entry)

    def _write_earlier(self) -> None:
        """Writes the judgements of an earlier run for the first dialogues in ``waiting``, and
        removes these dialogues. Stops at the first dialogue that is scored now."""
        while self.earlier and self.waiting and (entry := self.waiting[0].entry):
            self.waiting.popleft()
            for line in self.earlier.lines(entry):
                record = json.loads(line)
                for name in ("dimensions", "reading", "run"):
                    record.pop(name, None)
                self._count_and_write(
                    parse_judgement(record, self.judge.dimensions), record
                )
                self.report.resumed += 1
            self.progress(1)

    def _count_and_write(self, judgement: Judgement, record: dict[str, Any]) -> None:
        self.report.add(judgement)
        self.write(judgement, record)


class _SavedJudgements:
    """The judgements in the JSONL file ``path``. Each loop over them reads the file again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Judgement]:
        return Journal(self._path).read_records(judgement_parser())


def _require_judgements(lines: Path) -> None:
    """Raises MedalError if the file ``lines`` does not hold judgements. A file without one complete
    line passes."""
    # A killed run can leave a file without one complete line.
    if not lines.exists() or lines.stat().st_size == 0:
        return
    try:
        is_own = next(iter(_SavedJudgements(lines)), None) is not None
    except DataError:
        is_own = False
    else:
        with lines.open("rb") as stream:
            is_own = is_own or stream.read(5) == b'{"id"'
    if not is_own:
        raise MedalError(
            f"{lines} is not a file of judgements and was left unchanged",
            hint="Type another --out",
        )


def load_or_score(
    judge: Judge,
    dialogues: Sequence[Dialogue],
    out: Path,
    options: ScoreOptions,
    *,
    progress: Callable[[int], None] | None = None,
) -> list[Judgement]:
    """Returns the judgements of ``dialogues``. Reads them from the file ``out`` if it has all of
    them, otherwise computes them and writes them there.

    A file by another judge or with other options is replaced. Transient failures (such as
    time-outs) are scored again.

    Args:
        judge: The judge that scores.
        out: A .jsonl file of judgements, which need not exist.
        options: How dialogues are scored.
        progress: Called with the number of dialogues finished since its last call.

    Raises:
        MedalError: ``out`` is no file of judgements. It stays unchanged.
    """
    if not options.overwrite and out.is_file():
        try:
            Journal(out, options.run_record(judge)).require_same_run()
            judgements = list(read_judgements(out))
        except DataError:
            pass  # a stopped run left half a line: the rest is scored
        except MedalError:
            options = options.model_copy(update={"overwrite": True})
        else:
            scored = [(judgement.id, judgement.input) for judgement in judgements]
            keys = []
            for dialogue in dialogues:
                key = (
                    dialogue.id,
                    input_hash(dialogue, metadata_of(dialogue, options.keep)),
                )
                keys += [key] * len(make_score_requests(dialogue, options.level))
            if scored == keys and all(map(options.is_done, judgements)):
                if progress is not None:
                    progress(len(dialogues))
                return judgements
    score_to_file(dialogues, judge, out, options, progress=progress)
    return list(read_judgements(out))
