"""How the members' answers become one: selection, stack or cascade.

Each kind asks the members it needs, and no others, and gives one Scores per item.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from medal_judges.contributions import Contributions
from medal_judges.details import Details
from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError
from medal_judges.judgement import Judgement
from medal_judges.models.base.judge import Prediction, ScoreRequest
from medal_judges.models.hybrid.blend import Blend, level_chances
from medal_judges.models.hybrid.members import Member

_NONE = Details()
# (member, items, dimensions of the hybrid) -> the member's judgements
Ask = Callable[[Member, Sequence[ScoreRequest], Sequence[str]], list[Judgement]]
Members = Mapping[str, Member]


class Combination(ABC):
    """A fitted way to put members together."""

    @abstractmethod
    def score(
        self,
        members: Members,
        dimensions: Sequence[Dimension],
        items: Sequence[ScoreRequest],
        ask: Ask,
    ) -> list[Prediction]:
        """One Prediction per request, in order, on ``dimensions``."""

    @abstractmethod
    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        """The members that ``dimension`` may need an answer of."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """What config.json says of it; numbers of a stack stand in the weights."""

    def tensors(self) -> dict[str, np.ndarray]:
        """Weights by name; none but for a stack."""
        return {}

    def _all_told(
        self,
        members: Members,
        dimensions: Sequence[Dimension],
        items: Sequence[ScoreRequest],
        ask: Ask,
    ) -> dict[str, list[Judgement]]:
        """What each member that is needed says of all items, on the dimensions it is needed for."""
        told: dict[str, list[Judgement]] = {}
        for name, member in members.items():
            if own := [d.name for d in dimensions if name in self.asked(d.name, members)]:
                told[name] = ask(member, items, own)
        return told


@dataclass(frozen=True, slots=True)
class Selection(Combination):
    """``choices``: dimension -> the member that answers it."""

    choices: Mapping[str, str]

    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        return (self.choices[dimension],)

    def record(self) -> dict[str, Any]:
        return {"choices": dict(self.choices)}

    def score(
        self,
        members: Members,
        dimensions: Sequence[Dimension],
        items: Sequence[ScoreRequest],
        ask: Ask,
    ) -> list[Prediction]:
        told = self._all_told(members, dimensions, items, ask)
        found = []
        for row in range(len(items)):
            answers = [
                answer_of(members[self.choices[d.name]], told[self.choices[d.name]][row], d)
                for d in dimensions
            ]
            found.append(_joined(answers, {name: j[row] for name, j in told.items()}))
        return found


@dataclass(frozen=True, slots=True)
class Stack(Combination):
    """``blends``: dimension -> the line through its members' scores."""

    blends: Mapping[str, Blend]

    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        return self.blends[dimension].asked

    def record(self) -> dict[str, Any]:
        return {"blends": {name: list(blend.members) for name, blend in self.blends.items()}}

    def tensors(self) -> dict[str, np.ndarray]:
        return {
            f"{name}.{part}": values
            for name, blend in self.blends.items()
            for part, values in blend.tensors().items()
        }

    def score(
        self,
        members: Members,
        dimensions: Sequence[Dimension],
        items: Sequence[ScoreRequest],
        ask: Ask,
    ) -> list[Prediction]:
        told = self._all_told(members, dimensions, items, ask)
        return [
            self._blended(members, dimensions, {name: j[row] for name, j in told.items()})
            for row in range(len(items))
        ]

    def _blended(
        self, members: Members, dimensions: Sequence[Dimension], told: Mapping[str, Judgement]
    ) -> Prediction:
        answers = []
        for dimension in dimensions:
            blend = self.blends[dimension.name]
            units = {m: members[m].unit(told[m], dimension.name) for m in blend.asked}
            missing = [m for m, unit in units.items() if unit is None]
            own = {m: None if u is None else dimension.from_unit(u) for m, u in units.items()}
            if missing:
                reasons = "; ".join(f"{m}: {told[m].failure or 'no score'}" for m in missing)
                none = Answer(dimension.name, None, failure=reasons, details=Details(members=own))
                answers.append(none)
                continue
            row = np.array([[units.get(m) or 0.0 for m in blend.members]])
            unit = float(blend(row)[0])
            answers.append(
                Answer(
                    dimension.name,
                    dimension.from_unit(unit),
                    level_chances(dimension, unit, blend.residual),
                    details=Details(members=own),
                )
            )
        return _joined(answers, told)


