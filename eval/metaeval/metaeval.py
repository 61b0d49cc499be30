"""Meta-evaluation: one judge on one set and dimension, from judgements and ratings only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
from medal_judges.eval.metaeval.ceiling import against_ceiling
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
    whole = all(float(value).is_integer() for rating in ratings for value in rating.without_nulls)
    if whole and {rating.scale for rating in ratings} == {(0.0, 1.0)}:
        return "binary"
    return "ordinal" if whole and not any(r.aggregated for r in ratings) else "continuous"


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
    score, values = aligned.score, aligned.values
    kind = kind_of(rows, dimension)
    headline = METRICS[0] if kind == "binary" else headline
    parts: dict[str, list[int]] = {}
    for i, row in enumerate(aligned.rows):
        parts.setdefault(f"lang:{row.dialogue.lang}", []).append(i)
        if row.dialogue.chatbot is not None:
            parts.setdefault(f"chatbot:{row.dialogue.chatbot}", []).append(i)
    slices = {name: aligned.part(parts[name]) for name in sorted(parts)}
    sliced = {
        name: against_ceiling(part, kind, headline, whole=False) for name, part in slices.items()
    }
    counts = {}
    if kind == "binary" and aligned.rows and not not_classifiable(score, values):
        cells = confusion_cells(score, values)  # summed over annotators
        counts = {name: int(cell.sum()) for name, cell in cells.items()}
        counts["judge_present"] = int(present(score).sum())
    with_people = against_ceiling(aligned, kind, headline)
    apart = with_people.pop("ceiling_difference", None)
    named = {"judge": "", "signature": "", "set_name": "", "level": "dialogue"}
    result = ResultRow(
        **named | about,
        dimension=dimension,
        judge_dimension=judge_dimension or dimension,
        kind=kind,
        n=aligned.total,
        scored=len(aligned.rows),
        metrics=figures(aligned, kind),
        **with_people,
        ceiling_difference=None if apart is None else apart.estimate,
        slices={
            name: {
                metric: estimate
                for metric, estimate in figures(part, kind).items()
                if len(set(part.chatbots)) > 1 or metric not in ("within_system", "centred")
            }
            for name, part in slices.items()
        },
        slice_ceilings={name: one["ceiling"] for name, one in sliced.items()},
        slice_like_for_like={name: one["like_for_like"] for name, one in sliced.items()},
        slice_sizes={name: len(part.rows) for name, part in slices.items()},
        counts=counts,
        points=[
            Point(r.id, r.turn, float(h), float(s), r.dialogue.lang, r.dialogue.chatbot, r.group)
            for r, h, s in zip(aligned.rows, aligned.human, score, strict=True)
        ],
        clusters=aligned.clusters.unit,
        headline=headline,
        human_scale=common_scale(rows, dimension),
    )
    return JudgedRows(result, aligned, apart)


def figures(aligned: Aligned, kind: Kind) -> dict[str, Estimate]:
    """Returns correlations, and F1+, F1-, precision, recall and accuracy of a binary dimension."""
    binary = kind == "binary"
    people, judge = aligned.people, aligned.judge
    score, values = aligned.score, aligned.values
    if not len(aligned.rows):
        names = (*(METRICS if binary else ()), *CORRELATIONS[:6])
        reason = "no row was scored" if aligned.total else "no row has a label"
        return undefined(names, reason)
    clusters = aligned.clusters
    found: dict[str, Estimate] = {}
    if binary:
        found = classification(score, values)
        if not not_classifiable(score, values):
            found = with_intervals(found, classification_statistic(score, values), clusters)
    graded = correlations(people, judge, aligned.chatbots)
    if undefined_reason(people, judge) is None:
        statistic = correlation_statistic(people, judge, aligned.chatbots)
        graded = with_intervals(graded, statistic, clusters)
    return found | graded


def disagreements(judged: JudgedRows, judge_dimension: str, top: int = 6) -> list[Disagreement]:
    """Returns the ``top`` rows that judge and people rank most differently; none if all scores or
    all labels are equal."""
    aligned = judged.aligned
    people, judge = aligned.people, aligned.judge
    if undefined_reason(people, judge) is not None:
        return []
    count = len(aligned.rows)
    alike = np.ones((1, count))
    human, score = ((side.ranks(alike)[0] - 1) / (count - 1) for side in (people, judge))
    ids = np.array([row.id for row in aligned.rows])
    order = np.lexsort((ids, -np.abs(human - score)))
    row = judged.row
    return [
        Disagreement(
            *(row.judge, row.set_name, row.dimension, aligned.rows[i].id),
            human=float(aligned.human[i]),
            score=float(aligned.score[i]),
            human_rank=float(human[i]),
            score_rank=float(score[i]),
            turns=[(turn.role, turn.content) for turn in aligned.rows[i].dialogue.turns],
            contributions=aligned.judgements[i].contributions.get(judge_dimension),
        )
        for i in map(int, order[:top])
    ]


def system_agreements(judged: Sequence[JudgedRows]) -> list[SystemAgreement]:
    """Returns a record for each judge, set and dimension with enough chatbots and rows."""
    halves: dict[tuple[str, str, str, int], Mapping[str, float]] = {}
    found = []
    for one in judged:
        row, bots = one.row, one.aligned.chatbots
        sizes = Counter(bot for bot in bots if bot is not None)
        names = sorted(bot for bot, size in sizes.items() if size >= MIN_ROWS)
        if len(names) < MIN_SYSTEMS or row.under_floor:
            continue
        chosen = one.aligned.part(i for i, bot in enumerate(bots) if bot in names)
        systems = np.array([names.index(bot or "") for bot in chosen.chatbots])
        groups = [each.group for each in chosen.rows]
        people, judge = (
            system_means(side, systems, groups) for side in (chosen.people, chosen.judge)
        )
        key = (row.set_name, row.level, row.dimension, len(chosen.rows))
        if key not in halves:  # depends on the rows, not on the judge
            halves[key] = split_half(chosen.people, systems, groups)
        about = (row.judge, row.set_name, row.level, row.dimension, len(names), len(chosen.rows))
        found.append(SystemAgreement(*about, system_agreement(people, judge), halves[key]))
    return found
