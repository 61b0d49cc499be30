"""Settings of a hybrid judge: which judges it is made of, and how they are put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from medal_judges.config import Config


class MemberConfig(Config):
    """One judge of a hybrid: ``path`` is a folder, a hub id or a YAML file of configs/judges/.

    ``options`` go to ``Judge.from_pretrained``. ``dimensions`` maps the hybrid's dimension to the
    member's where the names differ; any other is looked up under its own name.
    """

    path: str
    revision: str | None = None
    options: Mapping[str, Any] = {}
    dimensions: Mapping[str, str] = {}


class HybridConfig(Config):
    """How ``members`` become one judge.

    ``select``: each dimension is answered by the member that agreed best with people on the fitting
    rows (ORALIS, section 4.5). ``stack``: a ridge regression on the members' standardised scores,
    or an isotonic one on their mean; ``alpha`` is the ridge penalty of scikit-learn (``auto``: what
    cross-validation over the fitting rows likes best), and with ``nonnegative`` no member's weight
    is below 0. ``cascade``: the first member answers, and the
    second one is asked where the first one's uncertainty is above ``threshold`` (a standard
    deviation as a share of the scale), or above what defers ``share`` of the fitting rows.
    """

    family: Literal["hybrid"] = "hybrid"
    kind: Literal["select", "stack", "cascade"] = "stack"
    members: Mapping[str, MemberConfig] = Field(min_length=1)
    combiner: Literal["ridge", "isotonic"] = "ridge"
    alpha: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    nonnegative: bool = True
    threshold: float | None = Field(default=None, ge=0)
    share: float | None = Field(default=None, ge=0, le=1)

    @field_validator("members")
    @classmethod
    def _plain_names(cls, members: Mapping[str, MemberConfig]) -> Mapping[str, MemberConfig]:
        # A name is a folder of the saved judge and a part of its signature.
        for name in members:
            if not all(c.isalnum() or c in "_-" for c in name) or not name:
                raise ValueError(f"member {name!r}: a name has letters, digits, _ and - only")
        return members

    @model_validator(mode="after")
    def _a_cascade_has_two(self) -> HybridConfig:
        given = (self.threshold is not None) + (self.share is not None)
        if self.kind != "cascade":
            if given:
                raise ValueError("threshold and share go with kind: cascade only")
            return self
        if len(self.members) != 2:
            raise ValueError(
                f"a cascade has two members, the weak one first; there are {len(self.members)}"
            )
        if given != 1:
            raise ValueError("a cascade needs either threshold or share")
        return self
