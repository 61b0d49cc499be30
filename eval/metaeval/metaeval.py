"""Meta-evaluation: one judge on one set and dimension, from judgements and ratings only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medal_judges.eval.metaeval.alignment import Aligned, align
from medal_judges.eval.metaeval.ceiling import against_ceiling, no_ceiling, slice_ceiling
from medal_judges.eval.metaeval.classification import (
    METRICS,
    classification,
    classification_statistic,
    counts,
    not_classifiable,
)
from medal_judges.eval.metaeval.rater_model import noise_free
from medal_judges.eval.metaeval.results import Disagreement, ResultRow
from medal_judges.records.dimension import Kind
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Scale
from medal_judges.records.signature import Signature
from medal_judges.stats.correlation import (
    Floats,
    correlation_statistic,
    correlations,
    undefined_reason,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import Clusters, choose_clusters, with_intervals
from medal_judges.stats.weights import Weights, revalued, weighted


@dataclass(frozen=True, slots=True)
class ComparedDimension:
    """What is compared: ``dimension`` as people answered it, ``judge_dimension`` as the judge did
    (the same name where None)."""

    set_name: str
    dimension: str
    judge_dimension: str | None = None
    level: str = "dialogue"


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """A judge on a set and dimension: its figures, and the rows that they are of."""

    row: ResultRow
    aligned: Aligned


def kind_of(rows: Iterable[LabelledDialogue], dimension: str) -> Kind:
    """Kind of people's answers: binary where the scale is 0 to 1 and every answer 0 or 1, ordinal
    where single answers (not means) are whole numbers, else continuous."""
    ratings = [rating for row in rows if (rating := row.rating(dimension)) is not None]
    whole = all(float(value).is_integer() for rating in ratings for value in rating.given)
    if whole and {rating.scale for rating in ratings} == {(0.0, 1.0)}:
        return "binary"
    return "ordinal" if whole and not any(r.aggregated for r in ratings) else "continuous"


def evaluate(
    rows: Sequence[LabelledDialogue],
    judgements: Iterable[Judgement],
    question: ComparedDimension,
    *,
    judge: str,
    signature: str,
    min_coverage: float = 0.98,
    left_out: Iterable[LabelledDialogue] = (),
    judge_scale: Scale | None = None,
    weights: Weights = "none",
) -> JudgedRows:
    """Agreement of one judge with people, with intervals, slices and the human ceiling.

    The human answer is the mean over the annotators who answered; F1 and its kin are computed
    against each annotator instead (see classification.py). ``weights``: how rows count, see
    weights.py. Raises MedalError for judgements that do not belong to ``rows``, see ``align``.
    """
    aligned = align(
        rows,
        judgements,
        question.dimension,
        question.judge_dimension,
        left_out=left_out,
        weights=weights,
    )
    kind = kind_of(rows, question.dimension)
    clusters = choose_clusters(aligned.chatbots, aligned.groups)
    slices = _slices(aligned)
    compared = against_ceiling(aligned, kind)
    sliced = {name: slice_ceiling(aligned.part(part), kind) for name, part in slices.items()}
    row = ResultRow(
        judge=judge,
        signature=signature,
        set_name=question.set_name,
        level=question.level,
        dimension=question.dimension,
        kind=kind,
        n=aligned.total,
        scored=len(aligned.rows),
        metrics=figures(aligned, kind, clusters),
        ceiling=compared.person,
        like_for_like=compared.judge,
        ceiling_rows=compared.rows,
        noise_free=noise_free(aligned, kind, question.dimension),
        ceiling_difference=compared.difference,
        slices={name: _slice(aligned, part, kind) for name, part in slices.items()},
        slice_ceilings={name: one.person for name, one in sliced.items()},
        slice_like_for_like={name: one.judge for name, one in sliced.items()},
        slice_sizes={name: len(part) for name, part in slices.items()},
        counts=_counts(aligned, kind),
        points=aligned.points(),
        clusters=clusters.unit,
        min_coverage=min_coverage,
        human_scale=scale_of_answers(rows, question.dimension),
        judge_scale=judge_scale,
    )
    return JudgedRows(row, aligned)


def scale_of_answers(rows: Iterable[LabelledDialogue], dimension: str) -> Scale | None:
    """(lowest, highest) allowed answer of people; None where rows state none, or differ."""
    scales = {row.scales.get(dimension) for row in rows if dimension in row.labels}
    return scales.pop() if len(scales) == 1 else None


def figures(aligned: Aligned, kind: Kind, clusters: Clusters) -> dict[str, Estimate]:
    """Correlations, and for a binary dimension F1+, F1-, precision, recall and accuracy too."""
    if not len(aligned.rows):
        names = (
            *(METRICS if kind == "binary" else ()),
            "spearman",
            "pearson",
            "kendall",
            "within_system",
        )
        reason = "no row was scored" if aligned.total else "no row has a human answer"
        return no_ceiling(names, reason)
    graded = _correlation_figures(aligned, clusters)
    return (_issue_figures(aligned, clusters) | graded) if kind == "binary" else graded


def _correlation_figures(aligned: Aligned, clusters: Clusters) -> dict[str, Estimate]:
    bots = aligned.chatbots
    estimates = correlations(aligned.human, aligned.score, bots)
    if undefined_reason(aligned.human, aligned.score) is not None:
        return estimates
    statistic = weighted(correlation_statistic(aligned.human, aligned.score, bots), aligned.weights)
    return with_intervals(revalued(estimates, statistic, aligned.weights), statistic, clusters)


def _issue_figures(aligned: Aligned, clusters: Clusters) -> dict[str, Estimate]:
    estimates = classification(aligned.score, aligned.values)
    if not_classifiable(aligned.score, aligned.values):
        return estimates
    statistic = weighted(classification_statistic(aligned.score, aligned.values), aligned.weights)
    return with_intervals(revalued(estimates, statistic, aligned.weights), statistic, clusters)


def _slices(aligned: Aligned) -> dict[str, list[int]]:
    """Row numbers by language, then by chatbot, sorted by name."""
    parts: dict[str, list[int]] = {}
    for i, row in enumerate(aligned.rows):
        parts.setdefault(f"lang:{row.dialogue.lang}", []).append(i)
        if row.dialogue.chatbot is not None:
            parts.setdefault(f"chatbot:{row.dialogue.chatbot}", []).append(i)
    return {name: parts[name] for name in sorted(parts)}


def _slice(aligned: Aligned, part: list[int], kind: Kind) -> dict[str, Estimate]:
    chosen = aligned.part(part)
    clusters = choose_clusters(chosen.chatbots, chosen.groups)
    estimates = figures(chosen, kind, clusters)
    one_bot = len(set(chosen.chatbots)) == 1
    return {
        k: v for k, v in estimates.items() if not (one_bot and k in ("within_system", "centred"))
    }


def _counts(aligned: Aligned, kind: Kind) -> dict[str, int]:
    if kind != "binary" or not len(aligned.rows):
        return {}
    return counts(aligned.score, aligned.values)


def comparable_signature(judge_signature: str, data: str, dimension: str) -> str:
    """The judge's signature with the data and dimension that a figure was computed on."""
    signature = Signature.parse(judge_signature)
    return str(replace(signature, data=data, dimension=dimension))


def disagreements(judged: JudgedRows, judge_dimension: str, top: int = 6) -> list[Disagreement]:
    """The ``top`` rows whose rank by judge and by people differ most, the furthest first.

    Ranks, since the two sides need not share a scale. Empty where one side is constant.
    """
    aligned = judged.aligned
    if undefined_reason(aligned.human, aligned.score) is not None:
        return []
    human, score = _unit_ranks(aligned.human), _unit_ranks(aligned.score)
    ids = np.array([row.id for row in aligned.rows])
    order = np.lexsort((ids, -np.abs(human - score)))
    return [
        Disagreement(
            judge=judged.row.judge,
            set_name=judged.row.set_name,
            dimension=judged.row.dimension,
            id=aligned.rows[i].id,
            human=float(aligned.human[i]),
            score=float(aligned.score[i]),
            human_rank=float(human[i]),
            score_rank=float(score[i]),
            turns=[(turn.role, turn.content) for turn in aligned.rows[i].dialogue.turns],
            contributions=aligned.judgements[i].contributions.get(judge_dimension),
        )
        for i in map(int, order[:top])
    ]


def _unit_ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    ranks: Floats = (rankdata(values) - 1) / (len(values) - 1)
    return ranks
