"""Reading scores, and what else is known of the chats, into columns: one pass over each file."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from medal_judges.errors import ConfigError, DataError, did_you_mean
from medal_judges.eval.traffic.scales import scales_of
from medal_judges.eval.traffic.times import TimeColumn, seconds
from medal_judges.eval.traffic.traffic import Codes, TextColumn, Traffic
from medal_judges.inference.metadata import metadata_of
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.languages import UNKNOWN_LANGUAGE
from medal_judges.records.signature import Signature
from medal_judges.stats.correlation import Floats

ALWAYS = ("lang", "chatbot")  # columns that are taken where they are known
_BATCH = 512
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """What is asked of the scores: columns to go ``by``, the time column, the ``cluster`` column
    (what was drawn at random, such as a user), the ``dimensions`` (all unless given), the
    ``rubric`` of the judge where it is not a shipped one."""

    by: Sequence[str] = ()
    over: TimeColumn | None = None
    cluster: str | None = None
    dimensions: Sequence[str] = ()
    rubric: str | None = None

    @property
    def columns(self) -> list[str]:
        """The text columns that are read."""
        asked = [*ALWAYS, *self.by, *([self.cluster] if self.cluster else [])]
        return list(dict.fromkeys(asked))


@dataclass(slots=True)
class _TextCollector:
    codes: array[int] = field(default_factory=lambda: array("i"))
    known: dict[str, int] = field(default_factory=dict)

    def code(self, value: object) -> int:
        text = as_text(value)
        return -1 if text is None else self.known.setdefault(text, len(self.known))


def mark_of(id: str) -> int:
    """What stands for an id in memory: 8 bytes, the same in one process."""
    return hash(id)


def as_text(value: object) -> str | None:
    """A value of a column as text; None where there is none."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, default=str)[:200]


def read_traffic(
    judgements: Iterable[Judgement],
    dialogues: Callable[[], Iterable[Dialogue]] | None,
    options: TrafficOptions,
    progress: Progress = lambda count: None,
) -> Traffic:
    """The columns of ``judgements``. What their ``meta`` lacks is taken from ``dialogues``, by id.

    Raises ConfigError for a column that neither has, or a dimension that was not judged, and
    DataError where several judges made the scores.
    """
    reader = _Reader(options)
    for judgement in judgements:
        reader.add(judgement)
        if not len(reader.marks) % _BATCH:
            progress(_BATCH)
    progress(len(reader.marks) % _BATCH)
    if dialogues is not None:
        reader.join(dialogues(), progress)
    return reader.traffic()


