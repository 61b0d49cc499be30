"""The linear net solved in closed form: a ridge regression for each feature group and dimension.

With a frozen body and linear heads the best weights are known; epochs would only approach them.
Columns are scaled for the penalty and the scaling is folded back, so that the saved net stays one
linear map of turns, and each turn's contribution exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from medal_judges.errors import ConfigError
from medal_judges.models.base.turn_features import ROLE_INDEX
from medal_judges.models.turns.config import FeatureGroup, TurnsConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.models.turns.net import LinearNet, TurnsNet, by_role
from medal_judges.training.families.reply import other_halves
from medal_judges.training.rows import STANDARD_SHARE, Columns, TrainingExample

_BATCH = 64
_FLOOR = 1e-6  # below it is the rounding of a column that never varies
_FOLDS = 5


def fit_ridge(judge: TurnsJudge, data: Any, embedding_share: float, seed: int) -> None:
    """Set in place the weights of every feature group's heads and the groups' shares.

    Every source has the same total weight and is centred on its own mean: a judge learns what is
    better within a source, not which source was rated higher. ``embedding_share`` scales an
    embedding column against a feature column (both of unit deviation) before the penalty; 0 leaves
    embeddings out. The penalty shrinks answers; they are stretched to the spread of the targets, or
    to the logits of the labels for a binary head.
    Raises ConfigError for a dimension of which no feature group has two labels, or all labels of an
    issue are the same.
    """
    config, net = judge.config, judge.net
    table = _pooled_table(judge, data, seed)
    half = table.shape[1] // 2
    labelled = mute_groups(net, data.examples, least=2)
    for shares, group, heads, rows_of in zip(
        net.shares, _groups(config), net.heads, labelled, strict=True
    ):
        if group.features is None:
            wanted = np.ones(2 * half)
        else:
            wanted = named_columns(config, ((text, 1.0) for text in group.features), half)
            wanted.reshape(2, half)[:, len(config.feature_names) :] = 1.0  # all embeddings
        for share, name in zip(shares, net.names, strict=True):
            if share == 0:
                continue
            rows = rows_of[name]
            problem = RidgeProblem.of([data.examples[i] for i in rows], table[rows], name)
            scale = wanted * problem.column_scale(len(config.feature_names), embedding_share)
            priors = named_columns(config, group.prior_weights.get(name, {}).items(), half)
            solved = problem.solve(scale, group.alpha, priors)
            if heads[name].config.kind == "binary":
                examples = [data.examples[i] for i in rows]
                held_out = problem.mean @ solved + np.zeros(len(rows))
                groups = [e.group or e.dialogue.id for e in examples]
                for fit, rest in GroupKFold(_FOLDS).split(rows, groups=groups):
                    part = RidgeProblem.of([examples[i] for i in fit], table[rows][fit], name)
                    weights = part.solve(scale, group.alpha, priors)
                    held_out[rest] += (table[rows][rest] - part.mean) @ weights
                labels = np.array([e.targets[name] for e in examples]) >= 0.5
                if len(set(labels.tolist())) < 2:
                    raise ConfigError(f"all training labels of {name!r} are the same")
                # On its own rows a ridge with many columns separates the labels, and every
                # probability would be 0 or 1.
                balance = {False: 1.0, True: heads[name].positive_weight}
                logistic = LogisticRegression(C=np.inf, class_weight=balance)
                logistic.fit(held_out[:, None], labels)
                unit, bias = float(logistic.coef_[0, 0]) * solved, float(logistic.intercept_[0])
            else:  # the sources' mean dialogue scores the middle of the scale
                unit = solved * STANDARD_SHARE
                bias = 0.5 - float(problem.mean @ unit)
            with torch.no_grad():
                heads[name].value.weight.copy_(torch.tensor(unit)[None])
                heads[name].bias.fill_(bias)


@dataclass(slots=True)
class RidgeProblem:
    """A weighted least-squares problem: ``x`` [n, W] and ``y`` [n] (units of deviation), centred
    by source; ``weights`` [n] add up to 1 in each source; ``mean`` [W] of the sources."""

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

        def unit(coefficients: np.ndarray) -> np.ndarray:
            spread = float(self.deviation(self.x @ coefficients[:, None])[0])
            return coefficients / spread if spread > 0 else coefficients

        x = self.x * scale * np.sqrt(self.weights)[:, None]
        y = self.y * np.sqrt(self.weights)
        solved = unit(np.linalg.solve(x.T @ x + alpha * np.eye(x.shape[1]), x.T @ y) * scale)
        if prior_weights.any():
            prior = unit(prior_weights * (scale > 0) * scale)
            solved = solved + float(np.abs(prior_weights).max()) * prior
        return unit(solved) * float(self.deviation(self.y[:, None])[0])


def _pooled_table(judge: TurnsJudge, data: Any, seed: int) -> np.ndarray:
    """Mean user inputs beside mean assistant inputs of each dialogue [n, 2 x width]."""
    net, parts = judge.net, []
    linear = net.nets[0]
    assert isinstance(linear, LinearNet)
    others = other_halves(data.examples, seed)
    with torch.inference_mode():
        for start in range(0, len(data.examples), _BATCH):
            rows = list(range(start, min(start + _BATCH, len(data.examples))))
            inputs = data.inputs(rows)
            batch = inputs["batch"].to(judge.device)
            halves = others[rows].to(judge.device)
            vectors, features = net.linear_inputs(inputs["vectors"].to(judge.device), batch, halves)
            split, weights = by_role(linear.inputs(vectors, features), batch.roles, batch.mask)
            parts.append((split * weights.unsqueeze(-1)).sum(1).cpu().double().numpy())
    return np.concatenate(parts)


def named_columns(
    config: TurnsConfig, values: Iterable[tuple[str, float]], half: int
) -> np.ndarray:
    """The value of each of the 2 x ``half`` columns (user side first; features first) by its name:
    ``name``, ``user.name`` or ``assistant.name``; else 0. Raises ConfigError for other names."""
    names = config.feature_names
    columns = np.zeros((2, half))
    for text, value in values:
        role, dot, name = text.rpartition(".")
        if name not in names or (dot and role not in ROLE_INDEX):
            raise ConfigError(
                f"a feature group reads {text!r}, which the model does not have",
                hint=f"there are {', '.join(names)}, each also as user.NAME and assistant.NAME",
            )
        for side in [ROLE_INDEX[role]] if dot else (0, 1):
            columns[side, names.index(name)] = value
    return columns.reshape(-1)


def _groups(config: TurnsConfig) -> tuple[FeatureGroup, ...]:
    """The settings of each member of the ensemble; without groups all of them read all sources."""
    return config.feature_groups or (FeatureGroup(name="all"),) * config.members


def mute_groups(
    net: TurnsNet, examples: Sequence[TrainingExample], least: int
) -> list[dict[str, list[int]]]:
    """Set to 0 the share of each feature group in each dimension with fewer than ``least`` labels
    in its sources: its head there has learnt nothing. Returns the labelled rows of each group.

    Raises ConfigError for a dimension without any group.
    """
    columns, found = Columns.of(examples), []
    for row, group in enumerate(_groups(net.config)):
        mine = np.isin(columns.sources, group.sources or columns.sources)
        none = np.full(len(mine), np.nan)
        labelled = {name: columns.targets.get(name, none) for name in net.names}
        rows = {n: np.flatnonzero(mine & np.isfinite(t)).tolist() for n, t in labelled.items()}
        found.append(rows)
        for column, name in enumerate(net.names):
            if len(rows[name]) < least:
                net.shares[row, column] = 0
    for column, name in enumerate(net.names):
        if not bool(net.shares[:, column].any()):
            raise ConfigError(
                f"no feature group has {least} or more training labels of {name!r}",
                hint="name a source with such labels in model.feature_groups, or set no sources",
            )
    return found