@dataclass(frozen=True, slots=True)
class Cascade(Combination):
    """``thresholds``: dimension -> the uncertainty (Judgement.uncertainty) above which the second
    member is asked. It is also asked where the first one has no score; where the second one has
    none, the first one's stands, and the explanation says so. ``members`` in a dimension's details
    names who was asked: two where it was deferred.
    """

    thresholds: Mapping[str, float]

    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        return tuple(members)

    def record(self) -> dict[str, Any]:
        return {"thresholds": dict(self.thresholds)}

    def score(
        self,
        members: Members,
        dimensions: Sequence[Dimension],
        items: Sequence[ScoreRequest],
        ask: Ask,
    ) -> list[Prediction]:
        weak, strong = members.values()
        names = [d.name for d in dimensions]
        first = ask(weak, items, names)
        unsure = [self._unsure(weak, judgement, names) for judgement in first]
        deferred = [i for i, some in enumerate(unsure) if some]
        second = ask(strong, [items[i] for i in deferred], names) if deferred else []
        later = dict(zip(deferred, second, strict=True))
        return [
            self._chosen(members, dimensions, first[i], later.get(i), unsure[i])
            for i in range(len(items))
        ]

    def _unsure(self, weak: Member, judgement: Judgement, names: Sequence[str]) -> set[str]:
        return {n for n in names if _is_unsure(weak, judgement, n, self.thresholds[n])}

    def _chosen(
        self,
        members: Members,
        dimensions: Sequence[Dimension],
        first: Judgement,
        second: Judgement | None,
        unsure: set[str],
    ) -> Prediction:
        weak, strong = members.values()
        answers, kept = [], []
        for dimension in dimensions:
            answer = own = answer_of(weak, first, dimension)
            if dimension.name in unsure and second is not None:
                answer = _after(own, answer_of(strong, second, dimension))
            if answer.score is None and own.score is not None:
                answer = replace(own, details=replace(own.details, members=answer.details.members))
                kept.append(f"{dimension.name}: {strong.name} has no score, {weak.name}'s stands")
            answers.append(answer)
        told = {weak.name: first} | ({} if second is None else {strong.name: second})
        found = _joined(answers, told)
        found.explanation = "; ".join(filter(None, [found.explanation, *kept])) or None
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """One dimension of one item, on the hybrid's scale."""

    dimension: str
    score: float | None
    chances: Sequence[float] = ()
    contributions: Contributions | None = None
    failure: str | None = None
    details: Details = _NONE


def _after(first: Answer, second: Answer) -> Answer:
    """``second``, with what was said before it."""
    members = {**first.details.members, **second.details.members}
    return replace(second, details=replace(second.details, members=members))


def answer_of(member: Member, judgement: Judgement, dimension: Dimension) -> Answer:
    """What ``member`` said of ``dimension``, from its scale to the hybrid's."""
    unit = member.unit(judgement, dimension.name)
    (own,) = member.own([dimension.name])
    scale = member.judge.dimension(own)
    score = None if unit is None else dimension.from_unit(unit)
    details = judgement.details.get(own, Details()).rescaled(scale, dimension)
    details = replace(details, members={member.name: score})
    if unit is None:
        reason = f"{member.name}: {judgement.failure or 'no score'}"
        return Answer(dimension.name, None, failure=reason, details=details)
    chances = judgement.distributions.get(own, ())
    # A scale with other levels would need chances that nobody gave.
    fits = len(chances) == len(dimension.levels)
    contributions = judgement.contributions.get(own)
    return Answer(
        dimension.name,
        score,
        chances if fits else (),
        None if contributions is None else contributions.rescaled(scale, dimension),
        details=details,
    )


def uncertainty(member: Member, judgement: Judgement, dimension: str) -> float | None:
    """Judgement.uncertainty of the hybrid's ``dimension``; None where the judge has no score.

    Raises ConfigError where it has a score and no distribution: it cannot be the weak one.
    """
    if member.unit(judgement, dimension) is None:
        return None
    (own,) = member.own([dimension])
    found = judgement.uncertainty(own)
    if found is None:
        raise ConfigError(
            f"member {member.name} gives no distribution of {dimension!r}, so a cascade cannot "
            "tell when it is unsure",
            hint="a weak judge needs an ordinal or binary dimension and a calibration or a "
            "probability per level: train an encoder on such a rubric, or use kind: stack",
        )
    return found


def _is_unsure(member: Member, judgement: Judgement, name: str, threshold: float) -> bool:
    found = uncertainty(member, judgement, name)
    return found is None or found > threshold


def _joined(answers: Sequence[Answer], told: Mapping[str, Judgement]) -> Prediction:
    """The dimensions of one item as one Prediction, with what every member asked has used."""
    explained = [f"{name}: {j.explanation}" for name, j in told.items() if j.explanation]
    return Prediction(
        {a.dimension: a.score for a in answers},
        distributions={a.dimension: a.chances for a in answers if a.chances},
        contributions={a.dimension: a.contributions for a in answers if a.contributions},
        details={a.dimension: a.details for a in answers},
        explanation="; ".join(explained) or None,
        failure="; ".join(dict.fromkeys(a.failure for a in answers if a.failure)) or None,
        usage=added_usage(told),
        transient=any(j.transient for j in told.values()),
        left_out_turns=max((j.left_out_turns for j in told.values()), default=0),
        shortened_turns=max((j.shortened_turns for j in told.values()), default=0),
    )


def added_usage(told: Mapping[str, Judgement]) -> dict[str, float]:
    """Tokens, seconds and money summed over the members that were asked."""
    usage: dict[str, float] = {}
    for judgement in told.values():
        for key, value in judgement.usage.items():
            usage[key] = usage.get(key, 0.0) + value
    return usage
