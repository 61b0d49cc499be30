"""From the answers of a language model to the numbers of one judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from medal_judges.details import Details
from medal_judges.dimension import Dimension
from medal_judges.models.base.judge import Prediction
from medal_judges.models.prompted.geval_ratings import Found, Ratings
from medal_judges.models.prompted.parsing.parser import Parsed
from medal_judges.models.prompted.question import Asker
from medal_judges.models.prompted.repeats import pooled, self_agreement
from medal_judges.models.prompted.settings import PromptedConfig


@dataclass(slots=True)
class Said:
    """What one dimension was said to be, a list over the repeats."""

    parsed: list[Parsed] = field(default_factory=list)
    found: list[Found | None] = field(default_factory=list)


def to_scores(
    said: Mapping[str, Said],
    asker: Asker,
    dimensions: Sequence[Dimension],
    ratings: Mapping[str, Ratings],
    config: PromptedConfig,
    usage: Mapping[str, float],
) -> Prediction:
    """Scores on the dimensions' own scales, with what stands behind each in ``details``."""
    scores: dict[str, float | None] = {}
    distributions: dict[str, Sequence[float]] = {}
    details: dict[str, Details] = {}
    reasons: dict[str, str] = {}
    for d in dimensions:
        each = said[d.name]
        values = [None if p.value is None else asker.own(p.value, d) for p in each.parsed]
        score, reason = pooled(values, config.pool)
        weighed = _weighed(each.found)
        if weighed is not None and ratings[d.name].values == d.levels:
            distributions[d.name] = weighed
        details[d.name] = _details(each, score, values, weighed, ratings[d.name])
        if config.score == "expected":
            score = details[d.name].expected
            reason = None if score is not None else reason or "no probabilities of the ratings"
        scores[d.name] = score
        if score is None:
            reasons[d.name] = _first_reason(each.parsed) or reason or "no score"
    return Prediction(
        scores,
        distributions,
        explanation=_explanation(details),
        failure=_failure(reasons),
        usage=usage,
        details=details,
    )


def _details(
    said: Said,
    value: float | None,
    values: Sequence[float | None],
    weighed: Sequence[float] | None,
    ratings: Ratings,
) -> Details:
    expected, spread = (None, None) if weighed is None else ratings.moments(weighed)
    repeated = len(values) > 1
    agreement = self_agreement(values) if repeated else {}
    return Details(
        value=value,
        expected=expected,
        spread=spread,
        mass=None if weighed is None else _mass(said.found),
        comment=next((p.comment for p in said.parsed if p.comment), None),
        parsed=tuple(p.step for p in said.parsed),
        repeats=tuple(values) if repeated else (),
        repeats_std=agreement.get("std"),
        repeats_agreement=agreement.get("agreement"),
    )


def _weighed(found: Sequence[Found | None]) -> tuple[float, ...] | None:
    """The mean over the repeats of the distributions that there are."""
    chances = [f.chances for f in found if f is not None and f.chances is not None]
    if not chances:
        return None
    return tuple(sum(column) / len(chances) for column in zip(*chances, strict=True))


def _mass(found: Sequence[Found | None]) -> float:
    masses = [f.mass for f in found if f is not None and f.mass is not None]
    return sum(masses) / len(masses)


def _first_reason(parsed: Sequence[Parsed]) -> str | None:
    return next((p.reason for p in parsed if p.reason), None)


def _explanation(details: Mapping[str, Details]) -> str | None:
    """The comments as one text, for people."""
    return "\n".join(f"{n}: {d.comment}" for n, d in details.items() if d.comment) or None


def _failure(reasons: Mapping[str, str]) -> str | None:
    """Reasons by dimension; dimensions that share one are named together."""
    together: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        together.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in together.items()) or None
