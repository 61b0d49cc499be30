"""What the judges that ``medal train`` writes have in common: how they are described and moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import torch

from medal_judges.models.base.heads import Calibration
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import write_config
from medal_judges.models.device import cast_weights, set_attention, torch_device, torch_dtype
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature, content_hash
from medal_judges.storage.process_lock import ProcessLock

if TYPE_CHECKING:
    from medal_judges.models.tokenizer_file import AnyTokenizer


class LearnedState(TypedDict):
    """Constructor arguments that config.json holds for every trained judge."""

    dimensions: list[Dimension]
    name: str
    calibration: dict[str, Calibration]
    facts: dict[str, object]


def learned_state(saved: Mapping[str, Any]) -> LearnedState:
    """The arguments in ``saved`` (config.json). Raises KeyError and ValueError."""
    return {
        "dimensions": [Dimension(**d) for d in saved["dimensions"]],
        "name": saved["name"],
        "calibration": {k: Calibration(**v) for k, v in saved["calibration"].items()},
        "facts": dict(saved["facts"]),
    }


def rubric_hash(dimensions: Sequence[Dimension]) -> str:
    """What a signature says of the judge's dimensions."""
    return content_hash([d.to_record() for d in dimensions])


class LearnedJudge(Judge):
    """A judge with ``config`` (its settings, under the family's name in config.json),
    ``calibration`` by dimension, and ``facts`` of its run: seed, data. ``precision_note``: why it
    scores in ``dtype`` where another was hoped for."""

    config: Any  # each family says of which class
    name: str
    calibration: dict[str, Calibration]
    facts: dict[str, object]
    dtype: str = "fp32"
    precision_note: str | None = None
    truncation: str | None = None

    def describe(
        self,
        dimensions: Sequence[Dimension],
        name: str,
        calibration: Mapping[str, Calibration] | None,
        facts: Mapping[str, object] | None,
    ) -> None:
        """Set what ``LearnedState`` names."""
        self.dimensions, self.name = tuple(dimensions), name
        self.computing = ProcessLock()
        self.calibration, self.facts = dict(calibration or {}), dict(facts or {})

    def fitted(self, dimension: str) -> Calibration:
        """The calibration of one dimension; one that changes nothing where none was fitted."""
        return self.calibration.get(dimension, Calibration())

    def interval_details(self, scores: Mapping[str, float | None]) -> dict[str, dict[str, Any]]:
        """Where people's ratings lie around ``scores``, for the dimensions that have a margin."""
        found = {}
        for name, score in scores.items():
            dimension, margin = self.dimension(name), self.fitted(name).margin
            if score is not None and margin is not None:
                reach = margin * (dimension.high - dimension.low)
                low, high = max(dimension.low, score - reach), min(dimension.high, score + reach)
                found[name] = {"interval": [low, high]}
        return found

    def write_state(self, folder: Path, **settings: object) -> None:
        """Write config.json; ``settings`` are the family's own."""
        calibration = {k: v.model_dump() for k, v in self.calibration.items()}
        state = {
            "name": self.name,
            self.family: self.config.model_dump(),
            "calibration": calibration,
            "facts": self.facts,
        }
        write_config(folder, self, state | settings)

    def signature(self) -> Signature:
        from medal_judges import __version__

        seed, note = self.facts.get("seed"), self.precision_note
        return Signature(
            judge=self.name,
            revision=self.revision,
            base=self.config.base,
            rubric=rubric_hash(self.dimensions),
            dtype=f"{self.dtype} (auto: {note})" if note else self.dtype,
            truncation=self.truncation,
            seed=seed if isinstance(seed, int) else None,
            version=__version__,
        )


class NetworkJudge(LearnedJudge):
    """A trained judge whose network, ``net``, has a transformer as ``body`` and heads in fp32."""

    net: Any  # a module with ``body`` and ``heads``
    tokenizer: AnyTokenizer
    device: torch.device

    @property
    def pad(self) -> int:
        """The id that fills rows up; the mask tells it from a token."""
        return int(self.tokenizer.pad_token_id or 0)

    def place(self, device: str | torch.device | None, dtype: str) -> None:
        self.device, self.dtype = torch_device(device), dtype
        self.net = self.net.to(self.device).float().eval()
        if dtype != "fp32":
            cast_weights(self.net.body, torch_dtype(dtype))
        set_attention(self.net.body, self.config.attention, self.device, dtype)
