"""Meta-evaluation: one judge on one set and dimension, from judgements and ratings only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medal_judges.eval.metaeval.alignment import (
    METRICS,
    Aligned,
    align,
    classification,
    classification_statistic,
    common_scale,
    confusion_cells,
    not_classifiable,
)
from medal_judges.eval.metaeval.ceiling import against_ceiling, headline_ceiling
from medal_judges.records.dimension import Kind
from medal_judges.records.judgement import Contributions, Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.stats.correlation import (
    CORRELATIONS,
    correlation_statistic,
    correlations,
    undefined_reason,
)
from medal_judges.stats.difference import Difference
from medal_judges.stats.equal import present
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import Lead, with_intervals
from medal_judges.stats.system_agreement import (
    MIN_ROWS,
    MIN_SYSTEMS,
    split_half,
    system_agreement,
    system_means,
)

Figures = Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Point:
    """One judged row. ``human``: the mean over annotators on the raw scale."""

    id: str
    turn: int | None
    human: float
    score: float
    lang: str
    chatbot: str | None
    group: str


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One judge on one set and dimension.

    ``metrics``: ``spearman``, ``pearson``, ``kendall``, ``pairwise``, ``preferred``,
    ``within_system`` (correlation.py), and for issues ``f1_present``, ``f1_absent``, ``precision``,
    ``recall``, ``accuracy``. ``slices``: the same for parts such as ``lang:de``.
    ``ceiling``: one annotator against the others, ``like_for_like``: the judge against the same
    others, on the ``ceiling_rows`` rows with two answers or more; ``ceiling_difference``: the
    ``headline`` figure of the judge minus the annotator's. ``clusters``: what intervals leave out.
    Below ``min_coverage`` there is no headline. Scales are (lowest, highest), None if not stated.
    ``judge_dimension``: the judge's name for ``dimension``.
    """

    judge: str
    signature: str
    set_name: str
    level: str
    dimension: str
    kind: str
    n: int
    scored: int
    metrics: Figures
    ceiling: Figures = field(default_factory=dict)
    like_for_like: Figures = field(default_factory=dict)
    ceiling_rows: int = 0
    ceiling_difference: Estimate | None = None
    slices: Mapping[str, Figures] = field(default_factory=dict)
    slice_ceilings: Mapping[str, Figures] = field(default_factory=dict)
    slice_like_for_like: Mapping[str, Figures] = field(default_factory=dict)
    slice_sizes: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    points: Sequence[Point] = ()
    clusters: str = ""
    headline: str = "spearman"
    min_coverage: float = 0.98
    human_scale: Scale | None = None
    judge_scale: Scale | None = None
    judge_dimension: str = ""

    @property
    def coverage(self) -> float | None:
        """Share of the rows with a label that the judge scored; None for no rows."""
        return self.scored / self.n if self.n else None

    @property
    def under_floor(self) -> bool:
        """Whether coverage is too low for a headline figure."""
        return self.coverage is not None and self.coverage < self.min_coverage


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A dialogue that people and judge rank differently. Ranks run from 0 (lowest of the set) to 1;
    ``turns`` are (role, text)."""

    judge: str
    set_name: str
    dimension: str
    id: str
    human: float
    score: float
    human_rank: float
    score_rank: float
    turns: Sequence[tuple[str, str]]
    contributions: Contributions | None = None


@dataclass(frozen=True, slots=True)
class SystemAgreement:
    """Whether one judge orders chatbots as people do, on one set and dimension, over ``systems``
    chatbots with 5 scored rows or more.

    ``figures``: ``pairwise_accuracy`` and ``soft_pairwise_accuracy``; ``split_half``: the same of
    one half of people's rows against the other half.
    """

    judge: str
    set_name: str
    level: str
    dimension: str
    systems: int
    rows: int
    figures: Figures
    split_half: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """The figures of a judge on a set and dimension, and the rows behind them. ``apart``: the
    ``ceiling_difference`` of the row, which comparison.py corrects for the other lines of its
    table; None without a ceiling."""

    row: ResultRow
    aligned: Aligned
    apart: Difference | None = None


def kind_of(rows: Iterable[LabelledDialogue], dimension: str) -> Kind:
    """Returns ``binary`` for a scale from 0 to 1 with answers of 0 or 1, ``ordinal`` for whole
    numbers that are no means, or else ``continuous``."""
    ratings = [rating for row in rows if (rating := row.rating(dimension)) is not None]
    values = chain.from_iterable(rating.without_nulls for rating in ratings)
    if not all(float(value).is_integer() for value in values):
        return "continuous"
    if {rating.scale for rating in ratings} == {(0.0, 1.0)}:
        return "binary"
    if any(rating.aggregated for rating in ratings):
        return "continuous"
    return "ordinal"


def evaluate(
    rows: Sequence[LabelledDialogue],
    judgements: Iterable[Judgement],
    dimension: str,
    judge_dimension: str | None = None,
    *,
    left_out: Iterable[LabelledDialogue] = (),
    lead: Lead = "these",
    headline: str = "spearman",
    **about: Any,
) -> JudgedRows:
    """Returns the agreement of one judge with people, with intervals, slices and the human ceiling.

    ``judge_dimension``: the judge's name for ``dimension``. ``lead``: whom intervals are for,
    ``these`` chatbots or ``others``. ``headline``: the figure of a graded dimension that ranks
    judges. ``about``: ``judge``, ``signature``,
    ``set_name``, ``level``, ``min_coverage`` and ``judge_scale`` of the ResultRow. The label
    is the mean over annotators; F1 is computed against each. Raises MedalError as ``align``.
    """
    aligned = align(
        rows,
        judgements,
        dimension,
        judge_dimension,
        left_out=left_out,
        lead=lead,
        judge_scale=about.get("judge_scale"),
    )
    kind = kind_of(rows, dimension)
    if kind == "binary":
        headline = METRICS[0]
    slices = _slices(aligned)
    ceilings = {
        name: headline_ceiling(part, kind, headline) for name, part in slices.items()
    }
    ceiling = against_ceiling(aligned, kind, headline)
    points = []
    for row, label, score in zip(
        aligned.rows, aligned.human, aligned.score, strict=True
    ):
        lang, chatbot = row.dialogue.lang, row.dialogue.chatbot
        points.append(
            Point(
                row.id, row.turn, float(label), float(score), lang, chatbot, row.group
            )
        )
    defaults = {"judge": "", "signature": "", "set_name": "", "level": "dialogue"}
    result = ResultRow(
        **defaults | about,
        dimension=dimension,
        judge_dimension=judge_dimension or dimension,
        kind=kind,
        n=aligned.total,
        scored=len(aligned.rows),
        metrics=figures(aligned, kind),
        ceiling=ceiling.ceiling,
        like_for_like=ceiling.like_for_like,
        ceiling_rows=ceiling.rows,
        ceiling_difference=ceiling.difference_estimate,
        slices={name: _slice_figures(part, kind) for name, part in slices.items()},
        slice_ceilings={name: part.ceiling for name, part in ceilings.items()},
        slice_like_for_like={
            name: part.like_for_like for name, part in ceilings.items()
        },
        slice_sizes={name: len(part.rows) for name, part in slices.items()},
        counts=_counts(aligned, kind),
        points=points,
        clusters=aligned.clusters.unit,
        headline=headline,
        human_scale=common_scale(rows, dimension),
    )
    return JudgedRows(result, aligned, ceiling.difference)


def _slices(aligned: Aligned) -> dict[str, Aligned]:
    """Returns the rows of each language and chatbot, sorted by name."""
    indices: dict[str, list[int]] = {}
    for i, row in enumerate(aligned.rows):
        indices.setdefault(f"lang:{row.dialogue.lang}", []).append(i)
        if row.dialogue.chatbot is not None:
            indices.setdefault(f"chatbot:{row.dialogue.chatbot}", []).append(i)
    return {name: aligned.part(indices[name]) for name in sorted(indices)}


def _slice_figures(part: Aligned, kind: Kind) -> dict[str, Estimate]:
    estimates = figures(part, kind)
    if len(set(part.chatbots)) < 2:
        for name in ("within_system", "centred"):
            estimates.pop(name, None)
    return estimates


def _counts(aligned: Aligned, kind: Kind) -> dict[str, int]:
    """Returns the cells of the confusion matrix of an issue, summed over annotators, and the number
    of rows on which the judge says present."""
    if (
        kind != "binary"
        or not aligned.rows
        or not_classifiable(aligned.score, aligned.values)
    ):
        return {}
    cells = confusion_cells(aligned.score, aligned.values)
    counts = {name: int(cell.sum()) for name, cell in cells.items()}
    return counts | {"judge_present": int(present(aligned.score).sum())}


def figures(aligned: Aligned, kind: Kind) -> dict[str, Estimate]:
    """Returns correlations, and F1+, F1-, precision, recall and accuracy of a binary dimension."""
    people, judge = aligned.people, aligned.judge
    score, values, clusters = aligned.score, aligned.values, aligned.clusters
    estimates: dict[str, Estimate] = {}
    if not aligned.rows:
        names: Sequence[str] = CORRELATIONS[:6]
        if kind == "binary":
            names = (*METRICS, *names)
        reason = "no row has a label"
        if aligned.total:
            reason = "no row was scored"
        return undefined(names, reason)
    if kind == "binary":
        estimates = classification(score, values)
        if not not_classifiable(score, values):
            statistic = classification_statistic(score, values)
            estimates = with_intervals(estimates, statistic, clusters)
    graded = correlations(people, judge, aligned.chatbots)
    if undefined_reason(people, judge) is None:
        statistic = correlation_statistic(people, judge, aligned.chatbots)
        graded = with_intervals(graded, statistic, clusters)
    return estimates | graded


def disagreements(
    judged: JudgedRows, judge_dimension: str, top: int = 6
) -> list[Disagreement]:
    """Returns the ``top`` rows that judge and people rank most differently; none if all scores or
    all labels are equal."""
    aligned = judged.aligned
    people, judge = aligned.people, aligned.judge
    if undefined_reason(people, judge) is not None:
        return []
    count = len(aligned.rows)
    all_rows = np.ones((1, count))
    human = (people.ranks(all_rows)[0] - 1) / (count - 1)
    score = (judge.ranks(all_rows)[0] - 1) / (count - 1)
    ids = np.array([row.id for row in aligned.rows])
    order = np.lexsort((ids, -np.abs(human - score)))
    result = judged.row
    items = []
    for i in order[:top].tolist():
        row = aligned.rows[i]
        item = Disagreement(
            *(result.judge, result.set_name, result.dimension, row.id),
            human=float(aligned.human[i]),
            score=float(aligned.score[i]),
            human_rank=float(human[i]),
            score_rank=float(score[i]),
            turns=[(turn.role, turn.content) for turn in row.dialogue.turns],
            contributions=aligned.judgements[i].contributions.get(judge_dimension),
        )
        items.append(item)
    return items


def system_agreements(judged: Sequence[JudgedRows]) -> list[SystemAgreement]:
    """Returns a record for each judge, set and dimension with enough chatbots and rows."""
    halves: dict[tuple[str, str, str, int], Mapping[str, float]] = {}
    agreements = []
    for judged_rows in judged:
        row = judged_rows.row
        chosen, systems, count = _systems(judged_rows.aligned)
        if count < MIN_SYSTEMS or row.under_floor:
            continue
        groups = [labelled.group for labelled in chosen.rows]
        people = system_means(chosen.people, systems, groups)
        judge = system_means(chosen.judge, systems, groups)
        key = (row.set_name, row.level, row.dimension, len(chosen.rows))
        if key not in halves:  # depends on the rows, not on the judge
            halves[key] = split_half(chosen.people, systems, groups)
        about = (
            row.judge,
            row.set_name,
            row.level,
            row.dimension,
            count,
            len(chosen.rows),
        )
        agreement = SystemAgreement(
            *about, system_agreement(people, judge), halves[key]
        )
        agreements.append(agreement)
    return agreements


def _systems(aligned: Aligned) -> tuple[Aligned, npt.NDArray[np.intp], int]:
    """Returns the rows of chatbots with MIN_ROWS rows or more, the number of the chatbot of each
    row (in the order of their names), and the number of chatbots."""
    chatbots = pd.Series(aligned.chatbots, dtype=object)
    sizes = chatbots.value_counts()
    names = sorted(sizes.index[sizes >= MIN_ROWS])
    systems = pd.Index(names).get_indexer(chatbots)
    indices = np.flatnonzero(systems >= 0)
    return aligned.part(indices), systems[indices], len(names)
