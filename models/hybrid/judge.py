"""The hybrid judge: several saved judges behind the one interface, and itself a saved judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit, ndtr

from medal_judges.config import build_config
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.heads import isotonic_map, on_scale
from medal_judges.models.base.judge import (
    DimensionScore,
    Judge,
    ScoreRequest,
    judgement_of,
)
from medal_judges.models.base.saving import (
    WEIGHTS_NAME,
    read_config,
    read_weights,
    write_config,
    write_weights,
)
from medal_judges.models.hybrid.members import (
    HybridSettings,
    Member,
    load_member,
    open_member,
)
from medal_judges.models.llm.cost import total_usage
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.judgement import Contributions, Judgement
from medal_judges.records.signature import Signature, content_hash

Members = Mapping[str, Member]
Answers = Mapping[str, Judgement]  # of one request: member -> its judgement
_ROUNDING = 1e-9
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
        used = self.weights != 0  # the others were not asked, and have no number
        z = (units[:, used] - self.center[used]) / self.spread[used]
        return np.asarray(self.intercept + z @ self.weights[used])

    def __call__(self, units: np.ndarray) -> np.ndarray:
        """Returns the values on [0, 1]; those of a mean of scores are there."""
        if self.logistic:
            return np.asarray(expit(self.raw(units)))
        rises = self.weights > 0
        lowest, highest = self.raw(np.array([~rises, rises], dtype=float))
        raw = self.raw(units)
        if lowest > -_ROUNDING and highest < 1 + _ROUNDING:
            units = np.clip(raw, 0.0, 1.0)
        else:
            units = on_scale(raw)
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
        self, dimension: Dimension, members: Members, answers: Answers
    ) -> DimensionScore:
        """Returns the chosen member's answer on the hybrid's scale."""
        member = members[self.choices[dimension.name]]
        judgement, own_name = answers[member.name], member.own_name(dimension.name)
        scale = member.judge.dimension(own_name)
        details = rescaled_details(
            judgement.details.get(own_name, {}), scale, dimension
        )
        unit = member.unit(judgement, dimension.name)
        if unit is None:
            details["members"] = {member.name: None}
            reason = f"{member.name}: {judgement.failure or 'no score'}"
            return DimensionScore(details=details, failure=reason)
        score = dimension.from_unit(unit)
        details["members"] = {member.name: score}
        contributions = judgement.contributions.get(own_name)
        if contributions is not None:
            contributions = rescaled(contributions, scale, dimension)
            if "raw" in details and "logit" not in contributions.unit:
                details["raw"] = contributions.value
        chances = judgement.distributions.get(own_name, ())
        # the member gave none for these levels
        if len(chances) != len(dimension.levels):
            chances = ()
        return DimensionScore(score, chances, details, contributions)


@dataclass(frozen=True, slots=True)
class Stack:
    """``blends``: dimension -> the fit of its members' scores."""

    blends: Mapping[str, Blend]

    def asked(self, dimension: str, members: Members) -> dict[str, tuple[str, str]]:
        blend, needed = self.blends[dimension], {}
        for key, weight in zip(blend.members, blend.weights, strict=True):
            if weight != 0:
                name, _, own_name = key.partition(":")
                needed[key] = name, own_name or members[name].own_name(dimension)
        return needed

    def record(self) -> dict[str, object]:
        return {
            "blends": {name: list(blend.members) for name, blend in self.blends.items()}
        }

    def tensors(self) -> dict[str, np.ndarray]:
        tensors = {}
        for name, blend in self.blends.items():
            for part in (*BLEND_PARTS, "curve"):
                value = getattr(blend, part)
                if value is not None:
                    tensors[f"{name}.{part}"] = np.atleast_1d(
                        np.asarray(value, dtype=np.float64)
                    )
        return tensors

    def answer(
        self, dimension: Dimension, members: Members, answers: Answers
    ) -> DimensionScore:
        """Returns the members' weighted score; its distribution is a normal with the residual, in
        which a level has the probability of all values nearest to it."""
        name = dimension.name
        blend = self.blends[name]
        units = dict.fromkeys(blend.members, 0.0)
        scores: dict[str, float | None] = {}
        failures: dict[str, str] = {}
        for key, (member, own_name) in self.asked(name, members).items():
            unit = members[member].unit_of(answers[member], own_name)
            if unit is None:
                scores[key] = None
                failures[member] = f"{member}: {answers[member].failure or 'no score'}"
            else:
                units[key], scores[key] = unit, dimension.from_unit(unit)
        details: dict[str, Any] = {"members": scores}
        if failures:
            return DimensionScore(details=details, failure="; ".join(failures.values()))
        row = np.array([list(units.values())])
        unit = float(blend(row)[0])
        if not blend.logistic:
            details["raw"] = dimension.from_unit(float(blend.raw(row)[0]))
        chances = level_chances(dimension, unit, blend.residual)
        return DimensionScore(dimension.from_unit(unit), chances, details)


