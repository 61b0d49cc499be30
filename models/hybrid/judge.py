"""The hybrid judge: scores each dimension with a linear formula over the scores of other judges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from medal_judges.config import Config, build_config, judge_yaml, shipped_names
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.heads import map_isotonic, squash_to_unit
from medal_judges.models.base.judge import (
    DimensionScore,
    Judge,
    ScoreRequest,
    as_judgement,
)
from medal_judges.models.base.saving import (
    OPTIONS,
    read_config,
    save_judge,
    write_config,
)
from medal_judges.models.llm.cost import sum_usage_records
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash

MEMBERS = "members"  # the folder of a hybrid with the saved judges
_NAME = r"^[A-Za-z0-9_-]+$"
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Formula:
    """The formula by which a hybrid judge computes its score of one dimension from the scores of
    its members, the judges that it combines. All scores are on [0, 1].

        score = curve(squash(intercept + weights[0] * inputs[0] + weights[1] * inputs[1] + ...))

    ``squash`` maps sums below 0 or above 1 into [0, 1]. ``curve`` calibrates the result.

    Attributes:
        inputs: Names of scores. ``geval:empathy`` is the score of the member ``geval`` on the
            dimension ``empathy``. ``geval`` alone is its score on the formula's own dimension.
        weights: The weight of each of ``inputs``, in the same order.
        intercept: The constant term of the sum.
        curve: The points of a monotone calibration map, as (x coordinates, y coordinates). The map
            is linear between them. None does not calibrate.
    """

    inputs: tuple[str, ...]
    weights: tuple[float, ...]
    intercept: float = 0.0
    curve: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    def sum_with_intercept(self, units: np.ndarray) -> np.ndarray:
        """Returns ``intercept`` plus the weighted sum of the inputs for n dialogues, [n]. It can be
        below 0 or above 1.

        Args:
            units: The input scores on [0, 1]: a row for each dialogue, and a column for each of
                ``inputs``, in order.
        """
        return np.asarray(self.intercept + units @ np.array(self.weights))

    def __call__(self, units: np.ndarray) -> np.ndarray:
        """Returns the scores of n dialogues on [0, 1], [n].

        Args:
            units: The input scores on [0, 1]: a row for each dialogue, and a column for each of
                ``inputs``, in order.
        """
        total, weights = self.sum_with_intercept(units), np.array(self.weights)
        lowest = self.intercept + np.minimum(weights, 0).sum()
        highest = self.intercept + np.maximum(weights, 0).sum()
        if lowest > -_ROUNDING and highest < 1 + _ROUNDING:
            scores: np.ndarray = np.clip(total, 0.0, 1.0)
        else:
            scores = squash_to_unit(total)
        if self.curve is None:
            return scores
        return np.asarray(map_isotonic(scores, self.curve))


def split_input_name(key: str, dimension: str) -> tuple[str, str]:
    """Splits the name of a formula's input into (member, dimension): ``geval:empathy`` into
    ``("geval", "empathy")``.

    Args:
        key: The name, ``MEMBER:DIMENSION`` or ``MEMBER``.
        dimension: The dimension to return if ``key`` is only ``MEMBER``.
    """
    member, _, own_name = key.partition(":")
    return member, own_name or dimension


class MemberConfig(Config):
    """A member of a hybrid: one of the judges that it combines.

    Attributes:
        path: The judge's folder, Hub id, or YAML file, such as ``configs/judges/length.yaml``.
        options: Arguments of ``Judge.from_pretrained`` for this judge, such as ``{"revision":
            "main"}`` for a Hub id.
    """

    path: str
    options: Mapping[str, Any] = {}


# By a name that can be a folder's.
Members = Mapping[Annotated[str, Field(pattern=_NAME)], MemberConfig]


class HybridSettings(Config):
    """The settings of a hybrid judge, which combines other judges. Its file in configs/judges/ has
    ``family: hybrid``.

    Attributes:
        name: The name of the hybrid.
        rubric: A file that defines the dimensions, or the name of a shipped one, such as ``medal``.
        members: Name -> the judge to combine, such as ``{"length": {"path":
            "configs/judges/length.yaml"}}``.
        dimensions: Dimension -> the member that scores it, or the members' weights for a weighted
            mean, such as ``{"overall": {"length": 1, "repetition": 3}}``.
    """

    name: str
    rubric: str
    members: Members = Field(min_length=1)
    dimensions: Mapping[str, str | Mapping[str, Annotated[float, Field(gt=0)]]]

    def mean_formula(self, dimension: str) -> Formula:
        """Returns the formula of ``dimension``: the weighted mean of the members' scores."""
        weights = self.dimensions[dimension]
        if isinstance(weights, str):
            weights = {weights: 1.0}
        total = sum(weights.values())
        shares = tuple(weight / total for weight in weights.values())
        return Formula(tuple(weights), shares)


