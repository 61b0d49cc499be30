"""How the members' answers become one: selection, stack or cascade.

Each kind asks the members it needs, and no others, and gives one Judgement per request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.hybrid.blend import Blend, level_chances
from medal_judges.models.hybrid.members import Member
from medal_judges.records.contributions import Contributions
from medal_judges.records.details import rescaled_details
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement

# (member, requests, dimensions of the hybrid) -> the member's judgements
Ask = Callable[[Member, Sequence[ScoreRequest], Sequence[str]], list[Judgement]]
Members = Mapping[str, Member]


@dataclass(frozen=True, slots=True)
class HybridAnswer:
    """One dimension of one request, on the hybrid's scale."""

    score: float | None
    chances: Sequence[float] = ()
    contributions: Contributions | None = None
    failure: str | None = None
    note: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


class Combination(ABC):
    """A fitted way to put members together."""

    @abstractmethod
    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        """The members that ``dimension`` may need an answer of."""

    @abstractmethod
    def record(self) -> dict[str, object]:
        """What config.json says of it; numbers of a stack stand in the weights."""

    @abstractmethod
    def _answer(
        self, dimension: Dimension, members: Members, judgements: Mapping[str, Judgement]
    ) -> HybridAnswer:
        """The answer on ``dimension`` of one request, from the members' ``judgements`` of it."""

    def tensors(self) -> dict[str, np.ndarray]:
        """Weights by name; none but for a stack."""
        return {}

    def score(
        self,
        members: Members,
        dimensions: Sequence[Dimension],
        requests: Sequence[ScoreRequest],
        ask: Ask,
    ) -> list[Judgement]:
        """One Judgement per request, in order, on ``dimensions``."""
        return [
            _joined({d.name: self._answer(d, members, judgements) for d in dimensions}, judgements)
            for judgements in self._judgements(members, dimensions, requests, ask)
        ]

    def _judgements(
        self,
        members: Members,
        dimensions: Sequence[Dimension],
        requests: Sequence[ScoreRequest],
        ask: Ask,
    ) -> list[dict[str, Judgement]]:
        """Of each request what the members say that are needed, on what they are needed for."""
        said: list[dict[str, Judgement]] = [{} for _ in requests]
        for name, member in members.items():
            if own := [d.name for d in dimensions if name in self.asked(d.name, members)]:
                for row, judgement in zip(said, ask(member, requests, own), strict=True):
                    row[name] = judgement
        return said


@dataclass(frozen=True, slots=True)
class MemberSelection(Combination):
    """``choices``: dimension -> the member that answers it."""

    choices: Mapping[str, str]

    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        return (self.choices[dimension],)

    def record(self) -> dict[str, object]:
        return {"choices": dict(self.choices)}

    def _answer(
        self, dimension: Dimension, members: Members, judgements: Mapping[str, Judgement]
    ) -> HybridAnswer:
        chosen = self.choices[dimension.name]
        return _answer_of(members[chosen], judgements[chosen], dimension)


@dataclass(frozen=True, slots=True)
class Stack(Combination):
    """``blends``: dimension -> the line through its members' scores."""

    blends: Mapping[str, Blend]

    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        return self.blends[dimension].asked

    def record(self) -> dict[str, object]:
        return {"blends": {name: list(blend.members) for name, blend in self.blends.items()}}

    def tensors(self) -> dict[str, np.ndarray]:
        return {
            f"{name}.{part}": values
            for name, blend in self.blends.items()
            for part, values in blend.tensors().items()
        }

    def _answer(
        self, dimension: Dimension, members: Members, judgements: Mapping[str, Judgement]
    ) -> HybridAnswer:
        blend = self.blends[dimension.name]
        units = {m: members[m].unit(judgements[m], dimension.name) for m in blend.asked}
        scores = {m: None if u is None else dimension.from_unit(u) for m, u in units.items()}
        details = {"members": scores}
        missing = [m for m, unit in units.items() if unit is None]
        if missing:
            reasons = "; ".join(f"{m}: {judgements[m].failure or 'no score'}" for m in missing)
            return HybridAnswer(None, failure=reasons, details=details)
        unit = float(blend(np.array([[units.get(m) or 0.0 for m in blend.members]]))[0])
        chances = level_chances(dimension, unit, blend.residual)
        return HybridAnswer(dimension.from_unit(unit), chances, details=details)


