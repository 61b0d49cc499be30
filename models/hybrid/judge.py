"""The hybrid judge: several saved judges behind the one interface, and itself a saved judge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit

from medal_judges.config import build_config
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.heads import isotonic_map, on_scale
from medal_judges.models.base.judge import Judge, ScoreLevel, ScoreRequest
from medal_judges.models.base.saving import (
    WEIGHTS_NAME,
    read_config,
    read_weights,
    write_config,
    write_weights,
)
from medal_judges.models.hybrid.members import HybridSettings, Member, load_member, open_member
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.records.dialogue import base_language
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.judgement import Contributions, Judgement
from medal_judges.records.signature import Signature, content_hash

Members = Mapping[str, Member]
Answers = Mapping[str, Judgement]  # of one request: member -> its judgement
_ROUNDING = 1e-9
DEVIATION = 0.25  # of a scale [0, 1]: a standard deviation of scores that ``scales`` standardise
BLEND_PARTS = ("center", "spread", "weights", "intercept", "residual", "logistic")


@dataclass(frozen=True, slots=True)
class Blend:
    """The fit of one dimension of a stack: value = intercept + weights . (unit scores - center) /
    spread, on the scale [0, 1], then mapped by the knots (x, y) of a monotone ``curve`` [2, knots].
    If ``logistic``, the value is the log odds of the score, and there is no curve.

    ``members`` are in the order of the arrays, each of shape [members]; ``judge:coherence`` is the
    member ``judge`` on its own dimension ``coherence``. ``residual`` is the standard deviation of
    the error on the fitting rows; 0 if nothing was fitted.
    """

    members: tuple[str, ...]
    center: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    intercept: float
    residual: float = 0.0
    curve: np.ndarray | None = None
    logistic: bool = False

    def raw(self, units: np.ndarray) -> np.ndarray:
        """Returns values [n] of the members' scores ``units`` [n, members]."""
        counted = self.weights != 0  # the others were not asked, and have no number
        z = (units[:, counted] - self.center[counted]) / self.spread[counted]
        return np.asarray(self.intercept + z @ self.weights[counted])

    def __call__(self, units: np.ndarray) -> np.ndarray:
        """Returns the values on [0, 1]; those of a mean of scores are there."""
        if self.logistic:
            return np.asarray(expit(self.raw(units)))
        rises = self.weights > 0
        reach = self.raw(np.array([~rises, rises], dtype=float))  # lowest and highest value
        raw, inside = self.raw(units), reach[0] > -_ROUNDING and reach[1] < 1 + _ROUNDING
        units = np.clip(raw, 0.0, 1.0) if inside else on_scale(raw)
        return units if self.curve is None else isotonic_map(units, self.curve)


@dataclass(frozen=True, slots=True)
class MemberSelection:
    """``choices``: dimension -> the member that answers it."""

    choices: Mapping[str, str]

    def asked(self, dimension: str, members: Members) -> dict[str, tuple[str, str]]:
        chosen = self.choices[dimension]
        return {chosen: (chosen, members[chosen].own_name(dimension))}

    def record(self) -> dict[str, object]:
        return {"choices": dict(self.choices)}

    def tensors(self) -> dict[str, np.ndarray]:
        return {}

    def answer(
        self, dimension: Dimension, members: Members, answers: Answers, lang: str
    ) -> Judgement:
        """Returns the chosen member's answer on the hybrid's scale."""
        name, member = dimension.name, members[self.choices[dimension.name]]
        judgement, own = answers[member.name], member.own_name(name)
        unit, scale = member.unit(judgement, name), member.judge.dimension(own)
        score = None if unit is None else dimension.from_unit(unit)
        details = rescaled_details(judgement.details.get(own, {}), scale, dimension)
        details |= {"members": {member.name: score}}
        if unit is None:
            reason = f"{member.name}: {judgement.failure or 'no score'}"
            return Judgement(scores={name: None}, details={name: details}, failure=reason)
        chances, account = judgement.distributions.get(own, ()), judgement.contributions.get(own)
        account = account and rescaled(account, scale, dimension)
        if account and "raw" in details and "logit" not in account.unit:
            details["raw"] = account.value
        # For another number of levels the member gave no probabilities.
        fits = chances and len(chances) == len(dimension.levels)
        return Judgement(
            scores={name: score},
            details={name: details},
            distributions={name: chances} if fits else {},
            contributions={name: account} if account else {},
        )


