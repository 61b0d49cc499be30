"""The embedding judge: a sentence encoder left as it is, and a small fitted net a dimension.

ORALIS's classifier (sections 4.4 and 4.5) and the ridge baseline that trained judges must beat.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medal_judges.contributions import Contributions, centred, unit_of
from medal_judges.dialogue import Dialogue
from medal_judges.dimension import Dimension
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.calibration import Calibration
from medal_judges.models.base.judge import Judge, Prediction, ScoreRequest
from medal_judges.models.base.saving import read_config, write_config
from medal_judges.models.base.weights import read_weights
from medal_judges.models.embedding.config import EmbeddingConfig
from medal_judges.models.embedding.net import FittedNet, Floats, on_levels
from medal_judges.models.embedding.reading import (
    DialogueReader,
    Reading,
    side_products,
    turn_shares,
)
from medal_judges.models.embedding.sentence_encoder import SentenceEncoder
from medal_judges.signature import Signature, content_hash

WEIGHTS_NAME = "model.safetensors"
GRID_NAME = "grid.csv"
ENCODER_FOLDER = "encoder"


class EmbeddingJudge(Judge):
    """Scores dialogues by their sentence embeddings and surface features.

    Distributions: of an MLP classifier its classes', brought to the dimension's levels; of the
    others a normal of the calibrated spread. A ridge over turns says what each turn contributed,
    in units of the score, around the mean training dialogue. ``search`` is the table of settings
    that were tried.
    """

    family = "embedding"

    def __init__(
        self,
        config: EmbeddingConfig,
        encoder: SentenceEncoder,
        dimensions: Sequence[Dimension],
        nets: Mapping[str, FittedNet],
        *,
        name: str = "embedding",
        calibration: Mapping[str, Calibration] | None = None,
        facts: Mapping[str, Any] | None = None,
        search: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.config, self.dimensions, self.name = config, tuple(dimensions), name
        self.encoder, self.nets = encoder, dict(nets)
        self.reader = DialogueReader(config, encoder)
        self.calibration = dict(calibration or {})
        self.facts = dict(facts or {})
        self.search = [dict(row) for row in search]

    def _save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        state = {k: v for name, net in self.nets.items() for k, v in net.tensors(name).items()}
        save_file({k: np.ascontiguousarray(v) for k, v in state.items()}, folder / WEIGHTS_NAME)
        self.encoder.save(folder / ENCODER_FOLDER)
        calibration = {k: v.model_dump() for k, v in self.calibration.items()}
        nets = {name: net.record() for name, net in self.nets.items()}
        weights = content_hash((folder / WEIGHTS_NAME).read_bytes())
        self.facts["weights"] = content_hash([weights, calibration, nets])
        write_config(
            folder,
            self,
            {
                "name": self.name,
                "embedding": self.config.model_dump(),
                "nets": nets,
                "calibration": calibration,
                "facts": self.facts,
            },
        )
        _write_search(folder / GRID_NAME, self.search)

    @classmethod
    def load(
        cls, folder: Path, *, device: str | None = None, dtype: str = "fp32"
    ) -> EmbeddingJudge:
        """The judge saved in ``folder``; needs no network. Raises JudgeLoadError."""
        saved = read_config(folder)
        if dtype != "fp32":
            raise JudgeLoadError(f"an embedding judge runs in fp32, not {dtype!r}")
        tensors = {k: v.double().numpy() for k, v in read_weights(folder / WEIGHTS_NAME).items()}
        nets = {name: FittedNet.of(name, r, tensors) for name, r in saved["nets"].items()}
        known = {key for name, net in nets.items() for key in net.tensors(name)}
        if unexpected := sorted(set(tensors) - known):
            raise JudgeLoadError(
                f"{folder / WEIGHTS_NAME}: unexpected weights {', '.join(unexpected[:6])}",
                hint="the folder mixes files of two judges: copy or download it whole",
            )
        return cls(
            EmbeddingConfig(**saved["embedding"]),
            SentenceEncoder.load(folder / ENCODER_FOLDER, device),
            [Dimension(**d) for d in saved["dimensions"]],
            nets,
            name=saved["name"],
            calibration={k: Calibration(**v) for k, v in saved["calibration"].items()},
            facts=saved["facts"],
            search=_read_search(folder / GRID_NAME),
        )

    def signature(self) -> Signature:
        from medal_judges import __version__

        return Signature(
            judge=self.name,
            revision=self.facts.get("weights", "unsaved"),
            base=self.config.base,
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            dtype="fp32",
            seed=self.facts.get("seed"),
            version=__version__,
        )

    # -- the hooks of Judge ----------------------------------------------------------------------

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        readings = self.read([item.dialogue for item in items])
        for item, reading in zip(items, readings, strict=True):
            item.payload, item.tokens = reading, reading.tokens

    def read(self, dialogues: Sequence[Dialogue]) -> list[Reading]:
        """What the nets are given of each dialogue."""
        return self.reader.read(dialogues, self.token_budget)

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        vectors = np.stack([item.payload.vector for item in items])
        answers: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
            ({}, {}, {}) for _ in items
        ]
        for name in dimensions:
            units = [self._calibrated(name, u) for u in self.units(name, vectors).tolist()]
            chances = self._distributions(name, vectors, np.array(units))
            weights = self.nets[name].linear_weights()
            for row, (item, (scores, shares, turns)) in enumerate(zip(items, answers, strict=True)):
                scores[name] = self.dimension(name).from_unit(units[row])
                if chances.shape[1]:
                    shares[name] = chances[row].tolist()
                if weights is not None and item.payload.turns is not None:
                    turns[name] = self._contributions(name, item, weights)
        return [Prediction(*answer) for answer in answers]

    def units(self, name: str, vectors: Floats) -> Floats:
        """Scores [n] of dialogue ``vectors`` on [0, 1], before calibration."""
        return self.nets[name].units(vectors, self.config.decode)

    def _calibrated(self, name: str, unit: float) -> float:
        fitted = self.calibration.get(name)
        return unit if fitted is None else fitted.map_unit(unit)

    def _distributions(self, name: str, vectors: Floats, units: Floats) -> Floats:
        """Probability per level [n, levels]; no columns where there is none to give."""
        dimension, net = self.dimension(name), self.nets[name]
        levels = len(dimension.levels)
        if levels < 2:
            return np.zeros((len(vectors), 0))
        if dimension.kind == "binary":  # the score is the probability of label 1
            return np.stack([1 - units, units], axis=1)
        if net.head == "mlp_classifier":
            return on_levels(net.probabilities(vectors), levels)
        spread = self.calibration.get(name, Calibration()).spread
        if not spread:
            return np.zeros((len(vectors), 0))
        return _normal_levels(units, spread, levels)

    def _contributions(self, name: str, item: ScoreRequest, weights: Floats) -> Contributions:
        """Around the training rows' mean dialogue, which the net subtracts."""
        dimension, net, reading = self.dimension(name), self.nets[name], item.payload
        width = dimension.high - dimension.low
        shares, pooling = turn_shares(item.dialogue, reading.turns, weights)
        means = side_products(item.dialogue, weights, net.mean)
        value = dimension.from_unit(float(net.raw(reading.vector[None])[0, 0]))
        fitted = self.calibration.get(name, Calibration())
        return centred(
            (width * shares).tolist(),
            pooling.tolist(),
            (width * means).tolist(),
            value,
            unit_of("score", mapped=fitted.isotonic is not None),
        )


def _normal_levels(units: Floats, spread: float, levels: int) -> Floats:
    """A normal around each of ``units`` [n], cut into bins of the levels [n, levels]."""
    import torch

    from medal_judges.models.base.heads import normal_bins

    found: Floats = normal_bins(torch.from_numpy(units), spread, levels).double().numpy()
    return found


def _write_search(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _read_search(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
