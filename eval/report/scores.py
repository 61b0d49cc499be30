"""Scores: the judgements of a file as columns, with the columns of the chats and their scales."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError, DataError, MedalError, did_you_mean
from medal_judges.eval.report.options import ReportOptions, seconds
from medal_judges.inference.metadata import metadata_of
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, Dialogue
from medal_judges.records.dimension import Dimension, known_dimensions, merge_dimensions
from medal_judges.records.joining import ScoreKey, join_labels
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, mean, rescale
from medal_judges.records.signature import Signature
from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import present
from medal_judges.stats.weights import curation_weights
from medal_judges.storage.judgements import (
    holds_judgements,
    read_frame,
    read_judgements,
    stated_dimensions,
    to_frame,
)

if TYPE_CHECKING:
    from pandas import Categorical, DataFrame, Series
ALWAYS = ("lang", "chatbot")  # columns that are used if they are known
HEADLINE = "overall"
_NUMBER = re.compile(r"#\d+$")  # of an id that reading has numbered
Codes = npt.NDArray[np.int64]


def score_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files of judgements of ``paths``: each file, and those in each folder, sorted by name.
    Raises MedalError for a folder without any."""
    found = []
    for path in map(Path, paths):
        inside = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else []
        # Beside a table are the lines that it was made of.
        inside = [each for each in inside if each.with_name(each.stem) not in inside]
        files = [each for each in inside if holds_judgements(each)] if path.is_dir() else [path]
        if not files:
            raise MedalError(f"{path}: the folder has no file of scores", hint="medal score --out")
        found += files
    return list(dict.fromkeys(found))


def judgements_of(files: Sequence[Path]) -> Iterator[Judgement]:
    """Yields the judgements of all files. Raises MedalError for one (id, turn) in two files, and
    for two files whose dimensions of one name differ."""
    seen: dict[int, Path] = {}
    stated: list[tuple[str, Sequence[Dimension]]] = []
    for path in files:
        for judgement in read_judgements(path):
            if not stated or stated[-1] != (str(path), judgement.dimensions):
                stated.append((str(path), judgement.dimensions))
                merge_dimensions(stated)
            key = hash((judgement.id, judgement.turn))
            if len(files) > 1 and seen.setdefault(key, path) != path:
                raise MedalError(
                    f"{judgement.id!r} is in {seen[key]} and in {path}",
                    hint="report each file on its own, or give the chats ids that differ",
                )
            yield judgement


def frame_of(files: Sequence[Path]) -> DataFrame:
    """The table of all files, without explanations and usage."""
    if len(files) == 1:
        return read_frame(files[0], brief=True)
    return to_frame(replace(each, explanation=None, usage={}) for each in judgements_of(files))


@dataclass(slots=True)
class Scores:
    """The judgements of one judge, one row for each dialogue or judged turn. ``frame`` is the
    result of ``read_frame``; all arrays have the same rows.

    ``scores``: by dimension, NaN if unscored. ``clusters``: the number of each row's sampling unit,
    ``cluster_name`` its kind. ``uncertainty``: see Judgement.uncertainty, NaN if unknown.
    ``columns``: texts, with code -1 for no value. ``times``: seconds since 1970. ``people``: mean
    human label on the judge's scale, or NaN.
    ``people_weights``: how many rows a labelled row represents, None for a random sample.
    """

    frame: DataFrame
    dimensions: Mapping[str, Dimension]
    scores: Mapping[str, Floats]
    clusters: Codes
    cluster_name: str
    uncertainty: Floats
    is_scored: npt.NDArray[np.bool_]
    columns: Mapping[str, Categorical] = field(default_factory=dict)
    times: Floats | None = None
    notes: list[str] = field(default_factory=list)
    skipped: int = 0  # unreadable lines of the input
    people: dict[str, Floats] = field(default_factory=dict)
    people_weights: Floats | None = None
    _values: dict[str, Floats] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.frame)

    @property
    def scored(self) -> int:
        """Rows with a number in every dimension."""
        return int(self.is_scored.sum())

    @property
    def coverage(self) -> float | None:
        """Share of scored rows; None for an empty file."""
        return self.scored / self.rows if self.rows else None

    @property
    def signatures(self) -> dict[str, int]:
        """Rows of each signature."""
        return {str(k): int(n) for k, n in self.frame["judge"].value_counts(sort=False).items()}

    def failures(self) -> str:
        """The three most frequent reasons of unscored rows."""
        reasons = self.frame["failure"][~self.is_scored].fillna("no reason given").value_counts()
        return "; ".join(f"{n:,} × {reason}" for reason, n in reasons[:3].items())

    @property
    def issues(self) -> list[str]:
        return [name for name in self.dimensions if self.is_issue(name)]

    @property
    def graded(self) -> list[str]:
        """Graded dimensions, the headline first."""
        names = [name for name in self.dimensions if not self.is_issue(name)]
        return sorted(names, key=lambda name: name != HEADLINE)

    @property
    def headline(self) -> str | None:
        """``overall``, or else the first graded dimension."""
        return next(iter(self.graded), None)

    @property
    def unit(self) -> str:
        """The name of a row: judged turn or conversation."""
        return "judged turn" if self.frame["turn"].notna().any() else "conversation"

    def is_issue(self, name: str) -> bool:
        """Whether a dimension is an issue, present or not; its figure is a share of rows."""
        return self.dimensions[name].kind == "binary"

    def values(self, name: str) -> Floats:
        """Scores of a graded dimension, 1 or 0 of an issue (present or not), NaN if unscored."""
        if name not in self._values:
            scores = self.scores[name]
            if self.is_issue(name):
                scores = np.where(np.isfinite(scores), present(scores) * 1.0, np.nan)
            self._values[name] = scores
        return self._values[name]


