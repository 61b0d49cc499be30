"""The linear net solved in closed form: a ridge regression for each feature group and dimension.

With a frozen body and linear heads the best weights are known; epochs would only approach them.
Columns are scaled for the penalty and the scaling folded back, so that the saved net stays one
linear map of turns, and each turn's contribution exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from medal_judges.errors import ConfigError
from medal_judges.models.base.heads import Head
from medal_judges.models.base.turn_features import ROLE_INDEX
from medal_judges.models.encoder.config import EncoderConfig, FeatureGroup
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.encoder.net import EncoderNet, LinearNet, by_role
from medal_judges.training.encoder.data import EncoderDataset
from medal_judges.training.encoder.reply import other_halves
from medal_judges.training.rows.examples import STANDARD_SHARE, TrainingExample, targets_of

_BATCH = 64
_FLOOR = 1e-9


def fit_ridge(judge: EncoderJudge, data: EncoderDataset, embedding_share: float, seed: int) -> None:
    """Set in place the weights of every feature group's heads and the groups' shares.

    Every source has the same total weight and is centred on its own mean: a judge learns what is
    better within a source, not which source was rated higher. ``embedding_share`` scales an
    embedding column against a feature column (both of unit deviation) before the penalty; 0 leaves
    embeddings out. Answers are stretched to the spread of the targets, which the penalty shrinks;
    those of a binary head to the logits of its labels.
    Raises ConfigError for a net or heads that have no closed form, and for a dimension of which no
    feature group has two labels.
    """
    config, net = judge.config, judge.net
    kinds = {head.config.kind for heads in net.heads for head in heads.values()}
    if config.net != "linear" or not kinds <= {"regression", "binary"}:
        raise ConfigError(
            "solver: ridge needs net: linear and regression or binary heads",
            hint="set optim.solver: gradient, or model.net: linear",
        )
    table = pooled_table(judge, data, seed)
    half = table.shape[1] // 2
    mute_groups(net, data.examples, least=2)
    for shares, group, heads in zip(net.shares, groups_of(config), net.heads, strict=True):
        wanted = group_columns(config, group.features, half)
        for share, name in zip(shares, net.names, strict=True):
            if share == 0:
                continue
            rows = labelled_rows(data.examples, group, name)
            problem = RidgeProblem.of([data.examples[i] for i in rows], table[rows], name)
            scale = wanted * problem.column_scale(len(config.feature_names), embedding_share)
            prior_weights = weights_by_column(config, group.prior_weights.get(name, {}), half)
            solved = problem.solve(scale, group.alpha, prior_weights)
            if heads[name].config.kind == "binary":
                labels = targets_of(data.examples, name)[rows] >= 0.5
                _write_binary(heads[name], name, solved, table[rows], labels)
            else:
                _write(heads[name], problem, solved)


@dataclass(slots=True)
class RidgeProblem:
    """A weighted least-squares problem: ``x`` [n, W] and ``y`` [n] (units of deviation), centred
    source by source; ``weights`` [n] add up to 1 in each source; ``mean`` [W] of the sources."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, examples: Sequence[TrainingExample], table: np.ndarray, name: str) -> RidgeProblem:
        """The problem of dimension ``name``."""
        sources = np.array([e.source for e in examples])
        weights = np.array([e.weight for e in examples], dtype=float)
        y = np.array([e.targets[name] for e in examples], dtype=float) / STANDARD_SHARE
        x, means = table.astype(float), []
        for source in np.unique(sources):
            mine = sources == source
            weights[mine] /= weights[mine].sum()
            means.append(np.average(x[mine], axis=0, weights=weights[mine]))
            x[mine] = x[mine] - means[-1]
            y[mine] = y[mine] - np.average(y[mine], weights=weights[mine])
        return cls(x, y, weights, np.mean(means, axis=0))

    def deviation(self, columns: np.ndarray) -> np.ndarray:
        """Deviation of ``columns`` [n, any] within sources."""
        squares = (columns**2 * self.weights[:, None]).sum(0)
        return np.asarray(np.sqrt(squares / self.weights.sum()))

    def column_scale(self, features: int, embedding_share: float) -> np.ndarray:
        """1 / deviation of each feature column; one scale for all embedding columns of a side."""
        deviation = self.deviation(self.x)
        half = len(deviation) // 2
        scale = np.where(deviation > _FLOOR, 1 / np.maximum(deviation, _FLOOR), 0.0)
        for start in (0, half):
            block = slice(start + features, start + half)
            if half > features:
                scale[block] = embedding_share / max(float(deviation[block].mean()), _FLOOR)
        return scale

    def solve(self, scale: np.ndarray, alpha: float, prior_weights: np.ndarray) -> np.ndarray:
        """Coefficients [W] of ``x`` whose answer has the deviation of ``y``."""
        x = self.x * scale * np.sqrt(self.weights)[:, None]
        y = self.y * np.sqrt(self.weights)
        solved = np.linalg.solve(x.T @ x + alpha * np.eye(x.shape[1]), x.T @ y) * scale
        solved = self._unit(solved)
        if prior_weights.any():
            solved = solved + float(np.abs(prior_weights).max()) * self._unit(
                prior_weights * (scale > 0) * scale
            )
        target = float(self.deviation(self.y[:, None])[0])
        return self._unit(solved) * target

    def _unit(self, coefficients: np.ndarray) -> np.ndarray:
        """``coefficients`` scaled so that the answer has a deviation of 1."""
        spread = float(self.deviation(self.x @ coefficients[:, None])[0])
        return coefficients / spread if spread > 0 else coefficients


