"""The hybrid judge: several saved judges behind the one interface, and itself a saved judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from medal_judges.config import build_config
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.judge import Judge, ScoreLevel, ScoreRequest
from medal_judges.models.base.saving import (
    WEIGHTS_NAME,
    read_config,
    read_weights,
    write_config,
    write_weights,
)
from medal_judges.models.hybrid.combination import (
    BLEND_PARTS,
    Blend,
    Combination,
    MemberSelection,
    Stack,
)
from medal_judges.models.hybrid.config import HybridSettings
from medal_judges.models.hybrid.members import Member, load_member, open_member
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash


class HybridJudge(Judge):
    """Combines members' answers in a fitted way; see HybridConfig for the kinds.

    Each dimension is on the hybrid's own scale. ``usage`` is the sum over the members that were
    asked. A stack leaves a dialogue unscored if a member that counts did; its distributions are
    normal with the spread of its error on the fitting rows.
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
        # It supports the languages that all of its members support.
        self.languages = tuple(sorted(set.intersection(*known))) or None if known else None
        # A kill may lose only as much as for the slowest member.
        self.window = min(m.judge.window for m in self.members.values())
        for dimension in self.dimensions:
            for name in combination.asked(dimension.name):
                member, own = self.members[name], self.members[name].own_name(dimension.name)
                hint = f"map one with members.{name}.dimensions: {{{dimension.name}: ITS_NAME}}"
                if not member.has(dimension.name):
                    its = ", ".join(d.name for d in member.judge.dimensions)
                    raise ConfigError(
                        f"member {name} has no dimension {own!r}", hint=f"it has: {its}; {hint}"
                    )
                if (good := member.judge.dimension(own).good) != dimension.good:
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
            combination = Stack(dict.fromkeys(names, Blend.mean(dict(given.weights or {}))))
        members = {name: open_member(name, member) for name, member in given.members.items()}
        return cls(members, combination, dimensions, name=given.name)

    def language_models(self) -> list[LanguageModel]:
        return [m for member in self.members.values() for m in member.judge.language_models()]

    def signature(self) -> Signature:
        """``base`` has each member with its revision; their whole signatures are in the hash."""
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

        ``device`` and ``dtype`` go to the members that are folders; the options of one member go
        under its name (``contrast={"llm": {"device": "cuda"}}``). Raises JudgeLoadError if the
        files do not fit together.
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
        """Options that ``load`` needs, by member: servers and places that no folder may name."""
        each = {name: member.load_options() for name, member in self.members.items()}
        return {name: options for name, options in each.items() if options}

    # -- the hooks of Judge ---------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        """Nothing: the members budget their own batches, so a window is one batch here."""

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        combination, scored = self.combination, []
        rows: list[dict[str, Judgement]] = [{} for _ in requests]
        for name, member in self.members.items():
            if wanted := [d for d in dimensions if name in combination.asked(d)]:
                judgements = self._ask(member, requests, wanted)
                for row, judgement in zip(rows, judgements, strict=True):
                    row[name] = judgement
        for answers in rows:
            own = [combination.answer(self.dimension(d), self.members, answers) for d in dimensions]
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

    def _ask(
        self, member: Member, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        """The member's judgement of each request, in order."""
        judgements: dict[int, Judgement] = {}
        # A dialogue ends at the judged turn, so that a turn is the last one of its dialogue.
        levels: dict[ScoreLevel, list[int]] = {"dialogue": [], "last": []}
        for i, request in enumerate(requests):
            levels["dialogue" if request.turn is None else "last"].append(i)
        for level, rows in levels.items():
            scored = member.judge.score(
                [requests[i].dialogue for i in rows],
                level=level,
                dimensions=member.own(dimensions),
                # Only an explicit budget is passed on: each member has its own.
                token_budget=vars(self).get("token_budget"),
                unknown_language="allow",  # the hybrid warns
            )
            judgements.update(zip(rows, scored, strict=True))
        for i, request in enumerate(requests):
            request.truncated_turns = max(request.truncated_turns, judgements[i].truncated_turns)
        return [judgements[i] for i in range(len(requests))]


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
        numbers = {part: float(own[part][0]) for part in ("intercept", "residual")}
        blends[name] = Blend(tuple(members), **(own | numbers))
    if arrays:
        raise JudgeLoadError(f"{path}: unexpected weights {sorted(arrays)[0]!r}")
    return Stack(blends)