def load_scores(
    frame: DataFrame,
    options: ReportOptions,
    dialogues: Iterable[Dialogue] | None = None,
    progress: Callable[[int], object] = lambda count: None,
) -> Scores:
    """Loads the scores of a table of judgements. Columns that it lacks come from ``dialogues``,
    matched by id.

    Raises ConfigError for an unknown column or dimension, and for one whose scale neither the
    scores nor a rubric state; and DataError for scores of several judges.
    """
    import pandas

    judges, rows = list(frame["judge"].unique()), len(frame)
    if len({text.partition("|version:")[0] for text in judges}) > 1:
        names = ", ".join(sorted({Signature.parse(text).judge for text in judges}))
        hint = "score all chats with one judge and one setting, or make one report for each file"
        raise DataError("the scores", None, f"several judges made them ({names})", hint=hint)
    judged = frame.attrs["dimensions"]
    for name in options.dimensions:
        if name not in judged and rows:
            hint = f"{did_you_mean(name, judged)}they have: {', '.join(judged)}"
            raise ConfigError(f"the scores have no dimension {name!r}", hint=hint)
    asked = [name for name in options.dimensions or judged if name in judged]
    every = {name: frame[judged[name]].to_numpy(np.float64) for name in asked}
    scores = {name: column for name, column in every.items() if np.isfinite(column).any()}
    whole = np.isfinite(np.array(list(every.values()))).all(axis=0) if every else np.False_
    stated = [(", ".join(options.scores), stated_dimensions(frame))]
    dimensions = checked_dimensions(scores, stated, options.rubric)
    wanted = [*options.by, *filter(None, [options.cluster])]
    over = options.period[0] if options.period is not None else None
    texts, seen, has_chat = _columns(
        frame, {*ALWAYS, *wanted, *filter(None, [over])}, dialogues, progress
    )
    columns = {}
    for name in dict.fromkeys((*ALWAYS, *wanted)):
        places, names = texts[name].map(_as_text, na_action="ignore").factorize()
        if len(names):
            columns[name] = pandas.Categorical.from_codes(places, categories=names)
    missing = {} if has_chat is None else {"have no chat, by id and text": ~has_chat}
    missing |= {f"have no {name}": columns[name].codes < 0 for name in wanted if name in columns}
    times = None if over is None else seconds(texts[over])
    if over is not None and times is not None:
        missing["have no readable time: not in the timeline"] = np.isnan(times)
        if rows and np.isnan(times).all():
            if texts[over].notna().any():
                raise ConfigError(
                    f"--over {over}: no row has a readable time; the first is "
                    f"{texts[over].dropna().iloc[0]!r}",
                    hint="a time is ISO 8601 (2026-03-14T09:05:00Z), 14.03.2026, or epoch seconds",
                )
            wanted.append(over)
    for name in wanted if rows else ():
        if name not in columns:
            known = [each for each in dict.fromkeys((*columns, *seen)) if each != name]
            have = f"there are: {', '.join(known)}" if known else "there are none"
            raise ConfigError(
                f"no column {name!r} with a value in the scores or the chats",
                hint=f"{did_you_mean(name, known)}{have}; columns come from "
                "`medal score --keep COLUMN`, or from the chats themselves with --chats FILE",
            )
    clusters, cluster_name = frame["id"].factorize()[0].astype(np.int64), "conversation"
    if options.cluster is not None and options.cluster in columns:
        own, cluster_name = columns[options.cluster], options.cluster
        # A row without a value is its own cluster.
        clusters = np.where(own.codes >= 0, own.codes, len(own.categories) + clusters)
    spreads = frame[[column for name in every if (column := f"{name}.uncertainty") in frame]]
    uncertainty: Floats = spreads.mean(axis=1).to_numpy(np.float64, na_value=np.nan)
    binary = [scores[name] for name, d in dimensions.items() if d.kind == "binary"]
    if binary and np.isnan(uncertainty).any():  # probabilities are distributions too
        chances = pandas.DataFrame(np.clip(np.array(binary), 0, 1))
        spread = np.sqrt(chances * (1 - chances)).mean(axis=0).to_numpy()
        uncertainty = np.where(np.isnan(uncertainty), spread, uncertainty)
    notes = [f"{n:,} of {rows:,} rows {what}" for what, m in missing.items() if (n := int(m.sum()))]
    is_scored = np.broadcast_to(whole, rows)
    return Scores(
        frame, dimensions, scores, clusters, cluster_name, uncertainty, is_scored, columns, times,
        notes,
    )  # fmt: skip