class _Reader:
    """Fills the columns row by row."""

    def __init__(self, options: TrafficOptions) -> None:
        self.options = options
        self.marks, self.turns = array("q"), array("i")
        self.uncertainty, self.times = array("d"), array("d")
        self.scores: dict[str, array[float]] = {}
        self.columns = {name: _TextCollector() for name in options.columns}
        self.sizes: dict[str, Floats] = {}
        self.signatures: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.languages: Counter[str] = Counter()
        self.scored = 0
        self.joined = 0
        self.bad_time: object = None
        self.judged: dict[str, None] = {}
        self.seen: dict[str, None] = {}

    def add(self, judgement: Judgement) -> None:
        row = len(self.marks)
        self.marks.append(mark_of(judgement.id))
        self.turns.append(-1 if judgement.turn is None else judgement.turn)
        self.signatures[judgement.judge] += 1
        wanted = self.options.dimensions
        scores = judgement.scores
        self.judged.update(dict.fromkeys(scores))
        for name in wanted or scores:
            value = scores.get(name)
            if name not in self.scores:
                if name not in scores:
                    continue
                self.scores[name] = array("d", [math.nan]) * row
            self.scores[name].append(math.nan if value is None else value)
        for column in self.scores.values():  # a dimension that this row does not have
            if len(column) == row:
                column.append(math.nan)
        done = bool(scores) and all(scores.get(name) is not None for name in wanted or scores)
        self.scored += done
        if not done:
            self.failures[judgement.failure or "no reason given"] += 1
        if judgement.unknown_language is not None:
            self.languages[judgement.unknown_language] += 1
        self.uncertainty.append(uncertainty_of(judgement, wanted))
        self._add_meta(judgement.meta, judgement.detected_language)

    def _add_meta(self, meta: Mapping[str, object], detected: str | None) -> None:
        self.seen.update(dict.fromkeys(meta))
        for name, column in self.columns.items():
            value = meta.get(name)
            if name == "lang" and value in (None, UNKNOWN_LANGUAGE):
                value = detected
            column.codes.append(column.code(value))
        if self.options.over is not None:
            self.times.append(self._time(meta.get(self.options.over.column)))

    def _time(self, value: object) -> float:
        moment = seconds(value)
        if math.isnan(moment) and value is not None and self.bad_time is None:
            self.bad_time = value
        return moment

    def join(self, dialogues: Iterable[Dialogue], progress: Progress) -> None:
        """Fill in what the judgements' own columns lack."""
        marks = np.frombuffer(self.marks, dtype=np.int64)
        order = np.argsort(marks, kind="stable")
        placed = marks[order]
        self.sizes = {name: np.full(len(marks), math.nan) for name in ("turns", "characters")}
        for batch in _batches(dialogues):
            wanted = np.array([mark_of(d.id) for d in batch], dtype=np.int64)
            starts, ends = (np.searchsorted(placed, wanted, side) for side in ("left", "right"))
            for dialogue, start, end in zip(batch, starts, ends, strict=True):
                if start < end:
                    self.joined += int(end - start)
                    self._fill(dialogue, order[start:end])
                self.seen.update(dict.fromkeys(dialogue.meta))
            progress(len(batch))
        if self.marks and not self.joined:
            raise ConfigError(
                "no id of the scores is an id of the chats",
                hint="--chats is the file that was scored",
            )

    def _fill(self, dialogue: Dialogue, rows: Codes) -> None:
        self.sizes["turns"][rows] = len(dialogue.turns)
        self.sizes["characters"][rows] = sum(len(turn.content) for turn in dialogue.turns)
        over = self.options.over
        wanted = [*self.columns, *([over.column] if over is not None else [])]
        values = metadata_of(dialogue, wanted)
        moment = None if over is None else self._time(values[over.column])
        codes = {name: column.code(values[name]) for name, column in self.columns.items()}
        for row in rows:
            for name, code in codes.items():
                if self.columns[name].codes[row] < 0:
                    self.columns[name].codes[row] = code
            if moment is not None and math.isnan(self.times[row]):
                self.times[row] = moment

    def traffic(self) -> Traffic:
        self._require_one_judge()
        missing = [n for n in self.options.dimensions if n not in self.scores]
        if missing and self.marks:
            raise ConfigError(
                f"the scores have no dimension {missing[0]!r}",
                hint=f"{did_you_mean(missing[0], self.judged)}they have: {', '.join(self.judged)}",
            )
        scores = {name: np.frombuffer(column) for name, column in self.scores.items()}
        ranges = {
            name: (float(np.nanmin(column)), float(np.nanmax(column)))
            for name, column in scores.items()
            if np.isfinite(column).any()
        }
        signatures = list(self.signatures)
        dimensions, assumed = scales_of(ranges, signatures, self.options.rubric)
        columns = {
            name: TextColumn(np.array(each.codes, dtype=np.int64), list(each.known))
            for name, each in self.columns.items()
            if each.known
        }
        self._require_columns(columns)
        marks = np.array(self.marks, dtype=np.int64)
        clusters, cluster_name = self._clusters(marks, columns)
        return Traffic(
            dimensions=dimensions,
            scores={name: scores[name] for name in dimensions},
            signatures=dict(self.signatures),
            marks=marks,
            turns=np.array(self.turns, dtype=np.int64),
            uncertainty=_filled(np.array(self.uncertainty), scores, dimensions),
            clusters=clusters,
            cluster_name=cluster_name,
            columns=columns,
            times=np.array(self.times) if self.options.over is not None else None,
            sizes=self.sizes,
            failures=self.failures,
            scored=self.scored,
            unknown_languages=self.languages,
            assumed=assumed,
            notes=self._notes(columns),
        )

    def _require_one_judge(self) -> None:
        """A version of this package is no other judge."""
        kinds = {text.partition("|version:")[0] for text in self.signatures}
        if len(kinds) > 1:
            names = sorted({Signature.parse(text).judge for text in self.signatures})
            raise DataError(
                "the scores", None, f"they were made by {len(kinds)} judges ({', '.join(names)})",
                hint="score all chats with one judge and one setting, or report on each file apart",
            )  # fmt: skip

    def _require_columns(self, columns: Mapping[str, TextColumn]) -> None:
        asked = [*self.options.by, *([self.options.cluster] if self.options.cluster else [])]
        over = self.options.over
        if over is not None and self.marks and not np.isfinite(np.array(self.times)).any():
            if self.bad_time is not None:
                raise ConfigError(
                    f"--over {over.column}: no row has a readable time; the first is "
                    f"{self.bad_time!r}",
                    hint="a time is ISO 8601 (2026-03-14T09:05:00Z), or epoch seconds or ms",
                )
            asked.append(over.column)
        for name in asked:
            if self.marks and name not in columns:
                known = [*columns, *self.seen]
                have = (
                    f"there are: {', '.join(dict.fromkeys(known))}" if known else "there are none"
                )
                raise ConfigError(
                    f"no column {name!r} in the scores or the chats",
                    hint=f"{did_you_mean(name, known)}{have}; columns come from "
                    "`medal score --keep COLUMN`, or from the chats themselves with --chats FILE",
                )

    def _clusters(self, marks: Codes, columns: Mapping[str, TextColumn]) -> tuple[Codes, str]:
        _, dialogue = np.unique(marks, return_inverse=True)
        name = self.options.cluster
        if name is None or name not in columns:
            return dialogue, "conversation"
        codes = columns[name].codes
        # Who has no value there is a cluster alone.
        return np.where(codes >= 0, codes, len(columns[name].names) + dialogue), name

    def _notes(self, columns: Mapping[str, TextColumn]) -> list[str]:
        notes = []
        rows = len(self.marks)
        if self.sizes and self.joined < rows:
            notes.append(f"{rows - self.joined:,} of {rows:,} rows have no chat of their id")
        for name in dict.fromkeys((*self.options.by, self.options.cluster)):
            if (
                name is not None
                and name in columns
                and (none := int((columns[name].codes < 0).sum()))
            ):
                notes.append(f"{none:,} of {rows:,} rows have no {name}")
        if none := int((~np.isfinite(np.array(self.times))).sum()):
            notes.append(f"{none:,} of {rows:,} rows have no readable time: not in the timeline")
        return notes


