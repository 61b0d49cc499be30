"""Scores: the judgements of a file as columns, with the columns of the chats and their scales."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError, DataError, did_you_mean
from medal_judges.eval.report.options import ReportOptions, seconds
from medal_judges.inference.metadata import metadata_of
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.languages import UNKNOWN_LANGUAGE
from medal_judges.records.signature import Signature, content_hash
from medal_judges.stats.correlation import Floats

if TYPE_CHECKING:
    from pandas import Categorical, DataFrame, Series

ALWAYS = ("lang", "chatbot")  # columns that are used if they are known
HEADLINE = "overall"
THRESHOLD = 0.5  # an issue of this probability or more is present
Codes = npt.NDArray[np.int64]


@dataclass(slots=True)
class Scores:
    """The judgements of one judge, a row each (a dialogue or a judged turn). ``frame`` is what
    ``read_frame`` returns; all arrays have its rows.

    ``scores``: by dimension, NaN if unscored. ``clusters`` number the sampling units, called
    ``cluster_name``. ``uncertainty``: see Judgement.uncertainty, NaN if unknown. ``columns``:
    texts, code -1 for none. ``times``: seconds since 1970. ``sizes``: turns and characters, NaN
    without the text. ``assumed``: dimensions that no rubric knows. ``people``: mean human label on
    the judge's scale or NaN; ``people_weights``: rows that a labelled one represents, None for a
    random sample.
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
    sizes: Mapping[str, Floats] = field(default_factory=dict)
    assumed: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)
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

    def failures(self, most: int = 3) -> str:
        """The most frequent reasons of unscored rows."""
        reasons = self.frame["failure"][~self.is_scored].fillna("no reason given").value_counts()
        return "; ".join(f"{n:,} × {reason}" for reason, n in reasons[:most].items())

    @property
    def issues(self) -> list[str]:
        return [name for name, d in self.dimensions.items() if d.kind == "binary"]

    @property
    def graded(self) -> list[str]:
        """Graded dimensions, the headline first."""
        names = [name for name, d in self.dimensions.items() if d.kind != "binary"]
        return sorted(names, key=lambda name: name != HEADLINE)

    @property
    def headline(self) -> str | None:
        """``overall``, or else the first graded dimension."""
        return next(iter(self.graded), None)

    @property
    def unit(self) -> str:
        """What a row is, in words."""
        return "judged turn" if self.frame["turn"].notna().any() else "conversation"

    def values(self, name: str) -> Floats:
        """Scores of a graded dimension, 1 or 0 of an issue (present or not), NaN if unscored."""
        if name not in self._values:
            scores = self.scores[name]
            if self.dimensions[name].kind == "binary":
                scores = np.where(np.isfinite(scores), (scores >= THRESHOLD) * 1.0, np.nan)
            self._values[name] = scores
        return self._values[name]


def load_scores(
    frame: DataFrame,
    options: ReportOptions,
    dialogues: Iterable[Dialogue] | None = None,
    progress: Callable[[int], object] = lambda count: None,
) -> Scores:
    """The scores of a table of judgements; ``dialogues``, matched by id, add the columns that it
    lacks.

    Raises ConfigError for an unknown column or dimension, DataError for scores of several judges.
    """
    import pandas

    judges, rows = list(frame["judge"].unique()), len(frame)
    if len({text.partition("|version:")[0] for text in judges}) > 1:
        names = ", ".join(sorted({Signature.parse(text).judge for text in judges}))
        hint = "score all chats with one judge and one setting, or make one report a file"
        raise DataError("the scores", None, f"several judges made them ({names})", hint=hint)
    judged = frame.attrs["dimensions"]
    for name in options.dimensions:
        if name not in judged and rows:
            hint = f"{did_you_mean(name, judged)}they have: {', '.join(judged)}"
            raise ConfigError(f"the scores have no dimension {name!r}", hint=hint)
    every = {
        name: frame[judged[name]].to_numpy(np.float64)
        for name in options.dimensions or judged
        if name in judged
    }
    scores = {name: column for name, column in every.items() if np.isfinite(column).any()}
    whole = np.isfinite(np.array(list(every.values()))).all(axis=0) if every else np.False_
    dimensions, assumed = _scales(scores, judges, options.rubric)
    codes, ids = frame["id"].factorize()
    wanted = [*options.by, *filter(None, [options.cluster])]
    over = options.period[0] if options.period is not None else None
    texts, sizes, seen = _joined(
        frame, codes, ids, {*ALWAYS, *wanted, *filter(None, [over])}, dialogues, progress
    )
    times = None if over is None else seconds(texts[over])
    columns = {}
    for name in dict.fromkeys((*ALWAYS, *wanted)):
        places, names = texts[name].map(as_text, na_action="ignore").factorize()
        if len(names):
            columns[name] = pandas.Categorical.from_codes(places, categories=names)
    if over is not None and times is not None and rows and np.isnan(times).all():
        if texts[over].notna().any():
            raise ConfigError(
                f"--over {over}: no row has a readable time; the first is "
                f"{texts[over].dropna().iloc[0]!r}",
                hint="a time is ISO 8601 (2026-03-14T09:05:00Z), or epoch seconds or ms",
            )
        wanted.append(over)
    for name in wanted if rows else ():
        if name not in columns:
            known = list(dict.fromkeys((*columns, *seen)))
            have = f"there are: {', '.join(known)}" if known else "there are none"
            raise ConfigError(
                f"no column {name!r} in the scores or the chats",
                hint=f"{did_you_mean(name, known)}{have}; columns come from "
                "`medal score --keep COLUMN`, or from the chats themselves with --chats FILE",
            )
    clusters, cluster_name = codes.astype(np.int64), "conversation"
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
    missing = {f"have no {name}": columns[name].codes < 0 for name in wanted if name in columns}
    if sizes:
        missing = {"have no chat of their id": np.isnan(sizes["turns"])} | missing
    if times is not None:
        missing["have no readable time: not in the timeline"] = np.isnan(times)
    notes = [f"{n:,} of {rows:,} rows {what}" for what, m in missing.items() if (n := int(m.sum()))]
    is_scored = np.broadcast_to(whole, rows)
    return Scores(
        frame, dimensions, scores, clusters, cluster_name, uncertainty, is_scored, columns, times,
        sizes, assumed, notes,
    )  # fmt: skip