def checked_dimensions(
    scores: Mapping[str, Floats],
    stated: Iterable[tuple[str, Iterable[Dimension]]],
    rubric: str | None,
) -> dict[str, Dimension]:
    """Returns ``known_dimensions`` of the scores. Raises ConfigError also for a rubric whose scale
    does not hold them."""
    dimensions = known_dimensions(scores, stated, rubric)
    for name, dimension in dimensions.items() if rubric is not None else ():
        far = dimension.tolerance
        for score in (np.nanmin(scores[name]), np.nanmax(scores[name])):
            if not dimension.low - far <= score <= dimension.high + far:
                raise ConfigError(
                    f"--rubric {rubric}: the scale of {name} is from {dimension.low:g} to "
                    f"{dimension.high:g}, but a score is {score:g}",
                    hint="correct `low` and `high`",
                )
    return dimensions


def _as_text(value: object) -> str | None:
    if isinstance(value, str):
        return value or None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or value != value:
        return None
    return json.dumps(value, ensure_ascii=False, default=str)[:200]


def _columns(
    frame: DataFrame,
    wanted: Iterable[str],
    dialogues: Iterable[Dialogue] | None,
    progress: Callable[[int], object],
) -> tuple[dict[str, Series], list[str], npt.NDArray[np.bool_] | None]:
    """The ``wanted`` columns, the names of all columns, and which rows have a dialogue. Values come
    from the metadata of the judgements, or else from the dialogues."""
    import pandas

    meta = frame.attrs["meta"]
    seen, texts = dict.fromkeys(meta), {}
    for name in wanted:
        column = pandas.Series([None] * len(frame), dtype=object)
        if name in meta:
            column = frame[meta[name]].astype(object)
        texts[name] = column.where(column.notna() & (column != ""), None)
    lang = texts["lang"].where(texts["lang"] != UNKNOWN_LANGUAGE, None)
    if "detected_language" in frame:
        lang = lang.where(lang.notna(), frame["detected_language"])
    texts["lang"] = lang
    if dialogues is None:
        return texts, list(seen), None
    codes, ids = frame["id"].factorize()
    keys = {key.id: (i, key) for i, key in enumerate(_keys(frame.drop_duplicates("id")))}
    has_chat = np.zeros(len(ids), dtype=bool)
    own = {name: np.full(len(ids), None, dtype=object) for name in texts}
    same: dict[str, str] = {}  # one object for all rows of an equal text
    for count, dialogue in enumerate(dialogues):
        seen.update(dict.fromkeys(dialogue.meta))
        if not count % 1000:
            progress(1000)
        i, key = keys.get(dialogue.id, (0, None))
        if key is not None and key.is_of(dialogue):
            has_chat[i] = True
            for name, value in metadata_of(dialogue, list(texts)).items():
                own[name][i] = same.setdefault(value, value) if isinstance(value, str) else value
    if len(frame) and not has_chat.any():
        hint = "--chats is the file that was scored"
        raise ConfigError("no chat of the scores is among the chats, by id and text", hint=hint)
    for name, column in texts.items():
        texts[name] = column.where(column.notna(), pandas.Series(own[name][codes]))
    return texts, list(seen), has_chat[codes]