@dataclass(frozen=True, slots=True)
class Cascade(Combination):
    """``thresholds``: dimension -> the uncertainty (Judgement.uncertainty) above which the second,
    strong member is asked. It is also asked where the first, weak one has no score; where the
    strong one has none, the weak one's stands, and the explanation says so. ``members`` in a
    dimension's details names who was asked: two where it was deferred.
    """

    thresholds: Mapping[str, float]

    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        return tuple(members)

    def record(self) -> dict[str, object]:
        return {"thresholds": dict(self.thresholds)}

    def _judgements(
        self,
        members: Members,
        dimensions: Sequence[Dimension],
        requests: Sequence[ScoreRequest],
        ask: Ask,
    ) -> list[dict[str, Judgement]]:
        weak, strong = members.values()
        names = [d.name for d in dimensions]
        said = [{weak.name: judgement} for judgement in ask(weak, requests, names)]
        deferred = [
            i
            for i, row in enumerate(said)
            # Every dimension is looked at: one without a distribution is always an error.
            if any([self._unsure(weak, row[weak.name], name) for name in names])
        ]
        if deferred:
            later = ask(strong, [requests[i] for i in deferred], names)
            for i, judgement in zip(deferred, later, strict=True):
                said[i][strong.name] = judgement
        return said

    def _unsure(self, weak: Member, judgement: Judgement, name: str) -> bool:
        doubt = uncertainty(weak, judgement, name)
        return doubt is None or doubt > self.thresholds[name]

    def _answer(
        self, dimension: Dimension, members: Members, judgements: Mapping[str, Judgement]
    ) -> HybridAnswer:
        weak, strong = members.values()
        first = judgements[weak.name]
        own = _answer_of(weak, first, dimension)
        if strong.name not in judgements or not self._unsure(weak, first, dimension.name):
            return own
        answer = _answer_of(strong, judgements[strong.name], dimension)
        both = {"members": own.details["members"] | answer.details["members"]}
        if answer.score is None and own.score is not None:
            note = f"{dimension.name}: {strong.name} has no score, {weak.name}'s stands"
            return replace(own, note=note, details=own.details | both)
        return replace(answer, details=answer.details | both)


def _answer_of(member: Member, judgement: Judgement, dimension: Dimension) -> HybridAnswer:
    """What ``member`` said of ``dimension``, from its scale to the hybrid's."""
    unit, own = member.unit(judgement, dimension.name), member.own_name(dimension.name)
    scale = member.judge.dimension(own)
    score = None if unit is None else dimension.from_unit(unit)
    details = rescaled_details(judgement.details.get(own, {}), scale, dimension)
    details["members"] = {member.name: score}
    if unit is None:
        reason = f"{member.name}: {judgement.failure or 'no score'}"
        return HybridAnswer(None, failure=reason, details=details)
    chances = judgement.distributions.get(own, ())
    # A scale with other levels would need chances that nobody gave.
    fits = len(chances) == len(dimension.levels)
    contributions = judgement.contributions.get(own)
    return HybridAnswer(
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
    doubt = judgement.uncertainty(member.own_name(dimension))
    if doubt is None:
        raise ConfigError(
            f"member {member.name} gives no distribution of {dimension!r}, so a cascade cannot "
            "tell when it is unsure",
            hint="a weak judge needs an ordinal or binary dimension and a calibration or a "
            "probability per level: train an encoder on such a rubric, or use kind: stack",
        )
    return doubt


def _joined(answers: Mapping[str, HybridAnswer], judgements: Mapping[str, Judgement]) -> Judgement:
    """The dimensions of one request as one Judgement, with the tokens, seconds and money that all
    members asked have used."""
    explained = [f"{name}: {j.explanation}" for name, j in judgements.items() if j.explanation]
    explained += [a.note for a in answers.values() if a.note]
    usage: dict[str, float] = {}
    for judgement in judgements.values():
        for key, value in judgement.usage.items():
            usage[key] = usage.get(key, 0.0) + value
    failures = dict.fromkeys(a.failure for a in answers.values() if a.failure)
    return Judgement(
        scores={name: a.score for name, a in answers.items()},
        distributions={name: a.chances for name, a in answers.items() if a.chances},
        contributions={name: a.contributions for name, a in answers.items() if a.contributions},
        details={name: a.details for name, a in answers.items()},
        explanation="; ".join(explained) or None,
        failure="; ".join(failures) or None,
        usage=usage,
        transient=any(j.transient for j in judgements.values()),
        left_out_turns=max((j.left_out_turns for j in judgements.values()), default=0),
        shortened_turns=max((j.shortened_turns for j in judgements.values()), default=0),
    )
