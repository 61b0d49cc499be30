"""The members of a hybrid: any saved judges, with what is needed to save and load them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge, ScoreLevel, ScoreRequest
from medal_judges.models.base.placement import OPTIONS, placed
from medal_judges.models.base.saving import judge_of_settings
from medal_judges.models.hybrid.config import MemberConfig
from medal_judges.models.hybrid.saved_member import (
    FORBIDDEN_FAMILIES,
    MEMBERS,
    from_saved,
    member_folder,
    to_saved,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.shipped import judge_file


@dataclass(frozen=True, slots=True)
class Member:
    """One judge of a hybrid. ``dimensions``: the hybrid's name to the judge's, where they differ.
    ``settings`` is the whole of a YAML judge's file with its options; None for a judge that is
    saved as a folder.
    """

    name: str
    judge: Judge
    dimensions: Mapping[str, str]
    settings: Mapping[str, Any] | None = None

    def own_name(self, dimension: str) -> str:
        """What the judge calls the hybrid's ``dimension``."""
        return self.dimensions.get(dimension, dimension)

    def has(self, dimension: str) -> bool:
        """Whether the judge answers the hybrid's ``dimension``."""
        return any(d.name == self.own_name(dimension) for d in self.judge.dimensions)

    def unit(self, judgement: Judgement, dimension: str) -> float | None:
        """The judge's score of the hybrid's ``dimension`` on [0, 1]; None where unscored."""
        own = self.own_name(dimension)
        value = judgement.scores.get(own)
        return None if value is None else self.judge.dimension(own).to_unit(value)

    def own(self, dimensions: Sequence[str]) -> list[str]:
        """The judge's names of those of ``dimensions`` that it has, each once."""
        return list(dict.fromkeys(self.own_name(name) for name in dimensions if self.has(name)))

    def score(
        self,
        requests: Sequence[ScoreRequest],
        dimensions: Sequence[str],
        token_budget: int | None = None,
    ) -> list[Judgement]:
        """The judge's judgement of each request, in order, on the hybrid's ``dimensions``."""
        judgements: dict[int, Judgement] = {}
        levels: dict[ScoreLevel, list[int]] = {"dialogue": [], "last": []}
        for i, request in enumerate(requests):
            # Cut at the judged turn, so that a turn is the last one of its dialogue.
            levels["dialogue" if request.turn is None else "last"].append(i)
        for level, rows in levels.items():
            if rows:
                scored = self.judge.score(
                    [requests[i].dialogue for i in rows],
                    level=level,
                    dimensions=self.own(dimensions),
                    token_budget=token_budget,
                    unknown_language="allow",  # the hybrid has said so already
                )
                judgements.update(zip(rows, scored, strict=True))
        return [judgements[i] for i in range(len(requests))]

    def record(self) -> dict[str, Any]:
        """What config.json of the hybrid says of this member."""
        record: dict[str, Any] = {
            "dimensions": dict(self.dimensions),
            "settings": None,
            "signature": str(self.judge.signature()),
        }
        if self.settings is not None:
            record["settings"], record["needs"] = to_saved(self.settings, self.name, None)
        return record

    def save(self, folder: Path) -> None:
        """Write the judge to members/NAME of the hybrid's ``folder``; of a YAML judge the files
        that it reads and that are not shipped."""
        if self.settings is not None:
            to_saved(self.settings, self.name, folder)
            return
        (folder / MEMBERS).mkdir(exist_ok=True)
        self.judge.save_pretrained(folder / MEMBERS / self.name)

    def load_options(self) -> dict[str, Any]:
        """What loading the saved member takes and its folder may not hold."""
        if self.settings is None:
            return self.judge.load_options()
        _, needed = to_saved(self.settings, self.name, None)
        return {key: self.settings[key] for key in needed}


def open_member(name: str, config: MemberConfig) -> Member:
    """The member of a config. Raises JudgeLoadError as Judge.from_pretrained, which it calls."""
    judge = Judge.from_pretrained(config.path, revision=config.revision, **config.options)
    described, settings = judge_file(config.path), None
    if described is not None:
        settings = read_yaml(described) | dict(config.options)
        if settings.get("family") in FORBIDDEN_FAMILIES:  # saved as a folder, as any judge
            settings = None
    return Member(name, judge, dict(config.dimensions), settings)


def load_member(
    name: str, saved: Mapping[str, Any], folder: Path, options: Mapping[str, Any]
) -> Member:
    """The member that ``save`` and ``record`` wrote.

    ``options`` are of the hybrid's ``from_pretrained``: those under the member's name are its own,
    ``device`` and ``dtype`` go to every member that has a model here. Raises JudgeLoadError.
    """
    settings, own = saved["settings"], dict(options.get(name) or {})
    shared = {k: v for k, v in options.items() if k in OPTIONS}
    if settings is None:
        judge = Judge.from_pretrained(member_folder(folder, name), **(shared | own))
        return Member(name, judge, saved["dimensions"])
    settings = from_saved(saved, name, folder, own)
    for key, value in own.items():  # field by field: ``llm: {device: cuda}`` keeps the saved model
        there = settings.get(key)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            value = {**there, **value}
        settings[key] = value
    settings |= placed(settings, shared, f"member {name}", strict=False)
    described = judge_of_settings(settings, f"member {name}")
    assert isinstance(described, Judge)
    return Member(name, described, saved["dimensions"], settings)


def check_member(member: Member, dimension: Dimension) -> None:
    """Raise ConfigError where ``member`` lacks ``dimension``, or has it the other way up."""
    own = member.own_name(dimension.name)
    if not member.has(dimension.name):
        raise ConfigError(
            f"member {member.name} has no dimension {own!r}",
            hint=f"it has: {', '.join(d.name for d in member.judge.dimensions)}; map one with "
            f"members.{member.name}.dimensions: {{{dimension.name}: ITS_NAME}}",
        )
    if member.judge.dimension(own).good != dimension.good:
        raise ConfigError(
            f"member {member.name}: the good end of {own!r} is "
            f"{member.judge.dimension(own).good!r}, that of {dimension.name!r} is "
            f"{dimension.good!r}",
            hint="map the dimension to one that runs the same way",
        )