@dataclass(frozen=True, slots=True)
class Stack:
    """``blends``: dimension -> the fit of its members' scores; DIMENSION:LANGUAGE -> the fit with
    other numbers for dialogues in that language."""

    blends: Mapping[str, Blend]

    def asked(self, dimension: str, members: Members) -> dict[str, tuple[str, str]]:
        blend, found = self.blends[dimension], {}  # a member with a weight of 0 is not asked
        for key in (m for m, w in zip(blend.members, blend.weights, strict=True) if w != 0):
            name, _, own = key.partition(":")
            found[key] = name, own or members[name].own_name(dimension)
        return found

    def record(self) -> dict[str, object]:
        return {"blends": {name: list(blend.members) for name, blend in self.blends.items()}}

    def tensors(self) -> dict[str, np.ndarray]:
        return {
            f"{name}.{part}": np.atleast_1d(np.asarray(getattr(blend, part), dtype=np.float64))
            for name, blend in self.blends.items()
            for part in (*BLEND_PARTS, "curve")
            if getattr(blend, part) is not None
        }

    def answer(
        self, dimension: Dimension, members: Members, answers: Answers, lang: str
    ) -> Judgement:
        """Returns the members' weighted score; its distribution is a normal with the residual, in
        which a level has the probability of all values nearest to it."""
        name = dimension.name
        blend = self.blends.get(f"{name}:{base_language(lang)}", self.blends[name])
        units: dict[str, float | None] = {}
        for key, (m, own) in self.asked(name, members).items():
            value = answers[m].scores.get(own)
            units[key] = None if value is None else members[m].judge.dimension(own).to_unit(value)
        scores = {m: None if u is None else dimension.from_unit(u) for m, u in units.items()}
        details: dict[str, dict[str, Any]] = {name: {"members": scores}}
        if missing := [m for m, unit in units.items() if unit is None]:
            left = dict.fromkeys(key.partition(":")[0] for key in missing)
            failure = "; ".join(f"{m}: {answers[m].failure or 'no score'}" for m in left)
            return Judgement(scores={name: None}, failure=failure, details=details)
        table = np.array([[units.get(m) or 0.0 for m in blend.members]])
        unit = float(blend(table)[0])
        if not blend.logistic:
            details[name]["raw"] = dimension.from_unit(float(blend.raw(table)[0]))
        chances = level_chances(dimension, unit, blend.residual)
        return Judgement(
            scores={name: dimension.from_unit(unit)},
            distributions={name: chances} if chances else {},
            details=details,
        )


# How members are combined. ``asked``: key -> (member, its dimension) that a dimension needs.
# ``record``: its part of judge.json; ``tensors``: its weights. ``answer``: the judgement of one
# request on a dimension.
Combination = MemberSelection | Stack


def rescaled(account: Contributions, scale: Dimension, other: Dimension) -> Contributions:
    """Returns contributions on ``scale`` as contributions on ``other``; logits do not change."""
    if account.unit not in ("score", "uncalibrated score"):
        return account
    ratio = (other.high - other.low) / (scale.high - scale.low)
    baseline = other.low + (account.baseline - scale.low) * ratio
    return Contributions(tuple(t * ratio for t in account.turns), baseline, account.unit)


def rescaled_details(
    details: Mapping[str, Any], scale: Dimension, other: Dimension
) -> dict[str, Any]:
    """Returns details on ``scale`` as details on ``other``."""
    ratio = (other.high - other.low) / (scale.high - scale.low)

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(each) for each in value]
        return None if value is None else other.low + (value - scale.low) * ratio

    found = dict(details)  # members are replaced by the caller
    for name, value in details.items():
        if name in ("value", "expected", "interval", "repeats"):
            found[name] = moved(value)
        elif name in ("spread", "repeats_std"):
            found[name] = value * ratio
    return found


def level_chances(dimension: Dimension, unit: float, residual: float) -> list[float]:
    """Returns the probability per level of a score ``unit`` on [0, 1] with a normal error of
    ``residual``. A binary dimension's probability is the score itself. Empty for a continuous
    dimension, and for an unknown error."""
    levels = dimension.levels
    if dimension.kind == "binary":
        return [1 - unit, unit]
    if len(levels) < 2 or residual <= 0:
        return []
    cuts = [(a + b) / 2 for a, b in pairwise(dimension.to_unit(level) for level in levels)]
    below = [0.0, *(0.5 * math.erfc((unit - c) / residual / math.sqrt(2)) for c in cuts), 1.0]
    return [b - a for a, b in pairwise(below)]