@plain_dataclass(frozen=True, slots=True)
class Member:
    """A loaded judge that a hybrid combines with others.

    Attributes:
        name: The judge's name in the hybrid.
        judge: The loaded judge.
        file: The YAML file that describes the judge. None for a judge that is saved as a folder.
        options: Arguments with which the judge was loaded, such as ``{"seed": 1}``. They override
            settings in its YAML file.
    """

    name: str
    judge: Judge
    file: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def unit_score(self, judgement: Judgement, dimension: str) -> float | None:
        """Returns the score of ``dimension`` in ``judgement``, mapped to [0, 1]. None if there
        is no score."""
        score = judgement.scores.get(dimension)
        if score is None:
            return None
        return self.judge.dimension(dimension).to_unit(score)

    @property
    def is_shipped(self) -> bool:
        """Whether this package contains the judge's YAML file. False for a judge that is saved
        as a folder."""
        return self.file in _shipped_files()

    def unsaved_options(self) -> dict[str, Any]:
        """Returns the options that ``from_pretrained`` needs again because the saved hybrid does
        not hold them.

        Returns:
            Option -> value, such as the address of a server, or the ``path`` of the judge's YAML
            file. Empty if nothing is missing.
        """
        if self.file is None:
            return self.judge.unsaved_options()
        if self.is_shipped:
            return dict(self.options)
        return {"path": self.file, **self.options}

    def save_or_reference(self, folder: Path) -> dict[str, Any]:
        """Saves a judge that was loaded from a folder or the Hub, in members/NAME of the hybrid's
        ``folder``. A judge that a YAML file describes is not saved.

        Returns:
            The member's entry in judge.json, a dict. ``signature`` is the judge's signature, which
            identifies its weights and settings. ``path`` is members/NAME for a judge that was
            saved. For a judge of a YAML file, ``path`` is this file if it is part of this package,
            otherwise None.
        """
        path = self.file if self.is_shipped else None
        if self.file is None:
            path = f"{MEMBERS}/{self.name}"
            (folder / MEMBERS).mkdir(exist_ok=True)
            save_judge(self.judge, folder / path)
        return {"signature": str(self.judge.signature()), "path": path}


def _shipped_files() -> set[str]:
    return {f"configs/judges/{name}.yaml" for name in shipped_names("judges")}


def load_member(name: str, config: MemberConfig) -> Member:
    """Loads the judge of one member of a hybrid.

    Args:
        name: The member's name in the hybrid.
        config: The judge's path and options.

    Raises:
        JudgeLoadError: The judge cannot be loaded.
    """
    judge = Judge.from_pretrained(config.path, **config.options)
    return Member(name, judge, judge_yaml(config.path), config.options)


def load_saved_member(
    name: str, saved: Mapping[str, Any], folder: Path, options: Mapping[str, Any]
) -> Member:
    """Loads the member ``name`` of the hybrid that is saved in ``folder``.

    Args:
        saved: The member's entry in judge.json: ``signature``, and ``path`` (None for a YAML file
            of the user).
        options: Member name -> options of this member, such as ``{"geval": {"seed": 1}}``. It may
            also have ``device`` and ``dtype``, for all members that are saved as folders.

    Raises:
        JudgeLoadError: The member is missing or has changed since it was saved.
    """
    settings = dict(options.get(name) or {})
    path, was = saved["path"], saved["signature"]
    if not re.fullmatch(_NAME, name):
        raise JudgeLoadError(f"{folder}: the member {name!r} is a path")
    if path == f"{MEMBERS}/{name}":
        shared = {key: value for key, value in options.items() if key in OPTIONS}
        return Member(name, Judge.from_pretrained(folder / path, **(shared | settings)))
    if path not in (None, *_shipped_files()):
        raise JudgeLoadError(f"{folder}: the member {name!r} is a path")
    hint = f"Type its settings as they were: {name}.path=..., {name}.llm=..."
    path = settings.pop("path", path)
    if path is None:
        raise JudgeLoadError(f"{folder}: {name} is in a YAML file", hint=hint)
    member = load_member(name, MemberConfig(path=path, options=settings))
    if member.judge.signature().revision != Signature.parse(was).revision:
        raise JudgeLoadError(
            f"{folder}: the member {name} is not as it was saved ({was}): a saved judge holds no "
            "settings of a server and no path",
            hint=hint,
        )
    return member


