"""A hybrid judge as a file of configs/judges/, with nothing fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, model_validator

from medal_judges.config import Config
from medal_judges.models.hybrid.blend import Blend
from medal_judges.models.hybrid.combination import Cascade, Combination, Selection, Stack
from medal_judges.models.hybrid.config import MemberConfig


class HybridSettings(Config):
    """``select`` needs ``choices`` (dimension: member), ``stack`` the mean's ``weights`` (member:
    number, the same for every dimension; on each judge's own scale from 0 to 1), ``cascade`` the
    ``threshold`` (of Judgement.uncertainty) above which the second member is asked.
    """

    name: str
    rubric: str
    dimensions: tuple[str, ...] = ()
    kind: Literal["select", "stack", "cascade"]
    members: Mapping[str, MemberConfig] = Field(min_length=1)
    choices: Mapping[str, str] | None = None
    weights: Mapping[str, float] | None = None
    threshold: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _whole(self) -> HybridSettings:
        needs = {"select": "choices", "stack": "weights", "cascade": "threshold"}
        for kind, field in needs.items():
            if (getattr(self, field) is not None) != (kind == self.kind):
                raise ValueError(f"kind {self.kind} needs {needs[self.kind]}, and only that")
        named = [*(self.choices or {}).values(), *(self.weights or {})]
        if unknown := [name for name in named if name not in self.members]:
            raise ValueError(f"no member {unknown[0]!r}; there are {', '.join(self.members)}")
        if self.weights is not None and (
            min(self.weights.values(), default=0) < 0 or sum(self.weights.values()) <= 0
        ):
            raise ValueError("weights of a mean are not below 0, and one is above")
        if self.kind == "cascade" and len(self.members) != 2:
            raise ValueError("a cascade has two members, the weak one first")
        return self

    def combination(self, dimensions: Sequence[str]) -> Combination:
        """The combination for ``dimensions``. Raises ValueError where one has no choice."""
        if self.choices is not None:
            if missing := [name for name in dimensions if name not in self.choices]:
                raise ValueError(f"choices name no member for {', '.join(missing)}")
            return Selection({name: self.choices[name] for name in dimensions})
        if self.weights is not None:
            return Stack({name: Blend.mean(dict(self.weights)) for name in dimensions})
        assert self.threshold is not None
        return Cascade(dict.fromkeys(dimensions, self.threshold))