def _write(head: Head, problem: RidgeProblem, coefficients: np.ndarray) -> None:
    """Weights and bias of ``head``: the sources' mean dialogue scores the middle of the scale."""
    unit = coefficients * STANDARD_SHARE
    with torch.no_grad():
        head.value.weight.copy_(torch.tensor(unit)[None])
        head.bias.fill_(0.5 - float(problem.mean @ unit))


def _write_binary(
    head: Head, name: str, coefficients: np.ndarray, table: np.ndarray, labels: np.ndarray
) -> None:
    """Weights and bias of a binary ``head``: the logits that fit ``labels`` [n] best along
    ``coefficients`` [W], by logistic regression on that one number of ``table`` [n, W].

    Raises ConfigError where all labels are the same.
    """
    from sklearn.linear_model import LogisticRegression

    if len(set(labels.tolist())) < 2:
        raise ConfigError(f"all training labels of {name!r} are the same")
    fitted = LogisticRegression(C=np.inf).fit((table @ coefficients)[:, None], labels)
    with torch.no_grad():
        head.value.weight.copy_(torch.tensor(float(fitted.coef_[0, 0]) * coefficients)[None])
        head.bias.fill_(float(fitted.intercept_[0]))


def pooled_table(judge: EncoderJudge, data: EncoderDataset, seed: int) -> np.ndarray:
    """Mean user inputs beside mean assistant inputs of each dialogue [n, 2 x width]."""
    net, parts = judge.net, []
    linear = net.nets[0]
    assert isinstance(linear, LinearNet)
    others = other_halves(data.examples, seed)
    with torch.inference_mode():
        for start in range(0, len(data.examples), _BATCH):
            rows = list(range(start, min(start + _BATCH, len(data.examples))))
            inputs = data.inputs(rows).to(judge.device)
            assert inputs.vectors is not None
            halves = others[rows].to(judge.device)
            vectors, features = net.linear_inputs(inputs.vectors, inputs.batch, halves)
            split, weights = by_role(
                linear.inputs(vectors, features), inputs.batch.roles, inputs.batch.mask
            )
            parts.append((split * weights.unsqueeze(-1)).sum(1).cpu().double().numpy())
    return np.concatenate(parts)


def group_columns(config: EncoderConfig, wanted: Sequence[str] | None, half: int) -> np.ndarray:
    """Which of the 2 x ``half`` columns (user side first; features first) are read [2 x half]."""
    names = config.feature_names
    if wanted is None:
        return np.ones(2 * half, dtype=bool)
    chosen = np.zeros((2, half), dtype=bool)
    chosen[:, len(names) :] = True
    for text in wanted:
        for side, place in _places(names, text):
            chosen[side, place] = True
    return chosen.reshape(-1)


def weights_by_column(
    config: EncoderConfig, prior_weights: Mapping[str, float], half: int
) -> np.ndarray:
    """The prior weight of each of the 2 x ``half`` columns."""
    weights = np.zeros((2, half))
    for text, weight in prior_weights.items():
        for side, place in _places(config.feature_names, text):
            weights[side, place] = weight
    return weights.reshape(-1)


def _places(names: Sequence[str], text: str) -> list[tuple[int, int]]:
    """(side, column) of ``name``, ``user.name`` or ``assistant.name``. Raises ConfigError."""
    role, dot, name = text.rpartition(".")
    if name not in names or (dot and role not in ROLE_INDEX):
        raise ConfigError(
            f"a feature group reads {text!r}, which the model does not have",
            hint=f"there are {', '.join(names)}, each also as user.NAME and assistant.NAME",
        )
    sides = [ROLE_INDEX[role]] if dot else [0, 1]
    return [(side, names.index(name)) for side in sides]


# -- which feature group has a say in which dimension -------------------------------------------


def groups_of(config: EncoderConfig) -> tuple[FeatureGroup, ...]:
    """The settings of each member of the ensemble; without groups all of them read all sources."""
    return config.feature_groups or (FeatureGroup(name="all"),) * config.members


def labelled_rows(examples: Sequence[TrainingExample], group: FeatureGroup, name: str) -> list[int]:
    """The rows of the sources of ``group`` that have a label of dimension ``name``."""
    labelled = np.flatnonzero(np.isfinite(targets_of(examples, name))).tolist()
    return [i for i in labelled if not group.sources or examples[i].source in group.sources]


def mute_groups(net: EncoderNet, examples: Sequence[TrainingExample], least: int) -> None:
    """Set to 0 the share of each feature group in each dimension of which it has fewer than
    ``least`` labels: its head there has learnt nothing.

    Raises ConfigError for a dimension in which nobody is left.
    """
    groups = groups_of(net.config)
    for column, name in enumerate(net.names):
        for row, group in enumerate(groups):
            if len(labelled_rows(examples, group, name)) < least:
                net.shares[row, column] = 0
        if not bool(net.shares[:, column].any()):
            raise ConfigError(
                f"no feature group has {least} or more training labels of {name!r}",
                hint="name a source that has them in model.feature_groups, or one without sources",
            )