# How members are combined. ``asked``: key -> (member, its dimension) that a dimension needs.
# ``record``: its part of judge.json; ``tensors``: its weights. ``answer``: the score of one request
# on a dimension.
Combination = MemberSelection | Stack


def rescaled(
    contributions: Contributions, scale: Dimension, target: Dimension
) -> Contributions:
    """Returns contributions on ``scale`` as contributions on ``target``; logits do not change."""
    if contributions.unit not in ("score", "uncalibrated score"):
        return contributions
    ratio = (target.high - target.low) / (scale.high - scale.low)
    baseline = target.low + (contributions.baseline - scale.low) * ratio
    turns = tuple(turn * ratio for turn in contributions.turns)
    return replace(contributions, turns=turns, baseline=baseline)


def rescaled_details(
    details: Mapping[str, Any], scale: Dimension, target: Dimension
) -> dict[str, Any]:
    """Returns details on ``scale`` as details on ``target``."""
    ratio = (target.high - target.low) / (scale.high - scale.low)

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(entry) for entry in value]
        return None if value is None else target.low + (value - scale.low) * ratio

    moved_details = dict(details)  # members are replaced by the caller
    for name, value in details.items():
        if name in ("value", "expected", "interval", "repeats"):
            moved_details[name] = moved(value)
        elif name in ("spread", "repeats_std"):
            moved_details[name] = value * ratio
    return moved_details


