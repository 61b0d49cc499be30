"""Base classes of the judges that ``medal train`` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medal_judges.models.base.heads import Calibration
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import write_config
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature
from medal_judges.storage.files import PicklableLock


def constructor_arguments(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the constructor arguments that all trained judges share, from ``saved``, the content
    of judge.json. Raises KeyError or ValueError if a field is missing or wrong."""
    return {
        "dimensions": [Dimension(**d) for d in saved["dimensions"]],
        "name": saved["name"],
        "calibration": {k: Calibration(**v) for k, v in saved["calibration"].items()},
        "facts": dict(saved["facts"]),
    }


class LearnedJudge(Judge):
    """Base class of the judges that are trained.

    ``config``: the family's settings, in judge.json under the family's name. ``calibration``:
    dimension -> its calibration. ``facts``: what is known about the training run, such as its seed
    and data. ``truncation``: what the judge leaves out of a dialogue that is too long, in words.
    """

    config: Any  # each family has its own class
    calibration: dict[str, Calibration]
    facts: dict[str, object]
    dtype: str = "fp32"
    truncation: str | None = None

    def set_state(
        self,
        dimensions: Sequence[Dimension],
        name: str | None = None,
        calibration: Mapping[str, Calibration] | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        """Sets the fields of a new judge.

        ``name``: the judge's name. By default it is the family. ``calibration``: dimension -> its
        calibration. ``facts``: what is known about the training run. Also creates the lock that
        lets one thread at a time use the network.
        """
        self.dimensions, self.name = tuple(dimensions), name or self.family
        self.computing = PicklableLock()
        self.calibration, self.facts = dict(calibration or {}), dict(facts or {})

    def calibration_of(self, dimension: str) -> Calibration:
        """Returns the calibration of ``dimension``. If none is fitted, returns one that changes
        nothing."""
        return self.calibration.get(dimension, Calibration())

    def details_of(
        self, dimension: Dimension, score: float, raw: float | None
    ) -> dict[str, Any]:
        """Returns the details of a ``score`` on ``dimension``.

        ``raw``: the score before calibration. The details include it if it is not None. They
        include ``interval`` if the calibration has a margin. Nine in ten human ratings lie in the
        interval.
        """
        details: dict[str, Any] = {} if raw is None else {"raw": raw}
        margin = self.calibration_of(dimension.name).margin
        if margin is not None:
            reach = margin * (dimension.high - dimension.low)
            low, high = score - reach, score + reach
            details["interval"] = [max(dimension.low, low), min(dimension.high, high)]
        return details

    def write_state(self, folder: Path, **settings: object) -> None:
        """Writes judge.json into ``folder``. ``settings``: further fields of the family."""
        state = {
            "name": self.name,
            self.family: self.config.model_dump(),
            "calibration": {k: asdict(v) for k, v in self.calibration.items()},
            "facts": self.facts,
        }
        write_config(folder, self, state | settings)

    def signature(self) -> Signature:
        seed = self.facts.get("seed")
        return self.make_signature(
            revision=self.revision,
            base=self.config.base,
            dtype=self.dtype,
            truncation=self.truncation,
            seed=seed if isinstance(seed, int) else None,
        )
