"""What people agree on: the human ceiling.

A judge is usually compared with the mean of all annotators, and an annotator with the mean of the
others. That mean is noisier, so an annotator seems worse than a judge who is no better.
``like_for_like`` compares both with the same annotators, on the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

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


def against_ceiling(
    aligned: Aligned, kind: Kind, headline: str, *, whole: bool = True
) -> dict[str, Any]:
    """Returns fields of a ResultRow: ``ceiling``, ``like_for_like``, ``ceiling_rows`` and
    ``ceiling_difference`` of the ``headline``, on the scored rows with two or more answers. A slice
    (not ``whole``) has the headline only."""
    binary = kind == "binary"
    names = ("f1_present", "f1_absent") if binary else CORRELATIONS[:5]
    twice = np.isfinite(aligned.values).sum(axis=1) > 1
    released = any(row.aggregated for row in aligned.rows)
    if released or not twice.any():
        reason = _RELEASED if released else "one annotator per row"
        none = undefined(names if whole else (headline,), reason)
        return {"ceiling": none, "like_for_like": none}
    shared = aligned.part(np.flatnonzero(twice))
    values, score, clusters = shared.values, shared.score, shared.clusters
    bots = [] if binary else shared.chatbots
    only = None if whole or binary else headline
    answers = Values(values, shared.human_tolerance)
    person = human_ceiling(answers, kind, clusters, bots, only=only)
    why = undefined_reason(shared.people, shared.judge)
    if binary:
        why = not_classifiable(score, values)
    if why:
        judge = undefined(METRICS if binary else CORRELATIONS, why)
    else:
        judge = human_ceiling(answers, kind, clusters, bots, judge=shared.judge, only=only)
    if not whole:
        return {
            "ceiling": {headline: person[headline]},
            "like_for_like": {headline: judge[headline]},
        }
    undefined_sides = [s for s in (judge[headline], person[headline]) if s.value is None]
    if undefined_sides:
        difference = Difference(None, reason=undefined_sides[0].reason)
    else:
        one, two = (
            ceiling_statistic(answers, kind, judge=by, only=headline) for by in (shared.judge, None)
        )
        assert one is not None and two is not None  # their figures are defined
        difference = paired_difference(one, two, headline, clusters)
    alpha = Estimate(None, reason="all answers are equal")
    if np.nanmax(values) - np.nanmin(values) > answers.tolerance:
        every = np.ones((1, len(values)))
        alpha = Estimate(float(alpha_statistic(values, MEASUREMENT[kind])(every)[0]))
    return {
        "ceiling": person | {"alpha": alpha},
        "like_for_like": judge,
        "ceiling_rows": len(shared.rows),
        "ceiling_difference": difference,
    }


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
    names = METRICS if kind == "binary" else CORRELATIONS[: 7 if chatbots else 5]
    names = names if only is None else (only,)
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
    values = answers.numbers
    given = np.isfinite(values)
    parts: list[tuple[npt.NDArray[np.intp], Statistic]] = []
    if kind == "binary":
        for one, other in permutations(busiest(values), 2):
            rows = np.flatnonzero(given[:, one] & given[:, other])
            if len(rows):
                side = values[rows, one] if judge is None else judge.numbers[rows]
                parts.append((rows, classification_statistic(side, values[rows][:, [other]])))
    else:
        for position in busiest(values):
            others = np.delete(values, position, axis=1)
            rows = np.flatnonzero(given[:, position] & np.isfinite(others).any(axis=1))
            if len(rows) < MIN_ROWS:
                continue
            person = answers[rows, position]
            mean = Values(np.nanmean(others[rows], axis=1), answers.tolerance)
            if not (person.constant or mean.constant):
                bots = [chatbots[i] for i in rows.tolist()] if chatbots else []
                side = person if judge is None else judge[rows]
                parts.append((rows, correlation_statistic(mean, side, bots, only)))

    def statistic(weights: Floats) -> dict[str, Floats]:
        """The mean over the parts that have a figure, weighted by their rows."""
        sizes = np.array([weights[:, rows].sum(axis=1) for rows, _ in parts])
        each = [part(weights[:, rows]) for rows, part in parts]
        means = {}
        for name in each[0]:
            values = np.array([one[name] for one in each])
            defined = np.where(np.isfinite(values), sizes, 0.0)
            total = (defined * np.where(defined > 0, values, 0.0)).sum(axis=0)
            means[name] = ratio(total, defined.sum(axis=0))
        return means

    return statistic if parts else None


def busiest(values: Floats) -> list[int]:
    """Returns the MOST_COLUMNS columns of ``values`` with the most answers. Pairs of columns are
    compared, so that their number would grow with the square."""
    answers = np.isfinite(values).sum(axis=0)
    return sorted(np.argsort(-answers, kind="stable")[:MOST_COLUMNS].tolist())


def answers_by_annotator(
    rows: Sequence[LabelledDialogue], name: str, values: Floats
) -> tuple[Floats, bool, int]:
    """Returns answers by annotator, shape (rows, annotators), whether annotators are named, and
    their number, which may be above MOST_COLUMNS.

    Without names in ``extra["annotators"]`` of every row, and for labels of a machine
    (``labels_by``), the answers are ``values``, shape (rows, positions in the label list): a
    position may be another person in another row.
    """
    given = np.isfinite(values)
    answers = Counter[str]()
    for row, row_given in zip(rows, given, strict=True):
        people: Any = None if row.extra.get("labels_by") else row.extra.get("annotators")
        known = isinstance(people, list) and len(people) == len(row.labels[name])
        texts = ["" if person is None else str(person) for person in people] if known else []
        # Annotators without a name are not one person.
        if not texts or len(set(texts)) < len(texts) or not all(text.strip() for text in texts):
            return values, False, int(given.any(axis=0).sum())
        answers.update(text for text, one in zip(texts, row_given, strict=False) if one)
    most = sorted(answers, key=lambda person: (-answers[person], person))[:MOST_COLUMNS]
    column = {person: k for k, person in enumerate(sorted(most))}
    out = np.full((len(rows), len(column)), np.nan)
    for i, row in enumerate(rows):
        for k, person in enumerate(map(str, row.extra["annotators"])):
            if person in column:
                out[i, column[person]] = values[i, k]
    return out, True, len(answers)
