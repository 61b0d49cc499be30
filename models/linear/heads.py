"""The head of one dimension: a linear map of columns, or an MLP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.heads import squash_to_unit
from medal_judges.models.linear.config import HeadName

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FittedHead:
    """The trained model of one dimension. It maps the inputs [n, C] of n dialogues, with C columns
    of features and embeddings, to scores.

    Attributes:
        kind: ``ridge`` (outputs a score, mostly on [0, 1]), ``logistic`` (outputs a logit) or
            ``mlp_classifier`` (outputs class logits).
        layers: A pair (weight [in, out], bias [out]) for each layer, with ReLU between the layers.
            ``ridge`` and ``logistic`` have one layer with one output.
        top: The highest class of an MLP, whose lowest class is 0. For the other kinds it is 1.
        classes: The classes that occur in an MLP's training data. Empty for the other kinds.
        averages: A pair of numbers, for user turns and for assistant turns: what the average turn
            adds to the output of ``ridge`` or ``logistic``.
    """

    kind: HeadName
    layers: tuple[tuple[Floats, Floats], ...]
    top: int = 1
    classes: tuple[int, ...] = ()
    averages: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def linear(
        cls,
        kind: HeadName,
        weights: Floats,
        bias: float,
        averages: tuple[float, float] = (0.0, 0.0),
    ) -> FittedHead:
        """Returns a head with one layer.

        Args:
            kind: ``ridge`` or ``logistic``.
            weights: The weight of each input column, [C].
            bias: The constant term.
            averages: A pair of numbers, for user turns and for assistant turns: what the average
                turn adds to the output.
        """
        return cls(kind, ((weights[:, None], np.array([bias])),), averages=averages)

    def outputs(self, columns: Floats) -> Floats:
        """Returns the output of the last layer, [n, outputs], for the inputs ``columns`` [n, C]."""
        values = columns
        for number, (weight, bias) in enumerate(self.layers):
            if number:
                values = np.maximum(values, 0.0)
            values = values @ weight + bias
        return values

    def mlp_probabilities(self, columns: Floats) -> Floats:
        """Returns an MLP's probabilities of the classes 0 to ``top``, [n, top + 1], for the inputs
        ``columns`` [n, C]. A class that does not occur in the training data has probability 0."""
        logits = torch.from_numpy(self.outputs(columns))
        if len(self.classes) == 2:
            # scikit-learn has one logistic output for two classes
            logits = functional.pad(logits, (1, 0))
        chances = np.zeros((len(columns), self.top + 1))
        chances[:, list(self.classes)] = logits[:, : len(self.classes)].softmax(1)
        return chances

    def unit_scores(
        self, columns: Floats, decode: str, temperature: float = 1.0
    ) -> Floats:
        """Returns a score on [0, 1] for each of n dialogues, [n], before isotonic calibration and
        before the decision threshold.

        Args:
            columns: The inputs, [n, C].
            decode: How an MLP's class probabilities become a score: the ``expected`` class, or the
                most probable class (``argmax``).
            temperature: Divides the logit of a logistic head.
        """
        if self.kind == "logistic":
            logits = torch.from_numpy(self.outputs(columns)[:, 0] / temperature)
            chances: Floats = logits.sigmoid().numpy()
            return chances
        if self.kind != "mlp_classifier":
            return squash_to_unit(self.outputs(columns)[:, 0])
        probabilities = self.mlp_probabilities(columns)
        chosen = probabilities @ np.arange(self.top + 1)
        if decode == "argmax":
            chosen = probabilities.argmax(axis=1)
        units: Floats = chosen / self.top
        return units

    def to_record(self) -> dict[str, Any]:
        """Returns what judge.json stores about the head, without its weights: the kind, the number
        of layers, the classes, and what an average user and assistant turn adds to the output."""
        return {
            "kind": self.kind,
            "layers": len(self.layers),
            "top": self.top,
            "classes": list(self.classes),
            "averages": list(self.averages),
        }

    def named_arrays(self, name: str) -> dict[str, Floats]:
        """Returns tensor name -> weights or bias of a layer, such as ``{"heads.overall.0.weight":
        ...}`` for the first layer. ``name`` is the dimension, here ``overall``."""
        arrays: dict[str, Floats] = {}
        for number, (weight, bias) in enumerate(self.layers):
            arrays[f"heads.{name}.{number}.weight"] = np.ascontiguousarray(weight)
            arrays[f"heads.{name}.{number}.bias"] = np.ascontiguousarray(bias)
        return arrays

    @classmethod
    def pop_from_tensors(
        cls,
        name: str,
        record: Mapping[str, Any],
        tensors: dict[str, Tensor],
        columns: int,
    ) -> FittedHead:
        """Returns the saved head of the dimension ``name``, and removes its weights from
        ``tensors``.

        Args:
            record: What judge.json stores about the head, such as its kind and its number of
                layers.
            tensors: Tensor name -> the weights of all heads, such as ``{"heads.overall.0.weight":
                ...}``.
            columns: The number of input columns.

        Raises:
            JudgeLoadError: The shape of a layer is wrong.
            KeyError: A weight is missing in ``tensors``.
        """
        layers = []
        width = columns
        for number in range(record["layers"]):
            weight, bias = (
                tensors.pop(f"heads.{name}.{number}.{part}").double().numpy()
                for part in ("weight", "bias")
            )
            if weight.shape != (width, len(bias)):
                raise JudgeLoadError(
                    f"weights of {name!r}: a layer is {weight.shape}, expected "
                    f"({width}, {len(bias)})",
                    hint="Copy or download the whole folder again",
                )
            layers.append((weight, bias))
            width = len(bias)
        user, assistant = record["averages"]
        classes = tuple(record["classes"])
        return cls(
            record["kind"], tuple(layers), record["top"], classes, (user, assistant)
        )


def spread_over_levels(probabilities: Floats, levels: int) -> Floats:
    """Distributes the probabilities of classes over the levels of a scale. The expected value stays
    the same.

    Args:
        probabilities: The probability of each class, [n, classes]. The classes are evenly spaced
            from the first level to the last. For example, the middle one of three classes is the
            third of five levels.
        levels: The number of levels, which are the possible ratings.

    Returns:
        The probability of each level, [n, levels].
    """
    places = np.linspace(0, levels - 1, probabilities.shape[1])
    distances = np.abs(places[:, None] - np.arange(levels))
    shares: Floats = probabilities @ np.clip(1 - distances, 0, None)
    return shares
