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
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.times import seconds
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
Range = tuple[float, float]


@dataclass(slots=True)
class Scores:
    """The judgements of one judge, a row each (a dialogue or a judged turn).

    ``frame`` is what ``storage.judgements.read_frame`` returns; all arrays below have its rows.
    ``scores``: a column a dimension, NaN if unscored. ``columns``: text columns, code -1 if a row
    has no value. ``clusters`` number the sampling units, ``cluster_name`` says what they are.
    ``uncertainty``: see Judgement.uncertainty, NaN if unknown. ``times``: seconds since 1970.
    ``sizes``: turns and characters of each dialogue, NaN without its text. ``assumed``: dimensions
    that no rubric knows. ``people``: mean human label on the judge's scale, NaN without one;
    ``people_weights``: rows that a labelled one represents, None for a random sample.
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
    kinds = {text.partition("|version:")[0] for text in frame["judge"].unique()}
    if len(kinds) > 1:  # another version of this package is the same judge
        names = sorted({Signature.parse(text).judge for text in frame["judge"].unique()})
        raise DataError(
            "the scores", None, f"{len(kinds)} judges made them ({', '.join(names)})",
            hint="score all chats with one judge and one setting, or make one report a file",
        )  # fmt: skip
    judged = frame.attrs["dimensions"]
    for name in options.dimensions:
        if name not in judged and len(frame):
            raise ConfigError(
                f"the scores have no dimension {name!r}",
                hint=f"{did_you_mean(name, judged)}they have: {', '.join(judged)}",
            )
    names = [name for name in options.dimensions or judged if name in judged]
    every = {name: frame[judged[name]].to_numpy(np.float64) for name in names}
    scores = {name: column for name, column in every.items() if np.isfinite(column).any()}
    dimensions, assumed = _scales(scores, list(frame["judge"].unique()), options.rubric)
    whole = np.isfinite(np.array(list(every.values()))).all(axis=0) if every else False
    codes, ids = frame["id"].factorize()
    wanted = list(dict.fromkeys((*ALWAYS, *options.by, *filter(None, [options.cluster]))))
    if options.period is not None:
        wanted.append(options.period[0])
    texts, sizes, seen = _joined(frame, codes, ids, wanted, dialogues, progress)
    times = seconds(texts[options.period[0]]) if options.period is not None else None
    columns = {}
    for name in wanted if times is None else wanted[:-1]:
        values = texts[name].map(as_text, na_action="ignore")
        if values.notna().any():
            columns[name] = _categories(values)
    if len(frame):
        _require_columns(options, columns, texts, times, seen)
    clusters, cluster_name = codes.astype(np.int64), "conversation"
    if options.cluster is not None and options.cluster in columns:
        own = columns[options.cluster]
        # A row without a value is its own cluster.
        clusters = np.where(own.codes >= 0, own.codes, len(own.categories) + clusters)
        cluster_name = options.cluster
    found = Scores(
        frame,
        dimensions,
        scores,
        clusters,
        cluster_name,
        _uncertainty(frame, names, scores, dimensions),
        np.broadcast_to(whole, len(frame)),
        columns,
        times,
        sizes,
        assumed,
    )
    for count, what in (
        (int(np.isnan(sizes["turns"]).sum()) if sizes else 0, "have no chat of their id"),
        *(
            (int((columns[name].codes < 0).sum()), f"have no {name}")
            for name in dict.fromkeys((*options.by, options.cluster))
            if name in columns
        ),
        (
            0 if times is None else int(np.isnan(times).sum()),
            "have no readable time: not in the timeline",
        ),
    ):
        if count:
            found.notes.append(f"{count:,} of {len(frame):,} rows {what}")
    return found


def as_text(value: object) -> str | None:
    """A value of a column as text; None if there is none."""
    if isinstance(value, str):
        return value or None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, default=str)[:200]


def _joined(
    frame: DataFrame,
    codes: npt.NDArray[np.intp],
    ids: Sequence[str],
    wanted: Sequence[str],
    dialogues: Iterable[Dialogue] | None,
    progress: Callable[[int], object],
) -> tuple[dict[str, Series], dict[str, Floats], list[str]]:
    """The ``wanted`` columns and the sizes of the dialogues, a value a row, and all column names:
    from the metadata of the judgements, and if missing there from the dialogues."""
    import pandas

    meta = frame.attrs["meta"]
    nothing = pandas.Series([None] * len(frame), dtype=object)
    texts = {n: frame[meta[n]].astype(object) if n in meta else nothing for n in wanted}
    texts = {n: column.where(column.notna() & (column != ""), None) for n, column in texts.items()}
    lang = texts["lang"]
    if "detected_language" in frame:
        known = lang.notna() & (lang != UNKNOWN_LANGUAGE)
        texts["lang"] = lang.where(known, frame["detected_language"])
    seen, sizes = dict.fromkeys(meta), {}
    if dialogues is not None:
        place = {id: i for i, id in enumerate(ids)}
        own = {name: np.full(len(ids), None, dtype=object) for name in wanted}
        size = {name: np.full(len(ids), math.nan) for name in ("turns", "characters")}
        same: dict[object, object] = {}  # one object for all rows of an equal text
        for dialogue in dialogues:
            seen.update(dict.fromkeys(dialogue.meta))
            progress(1)
            i = place.get(dialogue.id)
            if i is None:
                continue
            size["turns"][i] = len(dialogue.turns)
            size["characters"][i] = sum(len(turn.content) for turn in dialogue.turns)
            for name, value in metadata_of(dialogue, wanted).items():
                own[name][i] = same.setdefault(value, value) if isinstance(value, str) else value
        if len(frame) and not np.isfinite(size["turns"]).any():
            raise ConfigError(
                "no id of the scores is an id of the chats",
                hint="--chats is the file that was scored",
            )
        for name in wanted:
            more = pandas.Series(own[name][codes], dtype=object)
            texts[name] = texts[name].where(texts[name].notna(), more)
        sizes = {name: column[codes] for name, column in size.items()}
    lang = texts["lang"]
    texts["lang"] = lang.where(lang != UNKNOWN_LANGUAGE, None)
    return texts, sizes, list(seen)


def _categories(values: Series) -> Categorical:
    import pandas

    codes, names = values.factorize()
    return pandas.Categorical.from_codes(codes, categories=names)


def _require_columns(
    options: ReportOptions,
    columns: Mapping[str, Categorical],
    texts: Mapping[str, Series],
    times: Floats | None,
    seen: Sequence[str],
) -> None:
    wanted = [*options.by, *filter(None, [options.cluster])]
    if times is not None and options.period is not None and not np.isfinite(times).any():
        column = options.period[0]
        bad = texts[column].dropna()
        if len(bad):
            raise ConfigError(
                f"--over {column}: no row has a readable time; the first is {bad.iloc[0]!r}",
                hint="a time is ISO 8601 (2026-03-14T09:05:00Z), or epoch seconds or ms",
            )
        wanted.append(column)
    for name in wanted:
        if name not in columns:
            known = list(dict.fromkeys((*columns, *seen)))
            have = f"there are: {', '.join(known)}" if known else "there are none"
            raise ConfigError(
                f"no column {name!r} in the scores or the chats",
                hint=f"{did_you_mean(name, known)}{have}; columns come from "
                "`medal score --keep COLUMN`, or from the chats themselves with --chats FILE",
            )


def _uncertainty(
    frame: DataFrame,
    names: Sequence[str],
    scores: Mapping[str, Floats],
    dimensions: Mapping[str, Dimension],
) -> Floats:
    """The mean over dimensions of the standard deviation of the distribution as a share of the
    scale, from 0 to 0.5. Rows without a distribution use their binary scores, which are
    distributions too; NaN without either."""
    spreads = frame[[column for name in names if (column := f"{name}.uncertainty") in frame]]
    found: Floats = spreads.mean(axis=1).to_numpy(np.float64, na_value=np.nan)
    binary = [scores[name] for name, d in dimensions.items() if d.kind == "binary"]
    if not binary or np.isfinite(found).all():
        return found
    table = np.clip(np.array(binary), 0, 1)
    known = np.isfinite(table)
    total = np.sqrt(np.where(known, table * (1 - table), 0.0)).sum(axis=0)
    count = known.sum(axis=0)
    mean = np.divide(total, count, where=count > 0, out=np.full(len(total), math.nan))
    return np.where(np.isfinite(found), found, mean)


# -- scales: a judgement has numbers only; their meaning is in the rubric of its judge -------------


def _scales(
    scores: Mapping[str, Floats], signatures: Sequence[str], rubric: str | None
) -> tuple[dict[str, Dimension], list[str]]:
    """The dimension of each name, and the names that no rubric knows.

    A stated ``rubric`` comes first, then the shipped one that the judge's signature names by its
    hash, then the smallest shipped one that has all names, then for each name the narrowest shipped
    scale that holds its scores. A name that no rubric knows is graded over its own range, higher
    being better.
    """
    ranges = {n: (float(np.nanmin(c)), float(np.nanmax(c))) for n, c in scores.items()}

    def holds(dimension: Dimension, span: Range) -> bool:
        return dimension.low - 1e-6 <= span[0] and span[1] <= dimension.high + 1e-6

    def covers(dimensions: Sequence[Dimension]) -> bool:
        by_name = {d.name: d for d in dimensions}
        return all(n in by_name and holds(by_name[n], span) for n, span in ranges.items())

    shipped = _shipped()
    hashes = {Signature.parse(text).rubric for text in signatures}
    named = [each for each in shipped if content_hash([d.to_record() for d in each]) in hashes]
    known = {} if rubric is None else {d.name: d for d in load_rubric(rubric)}
    for dimensions in [*named, *sorted(filter(covers, shipped), key=len)[:1]]:
        known = {d.name: d for d in dimensions} | known
    found, assumed = {}, []
    for name, (low, high) in ranges.items():
        fitting = [d for each in shipped for d in each if d.name == name and holds(d, (low, high))]
        narrowest = min(fitting, key=lambda d: d.high - d.low, default=None)
        if (dimension := known.get(name) or narrowest) is None:
            dimension = Dimension(name, "continuous", low, high if high > low else low + 1)
            assumed.append(name)
        found[name] = dimension
    return found, assumed


@cache
def _shipped() -> tuple[tuple[Dimension, ...], ...]:
    folder = files("medal_judges.configs") / "rubrics"
    names = sorted(path.name.removesuffix(".yaml") for path in folder.iterdir())
    return tuple(load_rubric(name) for name in names)
