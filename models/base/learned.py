"""What the judges that ``medal train`` writes have in common: description, saving, placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from medal_judges.models.base.heads import Calibration
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import write_config
from medal_judges.models.device import cast_weights, set_attention, torch_device, torch_dtype
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature, content_hash
from medal_judges.storage.process_lock import ProcessLock

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


class LearnedState(TypedDict):
    """Constructor arguments that config.json has for every trained judge."""

    dimensions: list[Dimension]
    name: str
    calibration: dict[str, Calibration]
    facts: dict[str, object]


def learned_state(saved: Mapping[str, Any]) -> LearnedState:
    """Returns the arguments in ``saved`` (config.json). Raises KeyError and ValueError."""
    return {
        "dimensions": [Dimension(**d) for d in saved["dimensions"]],
        "name": saved["name"],
        "calibration": {k: Calibration(**v) for k, v in saved["calibration"].items()},
        "facts": dict(saved["facts"]),
    }


def rubric_hash(dimensions: Sequence[Dimension]) -> str:
    """Returns what a signature says about the judge's dimensions."""
    return content_hash([d.to_record() for d in dimensions])


class LearnedJudge(Judge):
    """A judge with ``config`` (its settings, under the family's name in config.json),
    ``calibration`` by dimension, and ``facts`` of its run: seed, data."""

    config: Any  # each family names its class
    name: str
    calibration: dict[str, Calibration]
    facts: dict[str, object]
    dtype: str = "fp32"
    truncation: str | None = None

    def describe(
        self,
        dimensions: Sequence[Dimension],
        name: str,
        calibration: Mapping[str, Calibration] | None,
        facts: Mapping[str, object] | None,
    ) -> None:
        """Set the fields of ``LearnedState``."""
        self.dimensions, self.name = tuple(dimensions), name
        self.computing = ProcessLock()
        self.calibration, self.facts = dict(calibration or {}), dict(facts or {})

    def fitted(self, dimension: str) -> Calibration:
        """Returns the calibration of one dimension; one that changes nothing if none was fitted."""
        return self.calibration.get(dimension, Calibration())

    def interval_details(self, scores: Mapping[str, float | None]) -> dict[str, dict[str, Any]]:
        """Returns the interval of human ratings around each score that has a margin."""
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
        state = {
            "name": self.name,
            self.family: self.config.model_dump(),
            "calibration": {k: v.model_dump() for k, v in self.calibration.items()},
            "facts": self.facts,
        }
        write_config(folder, self, state | settings)

    def signature(self) -> Signature:
        from medal_judges import __version__

        seed = self.facts.get("seed")
        return Signature(
            judge=self.name,
            revision=self.revision,
            base=self.config.base,
            rubric=rubric_hash(self.dimensions),
            dtype=self.dtype,
            truncation=self.truncation,
            seed=seed if isinstance(seed, int) else None,
            version=__version__,
        )


class NetworkJudge(LearnedJudge):
    """A trained judge whose network, ``net``, has a transformer as ``body`` and heads in fp32."""

    net: Any  # a module with ``body`` and ``heads``
    tokenizer: PreTrainedTokenizerBase
    device: torch.device

    @property
    def pad(self) -> int:
        """The padding id; the mask tells padding from tokens."""
        return int(self.tokenizer.pad_token_id or 0)

    def place(self, device: str | torch.device | None, dtype: str) -> None:
        self.device, self.dtype = torch_device(device), dtype
        self.net = self.net.to(self.device).float().eval()
        if dtype != "fp32":
            cast_weights(self.net.body, torch_dtype(dtype, self.device))
        set_attention(self.net.body, self.config.attention, self.device, dtype)