def level_chances(dimension: Dimension, unit: float, residual: float) -> list[float]:
    """Returns the probability per level of a score ``unit`` on [0, 1] with a normal error of
    ``residual``. A binary dimension's probability is the score itself. Empty for a continuous
    dimension, and for an unknown error."""
    levels = dimension.levels
    if dimension.kind == "binary":
        return [1 - unit, unit]
    if len(levels) < 2 or residual <= 0:
        return []
    units = np.array([dimension.to_unit(level) for level in levels])
    cuts = (units[:-1] + units[1:]) / 2
    chances: list[float] = np.diff(
        ndtr((cuts - unit) / residual), prepend=0, append=1
    ).tolist()
    return chances


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
        languages = []
        self.bases: dict[object, Any] = {}  # see Judge.share
        for member in members.values():
            member.judge.share(self.bases)
            if member.judge.languages:
                languages.append(set(member.judge.languages))
        if languages:  # those that all members support
            self.languages = tuple(sorted(set.intersection(*languages))) or None
        # A kill loses at most the window of the slowest member.
        self.window = min(member.judge.window for member in members.values())
        for dimension in self.dimensions:
            for key, (member_name, own_name) in combination.asked(
                dimension.name, members
            ).items():
                _check_dimension(members[member_name], own_name, dimension, key)

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> HybridJudge:
        """Returns the judge of a YAML file, with nothing fitted; see HybridSettings."""
        where = f"judge {settings.get('name', '')}".strip()
        config = build_config(HybridSettings, dict(settings), where=where)
        dimensions = load_rubric(config.rubric, config.dimensions)
        names = [dimension.name for dimension in dimensions]
        combination: Combination = Stack(_unfitted_blends(config, names))
        if config.choices is not None:
            if missing := [name for name in names if name not in config.choices]:
                raise ValueError(f"choices name no member for {', '.join(missing)}")
            combination = MemberSelection(
                {name: config.choices[name] for name in names}
            )
        members = {}
        for name, member in config.members.items():
            members[name] = open_member(name, member)
        return cls(members, combination, dimensions, name=config.name)

    def language_models(self) -> list[LanguageModel]:
        models = []
        for member in self.members.values():
            models += member.judge.language_models()
        return models

    def wording(self, dimension: str, turn: bool) -> Mapping[str, str]:
        wording: dict[str, str] = {}
        for name, own_name in self.combination.asked(dimension, self.members).values():
            wording |= self.members[name].judge.wording(own_name, turn)
        return wording

    def signature(self) -> Signature:
        """``base`` names each member with its revision; the hash covers their whole signatures."""
        tensors, signatures, own_names = {}, {}, {}
        for name, values in self.combination.tensors().items():
            tensors[name] = values.tolist()
        bases: list[str] = []
        dtypes: dict[str, None] = {}
        seeds = set()
        for name, member in self.members.items():
            signature = member.judge.signature()
            signatures[name] = str(signature)
            # A number depends on which dimension of a member is used.
            own_names[name] = dict(member.dimensions)
            bases.append(f"{name}={signature.judge}@{signature.revision}")
            if signature.dtype:
                dtypes[signature.dtype] = None
            seeds.add(signature.seed)
        hashed = [self.combination.record(), tensors, signatures, own_names]
        return self.signed(
            revision=content_hash(hashed),
            base=" + ".join(bases),
            dtype=" + ".join(dtypes) or None,
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
        tensors = {}
        for name, values in self.combination.tensors().items():
            tensors[name] = torch.from_numpy(values)
        if tensors:
            write_weights(tensors, folder / WEIGHTS_NAME)

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
        members = {}
        for name in names:
            members[name] = load_member(name, saved["members"][name], folder, options)
        dimensions = [Dimension(**dimension) for dimension in saved["dimensions"]]
        return cls(
            members,
            _combination(folder, saved["kind"], saved["combination"]),
            dimensions,
            name=saved["name"],
            facts=saved["facts"],
        )

    def load_options(self) -> dict[str, Any]:
        options = {}
        for name, member in self.members.items():
            needed = member.load_options()
            if needed:
                options[name] = needed
        return options

    # -- the hooks of Judge ---------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        """Does nothing: each member forms its own batches."""

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        answers: list[dict[str, Judgement]] = [{} for _ in requests]
        for member in self.members.values():
            self._ask(member, requests, dimensions, answers)
        for _, vectors in self.bases.values():
            vectors.clear()
        pairs = zip(requests, answers, strict=True)
        return [self._combined(request, row, dimensions) for request, row in pairs]

    def _ask(
        self,
        member: Member,
        requests: Sequence[ScoreRequest],
        dimensions: Sequence[str],
        answers: Sequence[dict[str, Judgement]],
    ) -> None:
        """Adds the member's judgement of each request to its ``answers``, if it is needed."""
        needed: dict[str, None] = {}
        for dimension in dimensions:
            for name, own_name in self.combination.asked(
                dimension, self.members
            ).values():
                if name == member.name:
                    needed[own_name] = None
        if not needed:
            return
        # All requests of a call are of one level. The dialogue of a request ends at the judged
        # turn, so that turn is its last one.
        judgements = member.judge.score(
            [request.dialogue for request in requests],
            level="dialogue" if requests[0].turn is None else "last",
            dimensions=list(needed),
            # Only an explicit budget is passed on: each member has its own.
            token_budget=vars(self).get("token_budget"),
            unknown_language="allow",  # the hybrid warns
        )
        for request, row, judgement in zip(requests, answers, judgements, strict=True):
            row[member.name] = judgement
            request.truncated_turns = max(
                request.truncated_turns, judgement.truncated_turns
            )
            request.cut_turns = max(request.cut_turns, judgement.cut_turns)

    def _combined(
        self, request: ScoreRequest, answers: Answers, dimensions: Sequence[str]
    ) -> Judgement:
        """Returns the judgement of a request from its members' ``answers``."""
        results = {}
        for name in dimensions:
            results[name] = self.combination.answer(
                self.dimension(name), self.members, answers
            )
        judgements = answers.values()
        notes = []
        for name, judgement in answers.items():
            if judgement.explanation:
                notes.append(f"{name}: {judgement.explanation}")
        return judgement_of(
            results,
            explanation="; ".join(notes) or None,
            usage=total_usage(judgement.usage for judgement in judgements),
            transient=any(judgement.transient for judgement in judgements),
            left_out_turns=max((j.left_out_turns for j in judgements), default=0),
            shortened_turns=max((j.shortened_turns for j in judgements), default=0),
        )


def _check_dimension(
    member: Member, own_name: str, dimension: Dimension, key: str
) -> None:
    """Raises ConfigError if the member cannot answer the hybrid's ``dimension`` with its
    ``own_name``. ``key``: see Combination."""
    name, names = member.name, [d.name for d in member.judge.dimensions]
    hint = f"map one with members.{name}.dimensions: {{{dimension.name}: ITS_NAME}}"
    if own_name not in names:
        raise ConfigError(
            f"member {name} has no dimension {own_name!r}",
            hint=f"it has: {', '.join(names)}; {hint}",
        )
    good = member.judge.dimension(own_name).good
    if key == name and good != dimension.good:  # ``judge:own`` is fitted with its sign
        raise ConfigError(
            f"member {name}: the good end of {own_name!r} is {good!r}, that of "
            f"{dimension.name!r} is {dimension.good!r}",
            hint=hint,
        )


def _unfitted_blends(
    config: HybridSettings, dimensions: Sequence[str]
) -> dict[str, Blend]:
    """Returns the weighted mean of scores for each dimension."""
    weights = config.weights or {}
    members = tuple(weights)
    shares = np.array(list(weights.values()), dtype=np.float64)
    shares = shares / shares.sum()
    mean = Blend(members, np.zeros(len(members)), np.ones(len(members)), shares, 0.0)
    return dict.fromkeys(dimensions, mean)


def _combination(folder: Path, kind: str, record: Mapping[str, Any]) -> Combination:
    if kind == "select":
        return MemberSelection(record["choices"])
    if kind != "stack":
        raise JudgeLoadError(f"{folder}: unknown kind of hybrid {kind!r}")
    path, blends = folder / WEIGHTS_NAME, dict[str, Blend]()
    arrays = {key: tensor.numpy() for key, tensor in read_weights(path).items()}
    for name, members in record["blends"].items():
        parts: dict[str, Any] = {"curve": arrays.pop(f"{name}.curve", None)}
        for part in BLEND_PARTS:
            key = f"{name}.{part}"
            if key not in arrays:
                raise JudgeLoadError(f"{path}: no weights {key}")
            parts[part] = arrays.pop(key)
        for part in ("center", "spread", "weights"):
            if parts[part].shape != (len(members),):
                raise ValueError(
                    f"{part} {parts[part].shape} is not of {len(members)} members"
                )
        for part in ("intercept", "residual"):
            parts[part] = float(parts[part][0])
        parts["logistic"] = bool(parts["logistic"][0])
        blends[name] = Blend(tuple(members), **parts)
    if arrays:
        raise JudgeLoadError(f"{path}: unexpected weights {sorted(arrays)[0]!r}")
    return Stack(blends)