def as_text(value: object) -> str | None:
    """A value of a column as text; None if there is none."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or value != value:
        return None
    return json.dumps(value, ensure_ascii=False, default=str)[:200]


def _joined(
    frame: DataFrame,
    codes: npt.NDArray[np.intp],
    ids: Sequence[str],
    wanted: Iterable[str],
    dialogues: Iterable[Dialogue] | None,
    progress: Callable[[int], object],
) -> tuple[dict[str, Series], dict[str, Floats], list[str]]:
    """The ``wanted`` columns and the sizes of the dialogues, a value a row, and all column names:
    from the metadata of the judgements, and if missing there from the dialogues."""
    import pandas

    meta = frame.attrs["meta"]
    seen = dict.fromkeys(meta)
    texts, sizes = {}, {}
    for name in wanted:
        column = pandas.Series([None] * len(frame), dtype=object)
        if name in meta:
            column = frame[meta[name]].astype(object)
        texts[name] = column.where(column.notna() & (column != ""), None)
    lang = texts["lang"].where(texts["lang"] != UNKNOWN_LANGUAGE, None)
    if "detected_language" in frame:
        lang = lang.where(lang.notna(), frame["detected_language"])
    texts["lang"] = lang
    if dialogues is not None:
        place = {id: i for i, id in enumerate(ids)}
        own = {name: np.full(len(ids), None, dtype=object) for name in texts}
        size = {name: np.full(len(ids), math.nan) for name in ("turns", "characters")}
        same: dict[str, str] = {}  # one object for all rows of an equal text
        for number, dialogue in enumerate(dialogues):
            seen.update(dict.fromkeys(dialogue.meta))
            if not number % 1000:
                progress(1000)
            if (i := place.get(dialogue.id)) is not None:
                size["turns"][i] = len(dialogue.turns)
                size["characters"][i] = sum(len(turn.content) for turn in dialogue.turns)
                for name, value in metadata_of(dialogue, list(texts)).items():
                    is_text = isinstance(value, str)
                    own[name][i] = same.setdefault(value, value) if is_text else value
        if len(frame) and np.isnan(size["turns"]).all():
            hint = "--chats is the file that was scored"
            raise ConfigError("no id of the scores is an id of the chats", hint=hint)
        for name, column in texts.items():
            texts[name] = column.where(column.notna(), pandas.Series(own[name][codes]))
        sizes = {name: column[codes] for name, column in size.items()}
    return texts, sizes, list(seen)


def _scales(
    scores: Mapping[str, Floats], signatures: Sequence[str], rubric: str | None
) -> tuple[dict[str, Dimension], list[str]]:
    """The dimension of each name, and the names that no rubric knows. A judgement has only numbers;
    their scale is in a rubric.

    A stated ``rubric`` comes first, then the shipped one that the judge's signature names by its
    hash, then the smallest shipped one that has all names, then for each name the narrowest shipped
    scale that holds its scores. A name that no rubric knows is graded over its own range, higher
    being better.
    """

    def holds(d: Dimension) -> bool:
        values = scores[d.name]
        return bool(d.low - 1e-6 <= np.nanmin(values) and np.nanmax(values) <= d.high + 1e-6)

    fitting = [{d.name: d for d in each if d.name in scores and holds(d)} for each in _shipped()]
    hashes = {Signature.parse(text).rubric for text in signatures}
    named = [each for each in _shipped() if content_hash([d.to_record() for d in each]) in hashes]
    covering = [s for s, f in zip(_shipped(), fitting, strict=True) if len(f) == len(scores)]
    known = {} if rubric is None else {d.name: d for d in load_rubric(rubric)}
    for dimensions in [*named, *sorted(covering, key=len)[:1]]:
        known = {d.name: d for d in dimensions} | known
    found, assumed = {}, []
    for name, values in scores.items():
        narrow = [each[name] for each in fitting if name in each]
        dimension = known.get(name) or min(narrow, key=lambda d: d.high - d.low, default=None)
        if dimension is None:
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            dimension = Dimension(name, "continuous", low, high if high > low else low + 1)
            assumed.append(name)
        found[name] = dimension
    return found, assumed


@cache
def _shipped() -> tuple[tuple[Dimension, ...], ...]:
    folder = files("medal_judges.configs") / "rubrics"
    names = sorted(path.name.removesuffix(".yaml") for path in folder.iterdir())
    return tuple(load_rubric(name) for name in names)