class HybridJudge(Judge):
    """A judge that combines the scores of other judges, its members.

    If a member in a dimension's formula gives no score, the hybrid has no score of the dimension
    either.

    Args:
        members: Name -> member.
        lines: Dimension -> the formula of its score.
        dimensions: The dimensions to score, each with a formula in ``lines``.
        name: The judge's name.
        facts: Facts about the training of the formulas, such as ``{"seed": 0}``, which judge.json
            keeps.

    Raises:
        ConfigError: A formula has an unknown member or dimension. Or an input is only a member's
            name, and high scores are good for one of the two judges and bad for the other.
    """

    family = "hybrid"
    config_class = HybridSettings

    def __init__(
        self,
        members: Mapping[str, Member],
        lines: Mapping[str, Formula],
        dimensions: Sequence[Dimension],
        *,
        name: str = "hybrid",
        facts: Mapping[str, object] | None = None,
    ) -> None:
        self.members, self.lines = dict(members), dict(lines)
        self.dimensions, self.name = tuple(dimensions), name
        self.facts = dict(facts or {})
        languages = []
        for member in members.values():
            if member.judge.languages:
                languages.append(set(member.judge.languages))
        if languages:  # those that all members support
            self.languages = tuple(sorted(set.intersection(*languages))) or None
        # A kill loses at most the window of the slowest member.
        self.window = min(member.judge.window for member in members.values())
        for dimension in self.dimensions:
            for key in self.lines[dimension.name].inputs:
                self._require_valid_member(key, dimension)

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> HybridJudge:
        """Returns the judge that ``settings`` describe, with its members loaded.

        Args:
            settings: The content of a YAML file: ``name``, ``rubric``, ``members`` and
                ``dimensions``.

        Raises:
            ConfigError: A field is wrong.
            JudgeLoadError: A member cannot be loaded.
        """
        where = f"judge {settings.get('name', '')}".strip()
        config = build_config(HybridSettings, dict(settings), where=where)
        dimensions = load_rubric(config.rubric, list(config.dimensions))
        lines = {name: config.mean_formula(name) for name in config.dimensions}
        members = {}
        for name, member in config.members.items():
            members[name] = load_member(name, member)
        return cls(members, lines, dimensions, name=config.name)

    def _require_valid_member(self, key: str, dimension: Dimension) -> None:
        """Raises ConfigError if the input ``key`` of the formula of ``dimension`` is wrong.

        The member must exist. If ``key`` is only a member, such as ``geval``, both judges must
        agree on whether high or low scores are good.

        Args:
            key: The input, such as ``geval:empathy``, or ``geval`` for the member's score of
                ``dimension``.
        """
        name, own_name = split_input_name(key, dimension.name)
        if name not in self.members:
            raise ConfigError(
                f"{dimension.name}: no member {name!r}",
                hint=f"Use one of: {', '.join(self.members)}",
            )
        judge = self.members[name].judge
        good = judge.dimension(own_name).good
        if key == name and good != dimension.good:  # MEMBER:DIMENSION has its sign
            raise ConfigError(
                f"member {name}: the good end of {own_name!r} is {good!r}"
            )

    def needed_dimensions(self, member: str, dimensions: Sequence[str]) -> list[str]:
        """Returns the dimensions that ``member`` must score, so that the hybrid can score
        ``dimensions``. Empty if it needs no score of this member."""
        names: dict[str, None] = {}
        for dimension in dimensions:
            for key in self.lines[dimension].inputs:
                name, own_name = split_input_name(key, dimension)
                if name == member:
                    names[own_name] = None
        return list(names)

    def language_models(self) -> list[LanguageModel]:
        models = []
        for member in self.members.values():
            models += member.judge.language_models()
        return models

    def signature(self) -> Signature:
        """Returns the signature, which identifies the hybrid in saved scores. It holds the name
        and revision of each member."""
        signatures = {}
        for name, member in self.members.items():
            signatures[name] = member.judge.signature()
        bases = [f"{n}={one.judge}@{one.revision}" for n, one in signatures.items()]
        lines = {name: asdict(line) for name, line in self.lines.items()}
        whole = {name: str(signature) for name, signature in signatures.items()}
        return self.make_signature(
            revision=content_hash([lines, whole]), base=" + ".join(bases)
        )

    # -- saving and loading ---------------------------------------------------------------------

    def _save(self, folder: Path) -> None:
        settings = {
            "name": self.name,
            "members": {
                n: member.save_or_reference(folder)
                for n, member in self.members.items()
            },
            "lines": {name: asdict(line) for name, line in self.lines.items()},
            "facts": self.facts,
        }
        write_config(folder, self, settings)

    @classmethod
    def load(cls, folder: Path, **options: Any) -> HybridJudge:
        """Loads the hybrid saved in ``folder`` with its members.

        Args:
            options: ``device`` and ``dtype`` are for all members that are saved as folders. An
                argument with the name of a member has options for it alone: ``contrast={"llm":
                {"device": "cuda"}}``.

        Raises:
            JudgeLoadError: An option is unknown, or a member cannot be loaded or has changed.
        """
        saved = read_config(folder)
        unknown = options.keys() - {*OPTIONS, *saved["members"]}
        if unknown:
            raise JudgeLoadError(
                f"{folder}: no option {', '.join(sorted(unknown))}",
                hint=f"Use one of: {', '.join((*OPTIONS, *saved['members']))}",
            )
        members = {}
        for name, record in saved["members"].items():
            members[name] = load_saved_member(name, record, folder, options)
        lines = {name: Formula(**record) for name, record in saved["lines"].items()}
        dimensions = [Dimension(**dimension) for dimension in saved["dimensions"]]
        return cls(members, lines, dimensions, name=saved["name"], facts=saved["facts"])

    def unsaved_options(self) -> dict[str, Any]:
        options = {}
        for name, member in self.members.items():
            needed = member.unsaved_options()
            if needed:
                options[name] = needed
        return options

    # -- the hooks of Judge ---------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        """Does nothing, because each member forms its own batches."""

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        answers: list[dict[str, Judgement]] = [{} for _ in requests]
        for name, member in self.members.items():
            needed = self.needed_dimensions(name, dimensions)
            if not needed:
                continue
            # All requests of a call are of one level. The dialogue of a request ends at the judged
            # turn, so that turn is its last one.
            judgements = member.judge.score(
                [request.dialogue for request in requests],
                level="dialogue" if requests[0].turn is None else "last",
                dimensions=needed,
                warn=False,  # the hybrid warns
            )
            for row, judgement in zip(answers, judgements, strict=True):
                row[name] = judgement
        pairs = zip(requests, answers, strict=True)
        return [
            self._combine_and_record_cuts(request, row, dimensions)
            for request, row in pairs
        ]

    def _combine_and_record_cuts(
        self,
        request: ScoreRequest,
        answers: Mapping[str, Judgement],
        dimensions: Sequence[str],
    ) -> Judgement:
        """Combines the members' judgements of ``request`` into one judgement on ``dimensions``.

        Also records in ``request`` how many turns a member has left out or shortened, if that is
        more than before.

        Args:
            answers: Member -> its judgement.
        """
        results = {}
        for name in dimensions:
            results[name] = self._dimension_score(self.dimension(name), answers)
        notes = []
        for name, judgement in answers.items():
            truncated = max(request.truncated_turns, judgement.truncated_turns)
            request.truncated_turns = truncated
            request.cut_turns = max(request.cut_turns, judgement.cut_turns)
            if judgement.explanation:
                notes.append(f"{name}: {judgement.explanation}")
        judgements = answers.values()
        return as_judgement(
            results,
            explanation="; ".join(notes) or None,
            usage=sum_usage_records(judgement.usage for judgement in judgements),
            transient=any(judgement.transient for judgement in judgements),
            left_out_turns=max((j.left_out_turns for j in judgements), default=0),
            shortened_turns=max((j.shortened_turns for j in judgements), default=0),
        )

    def _dimension_score(
        self, dimension: Dimension, answers: Mapping[str, Judgement]
    ) -> DimensionScore:
        """Returns the hybrid's score of ``dimension``.

        If it is one member's score on the same scale, the member's distribution, details and
        contributions are copied too.

        Args:
            answers: Member -> its judgement.
        """
        line = self.lines[dimension.name]
        units, scores, failures = [], dict[str, float | None](), dict[str, None]()
        for key in line.inputs:
            name, own_name = split_input_name(key, dimension.name)
            judgement = answers[name]
            unit = self.members[name].unit_score(judgement, own_name)
            scores[key] = None if unit is None else dimension.from_unit(unit)
            if unit is None:
                failures[f"{name}: {judgement.failure or 'no score'}"] = None
            units.append(unit)
        details: dict[str, Any] = {"members": scores}
        own = self.members[name].judge.dimension(own_name)
        has_scale = (own.low, own.high) == (dimension.low, dimension.high)
        is_choice = line == Formula((key,), (1.0,))
        if is_choice and has_scale:
            return DimensionScore(
                judgement.scores[own_name],
                judgement.distributions.get(own_name, ()),
                judgement.details.get(own_name, {}) | details,
                judgement.contributions.get(own_name),
                "; ".join(failures) or None,
            )
        if failures:
            return DimensionScore(details=details, failure="; ".join(failures))
        row = np.array([units], dtype=float)
        unit = float(line(row)[0])
        details["raw"] = dimension.from_unit(float(line.sum_with_intercept(row)[0]))
        chances = [1 - unit, unit] if dimension.kind == "binary" else []
        return DimensionScore(dimension.from_unit(unit), chances, details)
