"""Settings of a hybrid judge: its members, and how they are combined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from medal_judges.config import Config

HybridKind = Literal["select", "stack"]


class MemberConfig(Config):
    """One judge of a hybrid: ``path`` is a folder, a hub id or a YAML file of configs/judges/.

    ``options`` go to ``Judge.from_pretrained``. ``dimensions`` maps the hybrid's dimension to the
    member's if the names differ.
    """

    path: str
    revision: str | None = None
    options: Mapping[str, Any] = {}
    dimensions: Mapping[str, str] = {}


class _Members(Config):
    kind: HybridKind
    members: Mapping[str, MemberConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _members_fit(self) -> _Members:
        # A name is a folder of the saved judge and a part of its signature.
        for name in self.members:
            if not all(c.isalnum() or c in "_-" for c in name) or not name:
                raise ValueError(f"member {name!r}: a name has letters, digits, _ and - only")
        return self


class HybridConfig(_Members):
    """How training combines ``members`` into one judge.

    ``select``: each dimension is answered by the member with the best agreement with humans on the
    fitting rows (ORALIS, section 4.5). ``stack``: a ridge regression on the members' standardised
    scores; ``alpha`` is the ridge penalty of scikit-learn
    (``auto``: chosen by cross-validation over the fitting rows), and with ``nonnegative`` no weight
    is below 0.
    """

    family: Literal["hybrid"] = "hybrid"
    kind: HybridKind = "stack"
    alpha: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    nonnegative: bool = True


class HybridSettings(_Members):
    """A hybrid judge as a file of configs/judges/, with nothing fitted.

    ``select`` needs ``choices`` (dimension: member), ``stack`` the ``weights`` of a mean (member:
    number, the same for every dimension; on each judge's own scale from 0 to 1).
    """

    name: str
    rubric: str
    dimensions: tuple[str, ...] = ()
    choices: Mapping[str, str] | None = None
    weights: Mapping[str, float] | None = None

    @model_validator(mode="after")
    def _settings_fit(self) -> HybridSettings:
        needs = {"select": "choices", "stack": "weights"}
        for kind, setting in needs.items():
            if (getattr(self, setting) is not None) != (kind == self.kind):
                raise ValueError(f"kind {self.kind} needs {needs[self.kind]}, and only that")
        named = [*(self.choices or {}).values(), *(self.weights or {})]
        if unknown := [name for name in named if name not in self.members]:
            raise ValueError(f"no member {unknown[0]!r}; there are {', '.join(self.members)}")
        weights = (self.weights or {"": 1.0}).values()
        if min(weights) < 0 or sum(weights) <= 0:
            raise ValueError("weights of a mean must be 0 or more, and one above 0")
        return self