class HybridJudge(Judge):
    """Combines the answers of several judges; see HybridConfig for the kinds.

    Each dimension is on the hybrid's own scale. ``usage`` is the sum over the members that were
    asked. A stack leaves a dialogue unscored if one of the members that it asked does.
    """

    family = "hybrid"

    def __init__(
        self,
        members: Mapping[str, Member],
        combination: Combination,
        dimensions: Sequence[Dimension],
        *,
        name: str = "hybrid",
        facts: Mapping[str, object] | None = None,
    ) -> None:
        self.members, self.combination = dict(members), combination
        self.dimensions, self.name = tuple(dimensions), name
        self.facts = dict(facts or {})
        known = [set(m.judge.languages) for m in self.members.values() if m.judge.languages]
        # The languages that all members support.
        self.languages = tuple(sorted(set.intersection(*known))) or None if known else None
        # A kill loses at most the window of the slowest member.
        self.window = min(m.judge.window for m in self.members.values())
        for dimension in self.dimensions:
            for key, (name, own) in combination.asked(dimension.name, self.members).items():
                member = self.members[name]
                hint = f"map one with members.{name}.dimensions: {{{dimension.name}: ITS_NAME}}"
                if own not in (d.name for d in member.judge.dimensions):
                    its = ", ".join(d.name for d in member.judge.dimensions)
                    raise ConfigError(
                        f"member {name} has no dimension {own!r}", hint=f"it has: {its}; {hint}"
                    )
                good = member.judge.dimension(own).good
                if key == name and good != dimension.good:  # ``judge:own``: fitted with its sign
                    raise ConfigError(
                        f"member {name}: the good end of {own!r} is {good!r}, that of "
                        f"{dimension.name!r} is {dimension.good!r}",
                        hint=hint,
                    )

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> HybridJudge:
        """Returns the judge of a YAML file, with nothing fitted; see HybridSettings."""
        where = f"judge {settings.get('name', '')}".strip()
        given = build_config(HybridSettings, dict(settings), where=where)
        dimensions = load_rubric(given.rubric, given.dimensions)
        names = [d.name for d in dimensions]
        combination: Combination
        if given.choices is not None:
            if missing := [name for name in names if name not in given.choices]:
                raise ValueError(f"choices name no member for {', '.join(missing)}")
            combination = MemberSelection({name: given.choices[name] for name in names})
        else:
            named = tuple(given.weights or {})
            shares = np.array(list((given.weights or {}).values()), dtype=np.float64)
            shares = shares / shares.sum()
            mean = Blend(named, np.zeros(len(named)), np.ones(len(named)), shares, 0.0)
            blends = dict.fromkeys(names, mean)
            fits = {f":{k}": np.array([fit[m] for m in named]).T for k, fit in given.scales.items()}
            if fits:
                fits[""] = np.mean(list(fits.values()), axis=0)  # for any other language
                blends = {
                    f"{name}{lang}": Blend(named, center, spread, shares * DEVIATION, 0.5)
                    for name in names
                    for lang, (center, spread) in fits.items()
                }
            combination = Stack(blends)
        members = {name: open_member(name, member) for name, member in given.members.items()}
        judge = cls(members, combination, dimensions, name=given.name)
        judge.languages = tuple(sorted(given.scales)) or judge.languages
        return judge

    def language_models(self) -> list[LanguageModel]:
        return [m for member in self.members.values() for m in member.judge.language_models()]

    def signature(self) -> Signature:
        """``base`` names each member with its revision; the hash covers their whole signatures."""
        own = {name: m.judge.signature() for name, m in self.members.items()}
        numbers = {k: v.tolist() for k, v in self.combination.tensors().items()}
        made = [self.combination.record(), numbers, {k: str(v) for k, v in own.items()}]
        # A number depends on which dimension of a member is used.
        made.append({name: dict(m.dimensions) for name, m in self.members.items()})
        seeds = {s.seed for s in own.values()}
        return self.signed(
            revision=content_hash(made),
            base=" + ".join(f"{name}={s.judge}@{s.revision}" for name, s in own.items()),
            dtype=" + ".join(dict.fromkeys(s.dtype for s in own.values() if s.dtype)) or None,
            seed=seeds.pop() if len(seeds) == 1 else None,
        )

    # -- saving and loading ---------------------------------------------------------------------

    def _save(self, folder: Path) -> None:
        settings = {
            "name": self.name,
            "kind": "stack" if isinstance(self.combination, Stack) else "select",
            "members": {name: m.record() for name, m in self.members.items()},
            "combination": self.combination.record(),
            "facts": self.facts,
        }
        write_config(folder, self, settings)
        for member in self.members.values():
            member.save(folder)
        if tensors := self.combination.tensors():
            arrays = {name: torch.from_numpy(values) for name, values in tensors.items()}
            write_weights(arrays, folder / WEIGHTS_NAME)

    @classmethod
    def load(cls, folder: Path, **options: Any) -> HybridJudge:
        """Loads the judge saved in ``folder``.

        ``options``: ``device`` and ``dtype`` for all members with a model on this machine, and the
        options of one member under its name (``contrast={"llm": {"device": "cuda"}}``). Raises
        JudgeLoadError.
        """
        saved = read_config(folder)
        names = list(saved["members"])
        if unknown := set(options) - {"device", "dtype", *names}:
            raise JudgeLoadError(
                f"{folder}: no option {', '.join(sorted(unknown))}",
                hint=f"options: device, dtype, or those of a member: {', '.join(names)}",
            )
        members = {n: load_member(n, saved["members"][n], folder, options) for n in names}
        return cls(
            members,
            _combination(folder, saved["kind"], saved["combination"]),
            [Dimension(**d) for d in saved["dimensions"]],
            name=saved["name"],
            facts=saved["facts"],
        )

    def load_options(self) -> dict[str, Any]:
        each = {name: member.load_options() for name, member in self.members.items()}
        return {name: options for name, options in each.items() if options}

    # -- the hooks of Judge ---------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        """Does nothing: each member forms its own batches."""

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        combination, members, scored = self.combination, self.members, list[Judgement]()
        rows: list[dict[str, Judgement]] = [{} for _ in requests]
        # The dialogue of a request ends at the judged turn, so that turn is its last one.
        levels: dict[ScoreLevel, list[int]] = {"dialogue": [], "last": []}
        for i, request in enumerate(requests):
            levels["dialogue" if request.turn is None else "last"].append(i)
        for name, member in self.members.items():
            needs = (pair for d in dimensions for pair in combination.asked(d, members).values())
            if wanted := dict.fromkeys(own for one, own in needs if one == name):
                for level, mine in levels.items():
                    judged = member.judge.score(
                        [requests[i].dialogue for i in mine],
                        level=level,
                        dimensions=list(wanted),
                        # Only an explicit budget is passed on: each member has its own.
                        token_budget=vars(self).get("token_budget"),
                        unknown_language="allow",  # the hybrid warns
                    )
                    for i, judgement in zip(mine, judged, strict=True):
                        rows[i][name] = judgement
                        request = requests[i]
                        request.truncated_turns = max(
                            request.truncated_turns, judgement.truncated_turns
                        )
                        request.cut_turns = max(request.cut_turns, judgement.cut_turns)
        for request, answers in zip(requests, rows, strict=True):
            lang = request.dialogue.lang
            own = [
                combination.answer(self.dimension(d), members, answers, lang) for d in dimensions
            ]
            asked = list(answers.values())
            notes = [f"{name}: {j.explanation}" for name, j in answers.items() if j.explanation]
            usage: dict[str, float] = {}
            for key, amount in (item for j in asked for item in j.usage.items()):
                usage[key] = usage.get(key, 0.0) + amount
            scored.append(
                Judgement(
                    scores={k: v for each in own for k, v in each.scores.items()},
                    distributions={k: v for each in own for k, v in each.distributions.items()},
                    contributions={k: v for each in own for k, v in each.contributions.items()},
                    details={k: v for each in own for k, v in each.details.items()},
                    explanation="; ".join(notes) or None,
                    failure="; ".join(dict.fromkeys(e.failure for e in own if e.failure)) or None,
                    usage=usage,
                    transient=any(j.transient for j in asked),
                    left_out_turns=max((j.left_out_turns for j in asked), default=0),
                    shortened_turns=max((j.shortened_turns for j in asked), default=0),
                )
            )
        return scored


