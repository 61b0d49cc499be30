"""What an embedding judge answers with: the fitted layers of one dimension, in plain numpy.

scikit-learn fits them (training/embedding/fit.py); here only its forward pass is done again, from
arrays that safetensors holds, so that nothing has to be unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from medal_judges.errors import JudgeLoadError
from medal_judges.models.embedding.config import EmbeddingHead

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FittedNet:
    """One dimension's net over dialogue vectors x [n, W]: layers of (x - mean) * scale.

    ``layers`` are (weight [in, out], bias [out]) with ReLU between them. ``top`` is the highest
    class (1 for ridge, which answers on [0, 1]); ``classes`` [c] are those a classifier was fitted
    on, empty for the other heads.
    """

    head: EmbeddingHead
    mean: Floats
    scale: Floats
    layers: tuple[tuple[Floats, Floats], ...]
    top: int = 1
    classes: tuple[int, ...] = ()

    def raw(self, x: Floats) -> Floats:
        """Outputs of the last layer [n, outputs], before any softmax."""
        values = (x - self.mean) * self.scale
        for number, (weight, bias) in enumerate(self.layers):
            if number:
                values = np.maximum(values, 0.0)
            values = values @ weight + bias
        return values

    def probabilities(self, x: Floats) -> Floats:
        """Probability [n, top + 1] of each class 0 to ``top`` of a classifier: what
        ``predict_proba`` gives, with 0 for the classes that no training row had."""
        if len(self.classes) == 1:
            known = np.ones((len(x), 1))
        elif len(self.classes) == 2:  # scikit-learn has one logistic output for two classes
            p = expit(self.raw(x))
            known = np.concatenate([1 - p, p], axis=1)
        else:
            known = softmax(self.raw(x), axis=1)
        chances = np.zeros((len(x), self.top + 1))
        chances[:, list(self.classes)] = known
        return chances

    def units(self, x: Floats, decode: str) -> Floats:
        """Scores [n] on [0, 1], the inverse of Equation 1; outside answers are clipped."""
        if self.head != "mlp_classifier":
            return np.clip(self.raw(x)[:, 0] / self.top, 0.0, 1.0)
        p = self.probabilities(x)
        chosen = p.argmax(axis=1) if decode == "argmax" else p @ np.arange(self.top + 1)
        units: Floats = chosen / self.top
        return units

    def record(self) -> dict[str, Any]:
        """The part of the net that config.json holds."""
        shape = {"head": self.head, "top": self.top, "classes": list(self.classes)}
        return shape | {"layers": len(self.layers)}

    def tensors(self, name: str) -> dict[str, Floats]:
        """The arrays of the net, under names that begin with the dimension's."""
        arrays = {f"{name}.mean": self.mean, f"{name}.scale": self.scale}
        for i, (weight, bias) in enumerate(self.layers):
            arrays |= {f"{name}.{i}.weight": weight, f"{name}.{i}.bias": bias}
        return {key: np.ascontiguousarray(array) for key, array in arrays.items()}

    @classmethod
    def of(cls, name: str, record: Mapping[str, Any], tensors: Mapping[str, Floats]) -> FittedNet:
        """Inverse of ``record`` and ``tensors``. Raises JudgeLoadError for shapes that do not fit.

        Raises KeyError for a missing array.
        """
        layers = tuple(
            (tensors[f"{name}.{i}.weight"], tensors[f"{name}.{i}.bias"])
            for i in range(record["layers"])
        )
        mean, scale = tensors[f"{name}.mean"], tensors[f"{name}.scale"]
        width = len(mean)
        for weight, bias in layers:
            if weight.shape != (width, len(bias)):
                raise JudgeLoadError(
                    f"weights of {name!r}: a layer is {weight.shape}, expected "
                    f"({width}, {len(bias)})",
                    hint="copy or download the whole folder again",
                )
            width = len(bias)
        return cls(record["head"], mean, scale, layers, record["top"], tuple(record["classes"]))


def on_levels(probabilities: Floats, levels: int) -> Floats:
    """Distributions [n, levels] from those over classes [n, k + 1]: each class's share goes to the
    two levels it stands between, so that the expected place on the scale stays."""
    places = np.linspace(0, levels - 1, probabilities.shape[1])
    distances = np.abs(places[:, None] - np.arange(levels))
    shares: Floats = probabilities @ np.clip(1 - distances, 0, None)
    return shares
