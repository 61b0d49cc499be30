"""Output heads of trained judges, one per dimension: from logits to a score and a loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn import functional

from medal_judges.config import Config
from medal_judges.errors import ConfigError
from medal_judges.models.base.trained import TrainedConfig
from medal_judges.records.dimension import Dimension

HeadKind = Literal["regression", "ordinal", "binary", "classification"]
BY_LEVEL = ("ordinal", "classification")  # heads with a probability of each level
_END = 0.1  # the part of the scale at each end in which a raw score is bent
_ORDER = (
    0.01  # the share of the unit in an isotonic map, whose flat parts would be ties
)


def squash_to_unit(raw: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Maps the numbers ``raw`` monotonically to scores on [0, 1], in an array of the same shape.
    Numbers from 0.1 to 0.9 do not change."""
    scores = np.asarray(raw, dtype=np.float64)
    distance = np.minimum(scores, 1 - scores)  # to the nearer end
    bent = _END**2 / (2 * _END - np.minimum(distance, _END))
    distance = np.where(distance < _END, bent, distance)
    return np.where(scores > 0.5, 1 - distance, distance)


def map_isotonic(
    units: npt.ArrayLike, knots: Iterable[npt.ArrayLike]
) -> npt.NDArray[np.float64]:
    """Maps scores with a fitted isotonic regression. Where the regression is flat, different scores
    stay different.

    Args:
        units: The scores, on [0, 1].
        knots: The fitted points, as (x coordinates, y coordinates).

    Returns:
        The mapped scores, on [0, 1], in the shape of ``units``.
    """
    unit, x, y = (np.asarray(values, dtype=np.float64) for values in (units, *knots))
    return (1 - _ORDER) * np.interp(unit, x, y) + _ORDER * unit