def score_keys(
    frame: DataFrame, labels: Sequence[LabelledDialogue]
) -> tuple[list[int], list[ScoreKey]]:
    """Returns the rows that labels can be of, by their ids without numbers, and their keys."""
    wanted = {_NUMBER.sub("", label.id) for label in labels}
    ids = frame["id"].str.replace(_NUMBER, "", regex=True)
    rows = np.flatnonzero(ids.isin(wanted)).tolist()
    return rows, _keys(frame.iloc[rows])


def _keys(frame: DataFrame) -> list[ScoreKey]:
    """Returns the key of each row of a table of judgements."""
    columns = frame.reindex(columns=["id", "turn", "chat"]).astype(object)
    columns = columns.where(columns.notna(), None)
    return list(map(ScoreKey, columns["id"], columns["turn"], columns["chat"]))


def add_labels(
    scores: Scores, path: str, rows: Iterable[LabelledDialogue]
) -> dict[int, LabelledDialogue]:
    """Adds to ``scores`` the mean label of each labelled row, on the judge's scale, and notes.
    Returns the labelled rows by their place; labels and scores match by id and chat, and by turn if
    turns are judged.

    Raises DataError if no row or no dimension is both judged and labelled, or a label is not on the
    judge's scale; and MedalError if labels are of other chats, see JoinedLabels.
    """
    name, listed = Path(path).name, list(rows)
    candidates, keys = score_keys(scores.frame, listed)
    joined = join_labels(listed, keys, lambda label, score: label.turn == score.turn)
    notes = joined.notes(name)
    labelled = {}
    for row, places in zip(listed, joined.score_rows, strict=True):
        labelled.update({candidates[place]: row for place in places})
    if not labelled:
        hint = "labels match scored rows by id, and by turn if turns are judged"
        raise DataError(name, None, "none of its rows is among the scores", hint=hint)
    names = list(dict.fromkeys(each for row in labelled.values() for each in row.labels))
    if not any(each in scores.dimensions for each in names):
        near = did_you_mean(names[0] if names else "", scores.dimensions)
        raise DataError(
            name, None, f"its labels are of {', '.join(names) or 'nothing'}, which was not judged",
            hint=f"{near}the scores have: {', '.join(scores.dimensions)}",
        )  # fmt: skip
    for place, row in labelled.items():
        for rating in row.ratings():
            value, dimension = mean(rating), scores.dimensions.get(rating.dimension)
            if value is None or dimension is None:
                continue
            scale = dimension.low, dimension.high
            if rating.scale is not None:
                value = rescale(value, rating.scale, scale)
            elif not scale[0] <= value <= scale[1]:
                raise DataError(
                    name, None,
                    f"{row.id}: {dimension.name} {value:g} is outside the judge's scale from "
                    f"{scale[0]:g} to {scale[1]:g}",
                    hint='state the scale of the labels: "scales": {"NAME": [lowest, highest]}',
                )  # fmt: skip
            column = scores.people.setdefault(dimension.name, np.full(scores.rows, math.nan))
            column[place] = value
    if weights := curation_weights(list(labelled.values()), name):
        scores.people_weights = np.zeros(scores.rows)
        scores.people_weights[list(labelled)] = weights
    unmatched = len(joined.absent)
    other = [each for each in names if each not in scores.dimensions]
    missing = [each for each in scores.dimensions if each not in scores.people]
    scores.notes += [
        *notes,
        f"{len(labelled):,} of {scores.rows:,} {scores.unit}s have human labels ({name})",
        *([f"{unmatched:,} labelled rows are not among the scores: skipped"] if unmatched else []),
        *([f"Labelled but not judged: {', '.join(other)}"] if other else []),
        *([f"No labels of {', '.join(missing)}: not corrected"] if missing else []),
    ]
    return labelled