def uncertainty_of(judgement: Judgement, dimensions: Sequence[str] = ()) -> float:
    """How unsure the judge is of a row, from 0 to 0.5: the mean over dimensions of the standard
    deviation of its distribution as a share of the scale; NaN where there is none."""
    known = []
    for name in dimensions or judgement.scores:
        spread = judgement.uncertainty(name)
        if spread is not None:
            known.append(spread)
    return sum(known) / len(known) if known else math.nan


def _filled(
    uncertainty: Floats, scores: Mapping[str, Floats], dimensions: Mapping[str, Dimension]
) -> Floats:
    """Rows without a distribution get the mean standard deviation of their binary scores, which are
    distributions too."""
    binary = [scores[name] for name, d in dimensions.items() if d.kind == "binary"]
    if not binary or np.isfinite(uncertainty).all():
        return uncertainty
    table = np.clip(np.array(binary), 0, 1)
    known = np.isfinite(table)
    spread = np.sqrt(np.where(known, table * (1 - table), 0.0)).sum(axis=0)
    mean = np.divide(spread, known.sum(axis=0), where=known.any(axis=0),
                     out=np.full(table.shape[1], math.nan))  # fmt: skip
    return np.where(np.isfinite(uncertainty), uncertainty, mean)


def _batches(dialogues: Iterable[Dialogue]) -> Iterator[list[Dialogue]]:
    stream = iter(dialogues)
    while batch := list(islice(stream, _BATCH)):
        yield batch
