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
    """Returns the keyword arguments ``dimensions``, ``name``, ``calibration`` and ``facts``, with
    which the constructor of a trained judge makes the saved judge again.

    Args:
        saved: The content of judge.json.

    Raises:
        KeyError: A field is missing.
        ValueError: A calibration has an invalid value.
        ConfigError: A dimension is invalid.
    """
    return {
        "dimensions": [Dimension(**d) for d in saved["dimensions"]],
        "name": saved["name"],
        "calibration": {k: Calibration(**v) for k, v in saved["calibration"].items()},
        "facts": dict(saved["facts"]),
    }


class LearnedJudge(Judge):
    """Base class of the judges that ``medal train`` writes.

    Attributes:
        config: The settings of the judge, such as an ``EncoderConfig``.
        calibration: Dimension name -> its calibration.
        facts: Facts about the training run, such as ``{"seed": 0}``.
        dtype: The precision of the network: ``fp32``, ``bf16`` or ``fp16``.
        truncation: What is left out of a dialogue that is too long, such as ``oldest turns beyond
            512 tokens``.
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
        """Sets the fields that all trained judges have.

        Args:
            dimensions: The dimensions that the judge scores.
            name: The judge's name. None is the kind of judge, such as ``encoder``.
            calibration: Dimension name -> its calibration. A dimension that is left out is not
                calibrated.
            facts: Facts about the training run, such as ``{"seed": 0}``.
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
        """Returns facts about a score, which ``Judgement.details`` shows.

        Args:
            dimension: The dimension of the score.
            score: The score after calibration.
            raw: The score before calibration, or None.

        Returns:
            A dict with ``raw``, unless it is None. If the calibration has a margin, the dict also
                has ``interval``: ``[low, high]`` around ``score``, in points of the scale. About
                nine in ten human ratings are in the interval.
        """
        details: dict[str, Any] = {} if raw is None else {"raw": raw}
        margin = self.calibration_of(dimension.name).margin
        if margin is not None:
            reach = margin * (dimension.high - dimension.low)
            low, high = score - reach, score + reach
            details["interval"] = [max(dimension.low, low), min(dimension.high, high)]
        return details

    def write_state(self, folder: Path, **settings: object) -> None:
        """Writes judge.json into ``folder``: the judge's name, settings, calibration and facts.

        Args:
            settings: Field -> value of further fields of judge.json.
        """
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