def fit_isotonic(
    units: npt.ArrayLike, targets: npt.ArrayLike
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Fits an isotonic regression, which maps scores to human labels and never reverses the order
    of two scores.

    Args:
        units: [N] scores on [0, 1].
        targets: [N] labels of the same dialogues, on [0, 1].

    Returns:
        The fitted points, as (x coordinates, y coordinates). The regression is linear between them.
    """
    from sklearn.isotonic import IsotonicRegression  # a second to import

    fitted = IsotonicRegression(out_of_bounds="clip").fit(
        np.asarray(units), np.asarray(targets)
    )
    x, y = fitted.X_thresholds_, fitted.y_thresholds_
    return tuple(map(float, x)), tuple(map(float, y))


class HeadConfig(Config):
    """The settings of an output head, the part of a trained judge that scores one dimension.

    Attributes:
        kind: The type of head and its loss. ``regression``: mean squared error. ``ordinal``: CORN,
            a loss for ordered ratings (Shi, Cao and Raschka, 2023). ``binary``: cross-entropy on
            soft labels. ``classification``: cross-entropy over the ratings on the scale.
        label_smoothing: The share (0 to 1) of a target's probability that is spread evenly over all
            classes (binary and classification heads).
        positive_weight: The weight of positive labels in the loss. Negative labels have the weight
            1 (binary heads).
    """

    kind: HeadKind = "regression"
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    positive_weight: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _reject_unused_settings(self) -> HeadConfig:
        if self.label_smoothing and self.kind not in ("binary", "classification"):
            raise ValueError(f"leave label_smoothing out: {self.kind} heads have none")
        if self.positive_weight != 1.0 and self.kind != "binary":
            raise ValueError(
                f"leave positive_weight out: it is for binary heads, not {self.kind}"
            )
        return self


class HeadedConfig(TrainedConfig):
    """The settings of a trained judge that has an output head for each dimension it scores.

    Attributes:
        heads: Dimension -> settings of its head, such as ``{overall: {kind: ordinal}}``. A
            dimension without settings has a binary head if its scale is binary, otherwise a
            regression head.
    """

    by_steps: ClassVar[bool] = True
    heads: dict[str, HeadConfig] = Field(default_factory=dict)

    def distribution_dimensions(self) -> set[str]:
        return {name for name, head in self.heads.items() if head.kind in BY_LEVEL}


Knots = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Calibration:
    """The calibration of a judge's scores and probabilities for one dimension, fitted on
    validation data.

    ``temperature`` is applied first, then ``isotonic``, then ``threshold``. The default values
    change nothing.

    Attributes:
        temperature: Divides the logits of a binary, ordinal or classification head.
        spread: The standard deviation of a regression head's errors, on [0, 1]. The probability of
            each rating is computed from it. With None the head gives no probabilities.
        isotonic: The points of an isotonic regression, which maps scores, as (x coordinates, y
            coordinates). None applies no regression.
        threshold: The probability that becomes the score 0.5, chosen for the best F1 on the
            validation data. None leaves scores as they are.
        margin: Half the length of the interval around a score that holds nine in ten human ratings,
            as a share of the scale: 0.25 is one point on a scale from 1 to 5. None if it is not
            fitted.
        rows: The number of labelled dialogues on which the calibration is fitted.
    """

    temperature: float = 1.0
    spread: float | None = None
    isotonic: Knots | None = None
    threshold: float | None = None
    margin: float | None = None
    rows: int = 0

    def apply_isotonic(self, units: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Maps the scores ``units``, on [0, 1], with the isotonic regression, and returns them.
        If ``isotonic`` is None, they do not change."""
        if self.isotonic is None:
            return np.asarray(units, dtype=np.float64)
        return map_isotonic(units, self.isotonic)

    def center_on_threshold(self, chances: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Maps probabilities ``chances`` to scores on [0, 1], so that the probability ``threshold``
        becomes the score 0.5.

        The map is linear below and above ``threshold``. If ``threshold`` is None, the scores are
        the probabilities.
        """
        middle = self.threshold or 0.5
        return np.asarray(np.interp(np.asarray(chances), (0, middle, 1), (0, 0.5, 1)))


class OutputHead:
    """The output head of one dimension, which turns logits into a loss and a score.

    Attributes:
        dimension: The dimension, with its scale.
        config: The settings of the head.
        levels: The number of ratings on the dimension's scale, 0 if it is continuous.
        outputs: The number of logits: ``levels`` - 1 for an ordinal head, ``levels`` for a
            classification head, 1 for any other head.
        targets: The number of target values of a labelled dialogue: ``levels`` for an ordinal or
            classification head, 1 for any other head.

    Raises:
        ConfigError: The kind of head does not fit the scale, such as an ordinal head for a
            continuous scale.
    """

    def __init__(self, dimension: Dimension, config: HeadConfig) -> None:
        self.dimension, self.config = dimension, config
        self.levels = len(dimension.levels)
        if config.kind in BY_LEVEL and self.levels < 2:
            raise ConfigError(
                f"dimension {dimension.name!r} is continuous: it has no levels for a "
                f"{config.kind} head",
                hint="Write kind: regression",
            )
        if config.kind == "binary" and self.levels != 2:
            raise ConfigError(
                f"dimension {dimension.name!r} does not have two levels, as a binary head needs",
                hint="Write kind: regression"
                + (", ordinal or classification" * (self.levels > 2)),
            )
        sizes = {"ordinal": self.levels - 1, "classification": self.levels}
        self.outputs = sizes.get(config.kind, 1)
        self.targets = self.levels if config.kind in BY_LEVEL else 1

    @property
    def output_names(self) -> list[str]:
        """The name of each logit, such as ``overall`` (regression, binary), ``overall>2`` (ordinal)
        or ``overall=2`` (classification)."""
        name, levels = self.dimension.name, self.dimension.levels
        if self.config.kind == "ordinal":
            return [f"{name}>{level:g}" for level in levels[:-1]]
        if self.config.kind == "classification":
            return [f"{name}={level:g}" for level in levels]
        return [name]

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns the loss of each of B dialogues, [B]. A dialogue without a label has the loss 0.

        Args:
            logits: [B, outputs], the logits of this head in the network's output.
            targets: [B, targets]. For a regression or binary head the label on [0, 1]. For an
                ordinal or classification head the probability of each rating. NaN means no label.
        """
        labelled = ~targets.isnan().any(dim=-1, keepdim=True)
        # Rows without a label get a loss of 0: selecting the others would wait for a GPU.
        logits = logits.float().masked_fill(~labelled, 0.0)
        targets = targets.float().masked_fill(~labelled, 0.0)
        config = self.config
        if config.kind == "regression":
            losses = functional.mse_loss(logits, targets, reduction="none").squeeze(-1)
        elif config.kind == "binary":
            smoothed = (
                targets * (1 - config.label_smoothing) + 0.5 * config.label_smoothing
            )
            losses = functional.binary_cross_entropy_with_logits(
                logits,
                smoothed,
                pos_weight=logits.new_tensor(config.positive_weight),
                reduction="none",
            ).squeeze(-1)
        elif config.kind == "ordinal":
            losses = corn_losses(logits, targets)
        else:
            losses = functional.cross_entropy(
                logits,
                targets,
                label_smoothing=config.label_smoothing,
                reduction="none",
            )
        return losses * labelled.squeeze(-1)

    def probabilities(
        self, logits: Tensor, temperature: float, spread: float | None
    ) -> Tensor:
        """Returns the probability of each rating on the scale for B dialogues, [B, levels].

        A continuous scale has no ratings, and a regression head without ``spread`` gives no
        probabilities: the result is then [B, 0].

        Args:
            logits: [B, outputs], the logits of this head in the network's output.
            temperature: Divides the logits. A regression head ignores it.
            spread: The standard deviation, on [0, 1], of the normal distribution around a
                regression head's score. None: not known.
        """
        # in float32 large ones are ties
        kind, logits = (self.config.kind, logits.cpu().double())
        if kind == "binary":
            p = torch.sigmoid(logits.squeeze(-1) / temperature)
            return torch.stack([1 - p, p], dim=-1)
        if kind == "classification":
            return functional.softmax(logits / temperature, dim=-1)
        if kind == "ordinal":
            return corn_probabilities(logits / temperature)
        if self.levels < 2 or not spread:
            return logits.new_zeros(len(logits), 0)
        return rating_probabilities(
            torch.from_numpy(squash_to_unit(logits.squeeze(-1))), spread, self.levels
        )

    def calibrated_outputs(
        self, logits: Tensor, fitted: Calibration
    ) -> tuple[list[float], list[list[float]], list[float | None]]:
        """Returns the calibrated scores and the probabilities of the ratings for a batch of
        B dialogues.

        Args:
            logits: [B, outputs], the logits of this head in the network's output.
            fitted: The calibration to apply.

        Returns:
            (scores, probabilities, raw), three lists of length B. ``scores`` are on the dimension's
            scale. ``probabilities`` has a list for each dialogue with the probability of each
            rating, empty if unknown. ``raw`` has the scores of a regression head before
            calibration, and None for other heads.
        """
        dimension, raw = self.dimension, list[float | None]([None] * len(logits))
        if self.config.kind == "regression":
            raw = [dimension.from_unit(unit) for unit in logits.squeeze(-1).tolist()]
        chances = self.probabilities(logits, fitted.temperature, fitted.spread).tolist()
        span = dimension.high - dimension.low
        scores = self.scores(logits, fitted.temperature).numpy()
        mapped = fitted.center_on_threshold(
            fitted.apply_isotonic((scores - dimension.low) / span)
        )
        if self.config.kind == "binary":  # after the isotonic map, as the score is
            chances = np.stack([1 - mapped, mapped], axis=1).tolist()
        return (dimension.low + span * mapped).tolist(), chances, raw

    def scores(self, logits: Tensor, temperature: float) -> Tensor:
        """Returns the expected rating of B dialogues before calibration, [B], in float64 on the
        CPU. It is on the dimension's scale.

        Args:
            logits: [B, outputs], the logits of this head in the network's output.
            temperature: Divides the logits. A regression head ignores it.
        """
        if self.config.kind == "regression":
            units = torch.from_numpy(squash_to_unit(logits.squeeze(-1).cpu()))
            return (
                units * (self.dimension.high - self.dimension.low) + self.dimension.low
            )
        p = self.probabilities(logits, temperature, None)
        return p @ p.new_tensor(self.dimension.levels)


def make_output_heads(
    dimensions: Sequence[Dimension], settings: Mapping[str, HeadConfig]
) -> list[OutputHead]:
    """Returns a new head for each of ``dimensions``, in order.

    Args:
        settings: Dimension name -> settings of its head. A dimension without settings gets a binary
            head if its scale is binary, otherwise a regression head.

    Raises:
        ConfigError: A kind of head does not fit its dimension's scale.
    """
    heads = []
    for dimension in dimensions:
        kind: HeadKind = "binary" if dimension.kind == "binary" else "regression"
        config = settings.get(dimension.name, HeadConfig(kind=kind))
        heads.append(OutputHead(dimension, config))
    return heads


def corn_losses(logits: Tensor, target: Tensor) -> Tensor:
    """Returns the CORN loss of B labelled dialogues, [B] (Shi, Cao and Raschka, 2023), extended to
    labels that are probabilities.

    Args:
        logits: [B, K-1] for K ratings. Logit k is for P(label > k | label >= k), with ratings
            counted from 0.
        target: [B, K], the probability of each rating, such as the share of annotators who chose
            it.
    """
    above = target.flip(-1).cumsum(-1).flip(-1)  # [B, K]: P(label >= k)
    reached, passed = above[:, :-1], above[:, 1:]
    share = torch.where(
        reached > 0, passed / reached.clamp_min(1e-9), torch.zeros_like(reached)
    )
    # Equation 4 of the paper, with each logit weighted by P(label >= k) in the target.
    return functional.binary_cross_entropy_with_logits(
        logits, share, weight=reached, reduction="none"
    ).sum(-1)


def corn_probabilities(logits: Tensor) -> Tensor:
    """Returns the probability of each of K ratings for B dialogues, [B, K].

    Args:
        logits: [B, K-1], from an ordinal head, which is trained with the CORN loss.
    """
    above = torch.sigmoid(logits).cumprod(dim=-1)
    reached = functional.pad(above, (1, 0), value=1.0)
    return reached - functional.pad(above, (0, 1))


def rating_probabilities(value: Tensor, spread: float, levels: int) -> Tensor:
    """Returns the probability of each rating, [B, levels], if ratings are normally distributed
    values that are rounded to the nearest rating on the scale.

    Args:
        value: [B], the means of the B normal distributions, on [0, 1].
        spread: The standard deviation of all of them, on [0, 1].
        levels: The number of ratings on the scale, equally spaced from 0 to 1.
    """
    edges = (torch.arange(1, levels, device=value.device) - 0.5) / (levels - 1)
    cdf = torch.special.ndtr((edges - value.float().unsqueeze(-1)) / spread)
    return functional.pad(cdf, (0, 1), value=1.0) - functional.pad(cdf, (1, 0))
