"""From what the answers say to one prediction: repeats become one number a dimension."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

from medal_judges.models.prompted.builder import PromptBuilder
from medal_judges.models.prompted.parsing.answer import ParsedAnswer, RatingDistribution
from medal_judges.models.prompted.ratings import Ratings, averaged
from medal_judges.records.details import known_details
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement

Pooling = Literal["mean", "majority", "first"]


def to_prediction(
    answers: Mapping[str, Sequence[ParsedAnswer]],
    dimensions: Sequence[Dimension],
    builder: PromptBuilder,
    ratings: Mapping[str, Ratings],
    *,
    pool: Pooling,
    score: Literal["said", "expected"],
) -> Judgement:
    """Scores on the dimensions' own scales, with what stands behind each in ``details``.

    ``answers`` holds the repeats of each dimension. ``score``: the number that they say, pooled, or
    the expected rating under the mean of their distributions over ``ratings``.
    """
    scores: dict[str, float | None] = {}
    distributions: dict[str, Sequence[float]] = {}
    details: dict[str, dict[str, Any]] = {}
    reasons: dict[str, list[str]] = {}  # reason -> dimensions that share it
    for d in dimensions:
        each = answers[d.name]
        values = [None if p.value is None else builder.own(p.value, d) for p in each]
        value, reason = pooled(values, pool)
        distribution = averaged([p.distribution for p in each])
        details[d.name] = _details(each, value, values, distribution, ratings[d.name])
        if distribution is not None and ratings[d.name].values == d.levels:
            distributions[d.name] = distribution.chances
        if score == "expected":
            value = details[d.name].get("expected")
            reason = None if value is not None else reason or "no probabilities of the ratings"
        scores[d.name] = value
        if value is None:
            first = next((p.reason for p in each if p.reason), None)
            reasons.setdefault(first or reason or "no score", []).append(d.name)
    comments = [f"{n}: {each['comment']}" for n, each in details.items() if each.get("comment")]
    failures = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    return Judgement(
        scores=scores,
        distributions=distributions,
        explanation="\n".join(comments) or None,
        failure="; ".join(failures) or None,
        details=details,
    )


def _details(
    answers: Sequence[ParsedAnswer],
    value: float | None,
    values: Sequence[float | None],
    distribution: RatingDistribution | None,
    ratings: Ratings,
) -> dict[str, Any]:
    expected, spread = ratings.moments(distribution.chances) if distribution else (None, None)
    repeated = len(values) > 1
    agreement = self_agreement(values) if repeated else {}
    return known_details(
        value=value,
        expected=expected,
        spread=spread,
        mass=distribution.mass if distribution else None,
        samples=(distribution.samples or None) if distribution else None,
        comment=next((p.comment for p in answers if p.comment), None),
        parsed=tuple(p.step for p in answers),
        repeats=tuple(values) if repeated else (),
        repeats_std=agreement.get("std"),
        repeats_agreement=agreement.get("agreement"),
    )


def pooled(values: Sequence[float | None], how: Pooling) -> tuple[float | None, str | None]:
    """(score, None), or (None, reason). Repeats without a score are left out of mean and majority;
    a tied majority is no score. ``first`` is the first answer, scored or not."""
    given = [v for v in values if v is not None]
    if how == "first":
        return values[0], None if values[0] is not None else "the first answer has no score"
    if not given:
        return None, "no answer has a score"
    if how == "mean":
        return statistics.fmean(given), None
    modes = statistics.multimode(given)
    if len(modes) > 1:
        told = ", ".join(f"{mode:g}" for mode in sorted(modes))
        return None, f"the answers are tied between {told}"
    return modes[0], None


def self_agreement(values: Sequence[float | None]) -> dict[str, float]:
    """``std``: standard deviation over the repeats (n - 1), as in MEDAL, Table 3. ``agreement``:
    share of pairs of repeats that give the same score. Empty with fewer than two scores."""
    given = [v for v in values if v is not None]
    if len(given) < 2:
        return {}
    pairs = [a == b for a, b in combinations(given, 2)]
    return {"std": statistics.stdev(given), "agreement": sum(pairs) / len(pairs)}