def _combination(folder: Path, kind: str, record: Mapping[str, Any]) -> Combination:
    if kind == "select":
        return MemberSelection(record["choices"])
    if kind != "stack":
        raise JudgeLoadError(f"{folder}: unknown kind of hybrid {kind!r}")
    path, blends = folder / WEIGHTS_NAME, dict[str, Blend]()
    arrays = {key: tensor.numpy() for key, tensor in read_weights(path).items()}
    for name, members in record["blends"].items():
        own: dict[str, Any] = {part: arrays.pop(f"{name}.{part}", None) for part in BLEND_PARTS}
        if missing := [part for part in BLEND_PARTS if own[part] is None]:
            raise JudgeLoadError(f"{path}: no weights {name}.{missing[0]}")
        for part in ("center", "spread", "weights"):
            if own[part].shape != (len(members),):
                raise ValueError(f"{part} {own[part].shape} is not of {len(members)} members")
        numbers: dict[str, Any] = {part: float(own[part][0]) for part in ("intercept", "residual")}
        numbers["logistic"] = bool(own["logistic"][0])
        numbers["curve"] = arrays.pop(f"{name}.curve", None)
        blends[name] = Blend(tuple(members), **(own | numbers))
    if arrays:
        raise JudgeLoadError(f"{path}: unexpected weights {sorted(arrays)[0]!r}")
    return Stack(blends)
