"""What people agree on: the human ceiling.

A judge is usually compared with the mean of all annotators, and an annotator with the mean of the
others. That mean is noisier, so an annotator seems worse than a judge who is no better.
``like_for_like`` compares both with the same annotators, on the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medal_judges.eval.metaeval.alignment import (
    METRICS,
    Aligned,
    classification_statistic,
    not_classifiable,
)
from medal_judges.records.dimension import Kind
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.alpha import alpha_statistic
from medal_judges.stats.correlation import (
    CORRELATIONS,
    MIN_ROWS,
    Floats,
    Statistic,
    correlation_statistic,
    ratio,
    undefined_reason,
)
from medal_judges.stats.difference import Difference
from medal_judges.stats.equal import Values
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import Clusters, estimated
from medal_judges.stats.significance import paired_difference

MOST_COLUMNS = 50
_RELEASED = "the set was released as means or votes, without single answers"
MEASUREMENT = {"binary": "nominal", "ordinal": "ordinal", "continuous": "interval"}


@dataclass(frozen=True, slots=True)
class CeilingFigures:
    """One annotator against the others (``ceiling``), the judge in the annotator's place
    (``like_for_like``), and the ``difference`` of their headline figures, on ``rows`` rows. See
    ResultRow."""

    ceiling: dict[str, Estimate]
    like_for_like: dict[str, Estimate]
    rows: int = 0
    difference: Difference | None = None

    @property
    def difference_estimate(self) -> Estimate | None:
        if self.difference is None:
            return None
        return self.difference.estimate


def against_ceiling(aligned: Aligned, kind: Kind, headline: str) -> CeilingFigures:
    """Returns the ceiling of all figures, on the scored rows with two answers or more."""
    names: Sequence[str] = CORRELATIONS[:5]
    if kind == "binary":
        names = METRICS[:2]
    ceiling = _ceiling(aligned, kind, names)
    if not ceiling.rows:
        return ceiling
    shared = _with_two_answers(aligned)
    answers = Values(shared.values, shared.human_tolerance)
    alpha = Estimate(None, reason="all answers are equal")
    if np.nanmax(shared.values) - np.nanmin(shared.values) > answers.tolerance:
        all_rows = np.ones((1, len(shared.rows)))
        alpha = Estimate(
            float(alpha_statistic(shared.values, MEASUREMENT[kind])(all_rows)[0])
        )
    for figures in (ceiling.like_for_like, ceiling.ceiling):
        if figures[headline].value is None:
            difference = Difference(None, reason=figures[headline].reason)
            break
    else:
        judge = ceiling_statistic(answers, kind, judge=shared.judge, only=headline)
        person = ceiling_statistic(answers, kind, only=headline)
        assert judge is not None and person is not None  # their figures are defined
        difference = paired_difference(judge, person, headline, shared.clusters)
    return replace(
        ceiling, ceiling=ceiling.ceiling | {"alpha": alpha}, difference=difference
    )


def headline_ceiling(aligned: Aligned, kind: Kind, headline: str) -> CeilingFigures:
    """Returns the ceiling of the ``headline`` figure alone, for a slice."""
    ceiling = _ceiling(aligned, kind, (headline,), only=headline)
    return CeilingFigures(
        {headline: ceiling.ceiling[headline]},
        {headline: ceiling.like_for_like[headline]},
    )


def _with_two_answers(aligned: Aligned) -> Aligned:
    return aligned.part(np.flatnonzero(np.isfinite(aligned.values).sum(axis=1) > 1))


def _ceiling(
    aligned: Aligned, kind: Kind, names: Sequence[str], only: str | None = None
) -> CeilingFigures:
    """Returns all figures, or the figure ``only`` of a graded dimension; ``names`` are those that
    are undefined if no row has two answers."""
    shared = _with_two_answers(aligned)
    reason = None
    if any(row.aggregated for row in aligned.rows):
        reason = _RELEASED
    elif not shared.rows:
        reason = "one annotator per row"
    if reason is not None:
        none = undefined(names, reason)
        return CeilingFigures(none, none)
    answers = Values(shared.values, shared.human_tolerance)
    chatbots = shared.chatbots
    metrics: Sequence[str] = CORRELATIONS
    why = undefined_reason(shared.people, shared.judge)
    if kind == "binary":
        chatbots, only, metrics = [], None, METRICS
        why = not_classifiable(shared.score, shared.values)
    ceiling_of = partial(
        human_ceiling, answers, kind, shared.clusters, chatbots, only=only
    )
    like_for_like = undefined(metrics, why or "")
    if why is None:
        like_for_like = ceiling_of(judge=shared.judge)
    return CeilingFigures(ceiling_of(), like_for_like, len(shared.rows))


def human_ceiling(
    answers: Values,
    kind: Kind,
    clusters: Clusters,
    chatbots: Sequence[str | None] = (),
    *,
    judge: Values | None = None,
    only: str | None = None,
) -> dict[str, Estimate]:
    """Returns the agreement of one annotator with the others, or of ``judge``, scores of shape
    (rows,), in the annotator's place. ``answers``: shape (rows, annotators), NaN if not given.
    ``only``: the single figure of a graded dimension to compute.

    Graded: correlations with the mean of the others, averaged over the positions of the label list
    by rows; positions with fewer than 3 rows or a constant side are left out. Issues: F1+, F1-,
    precision, recall and accuracy, averaged over ordered pairs of positions (MEDAL, Figure 5).
    """
    names: Sequence[str] = CORRELATIONS[:5]
    if only is not None:
        names = (only,)
    elif kind == "binary":
        names = METRICS
    elif chatbots:
        names = CORRELATIONS
    statistic = ceiling_statistic(answers, kind, chatbots, judge, only)
    if statistic is None:
        reason = "no row has answers of two annotators"
        if (np.isfinite(answers.numbers).sum(axis=1) > 1).any():
            reason = "annotators share fewer than 3 rows, or give all of them the same answer"
        return undefined(names, reason)
    reason = "undefined against every annotator"
    return estimated(statistic, clusters, reason, names)


def ceiling_statistic(
    answers: Values,
    kind: Kind,
    chatbots: Sequence[str | None] = (),
    judge: Values | None = None,
    only: str | None = None,
) -> Statistic | None:
    """Returns a function of row weights that computes the figures of ``human_ceiling``; None if
    there is no position or pair to compare."""
    if kind == "binary":
        parts = list(_pairs_of_positions(answers.numbers, judge))
    else:
        parts = list(_positions(answers, chatbots, judge, only))
    if not parts:
        return None

    def statistic(weights: Floats) -> dict[str, Floats]:
        """The mean over the parts that have a figure, weighted by their rows."""
        sizes = np.array([weights[:, rows].sum(axis=1) for rows, _ in parts])
        figures_of_parts = [figures_of(weights[:, rows]) for rows, figures_of in parts]
        means = {}
        for name in figures_of_parts[0]:
            values = np.array([figures[name] for figures in figures_of_parts])
            weight = np.where(np.isfinite(values), sizes, 0.0)
            means[name] = ratio(np.nansum(weight * values, axis=0), weight.sum(axis=0))
        return means

    return statistic


# Some rows, and their figures as a function of their weights.
_Part = tuple[npt.NDArray[np.intp], Statistic]


def _pairs_of_positions(values: Floats, judge: Values | None) -> Iterator[_Part]:
    """Yields each ordered pair of positions on the rows with both: the first position, or the
    judge, against the second."""
    is_answered = np.isfinite(values)
    for position, other_position in permutations(busiest(values), 2):
        rows = np.flatnonzero(is_answered[:, position] & is_answered[:, other_position])
        if len(rows):
            scores = values[rows, position]
            if judge is not None:
                scores = judge.numbers[rows]
            labels = values[rows][:, [other_position]]
            yield rows, classification_statistic(scores, labels)


def _positions(
    answers: Values,
    chatbots: Sequence[str | None],
    judge: Values | None,
    only: str | None,
) -> Iterator[_Part]:
    """Yields each position, or the judge on its rows, against the mean of the other positions."""
    values = answers.numbers
    for position in busiest(values):
        other_answers = np.delete(values, position, axis=1)
        is_shared = np.isfinite(values[:, position]) & np.isfinite(other_answers).any(
            axis=1
        )
        rows = np.flatnonzero(is_shared)
        if len(rows) < MIN_ROWS:
            continue
        person = answers[rows, position]
        mean = Values(np.nanmean(other_answers[rows], axis=1), answers.tolerance)
        if person.constant or mean.constant:
            continue
        scores = person
        if judge is not None:
            scores = judge[rows]
        chatbots_of_rows = [chatbots[i] for i in rows.tolist() if chatbots]
        yield rows, correlation_statistic(mean, scores, chatbots_of_rows, only)


def busiest(values: Floats) -> list[int]:
    """Returns the MOST_COLUMNS columns of ``values`` with the most answers. Pairs of columns are
    compared, so that their number would grow with the square."""
    counts = np.isfinite(values).sum(axis=0)
    return sorted(np.argsort(-counts, kind="stable")[:MOST_COLUMNS].tolist())


def answers_by_annotator(
    rows: Sequence[LabelledDialogue], name: str, values: Floats
) -> tuple[Floats, bool, int]:
    """Returns answers by annotator, shape (rows, annotators), whether annotators are named, and
    their number, which may be above MOST_COLUMNS.

    Without names in ``extra["annotators"]`` of every row, and for labels of a machine
    (``labels_by``), the answers are ``values``, shape (rows, positions in the label list): a
    position may be another person in another row.
    """
    answers = []
    for row, row_values in zip(rows, values, strict=True):
        annotators = _annotators(row, name)
        if annotators is None:
            return values, False, int(np.isfinite(values).any(axis=0).sum())
        answers.append(dict(zip(annotators, row_values, strict=False)))
    table = pd.DataFrame(answers)
    counts = table.count()
    counts = counts[counts > 0]
    by_count = sorted(
        counts.index, key=lambda annotator: (-counts[annotator], annotator)
    )
    busiest_columns = sorted(by_count[:MOST_COLUMNS])
    return table[busiest_columns].to_numpy(dtype=np.float64), True, len(counts)


def _annotators(row: LabelledDialogue, name: str) -> list[str] | None:
    """Returns the names of the annotators of the labels ``name``; None if one has no name: several
    annotators without a name are not one person."""
    people: Any = row.extra.get("annotators")
    if row.extra.get("labels_by") or not isinstance(people, list):
        return None
    if not people or len(people) != len(row.labels[name]):
        return None
    names = ["" if person is None else str(person) for person in people]
    if len(set(names)) < len(names) or not all(map(str.strip, names)):
        return None
    return names
