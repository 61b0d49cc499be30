"""A hybrid judge from its members' judgements of the fitting rows: the stack's lines, the
selection's choices.

The rows are those of ``train``. They should be validation rows of the members: a trained member
looks better than it is on its training rows. Each source is centred on its own mean, and all weigh
the same: their raters use the scale differently, and the level of a judge's scores does not say how
well it ranks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.inference.scoring import ScoreOptions, judge_once
from medal_judges.models.hybrid.judge import (
    Blend,
    Combination,
    HybridJudge,
    MemberSelection,
    Stack,
)
from medal_judges.models.hybrid.members import HybridConfig, Member, open_member
from medal_judges.records.dimension import EQUAL, Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import content_hash
from medal_judges.stats.correlation import undefined_reason, weighted_spearman
from medal_judges.stats.equal import Values
from medal_judges.training.config import TrainConfig, refuse_steps
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import TrainingExample

FOLDS = 5
# With standardised scores and n rows, a penalty of n halves the weight of a lone member.
ALPHAS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)

logger = logging.getLogger(__name__)


check = refuse_steps


def fit(run: TrainingRun) -> FittedJudge:
    """Fits the judge of ``run``."""
    judge, figures = fit_hybrid(run.config, run.rows.train, run.dimensions)
    return FittedJudge(judge, figures)


def fit_hybrid(
    config: TrainConfig, rows: Sequence[TrainingExample], dimensions: Sequence[Dimension]
) -> tuple[HybridJudge, dict[str, float]]:
    """The judge of ``config.model``, and its figures.

    Members' judgements are saved under ``output_dir``/judgements and used again if member and rows
    are the same. Figures are Spearman's correlations over the fitting rows, by source and
    their mean: of each member, and of the hybrid by 5-fold cross-validation over conversations.
    Raises ConfigError for dimensions that no member has, and rows that nothing can be fitted on.
    """
    model = config.model
    assert isinstance(model, HybridConfig)
    if config.validation:
        raise ConfigError(
            "a hybrid is fitted on the `train` entries and measured on them by cross-validation",
            hint="leave `validation` out, and give the members' validation rows as `train`",
        )
    members = {name: open_member(name, one) for name, one in model.members.items()}
    for name, one in model.members.items():
        data = Path(one.path) / "data.json"
        entries = json.loads(data.read_text(encoding="utf-8")) if data.is_file() else []
        learnt = {entry["source"] for entry in entries if entry.get("part") == "train"}
        if both := sorted(learnt & {entry.source for entry in config.train}):
            logger.warning(
                "member %s was trained on %s, on which the hybrid is fitted: its weight will be "
                "too large",
                name,
                ", ".join(both),
            )
    wanted = [d for d in dimensions if any(m.has(d.name) for m in members.values())]
    if left := [d.name for d in dimensions if d not in wanted]:
        logger.warning("no member has %s: the judge will not have them", ", ".join(left))
    if not wanted:
        raise ConfigError(
            f"no member has any of {', '.join(d.name for d in dimensions)}",
            hint="members.NAME.dimensions maps a dimension of the rubric to the member's name",
        )
    folder = Path(config.output_dir) / "judgements"
    answers = {m.name: _judge(folder, rows, m, wanted) for m in members.values()}
    fitted = {d.name: fit_rows(rows, members, answers, d.name) for d in wanted}
    combination, figures = _combined(model, fitted)
    facts = {"rows": len(rows), "seed": config.seed}
    return HybridJudge(members, combination, wanted, name=config.name, facts=facts), figures


def _judge(
    folder: Path, rows: Sequence[TrainingExample], member: Member, dimensions: Sequence[Dimension]
) -> list[Judgement]:
    """Returns a member's judgement of each row. Each source has its own file, so that another
    mixture of sources can reuse them."""
    logger.info("%s judges %d rows", member.name, len(rows))
    judgements: dict[int, Judgement] = {}
    for source in dict.fromkeys(row.source for row in rows):
        own = [i for i, row in enumerate(rows) if row.source == source]
        dialogues = [rows[i].dialogue for i in own]
        found = judge_once(
            member.judge,
            dialogues,
            folder / member.name / f"{content_hash(source)}.jsonl",
            ScoreOptions(dimensions=tuple(member.own([d.name for d in dimensions]))),
            data=f"{source}@{content_hash([d.to_record() for d in dialogues])}",
        )
        judgements.update(zip(own, found, strict=True))
    return [judgements[i] for i in range(len(rows))]


@dataclass(frozen=True, slots=True)
class FitRows:
    """Rows of one dimension: ``units`` [n, members] of the members' scores on [0, 1], ``targets``
    [n] on [0, 1], and the source, conversation and weight of each row."""

    members: tuple[str, ...]
    units: np.ndarray
    targets: np.ndarray
    sources: np.ndarray
    groups: np.ndarray
    weights: np.ndarray

    def part(self, rows: np.ndarray) -> FitRows:
        """The same for some of the rows."""
        columns = (self.units, self.targets, self.sources, self.groups, self.weights)
        return FitRows(self.members, *(column[rows] for column in columns))

    def shares(self) -> np.ndarray:
        """Weights [n] in which every source counts the same; they add up to n."""
        _, numbers = np.unique(self.sources, return_inverse=True)
        totals = np.bincount(numbers, self.weights)
        return self.weights / totals[numbers] / len(totals) * len(numbers)


def fit_rows(
    rows: Sequence[TrainingExample],
    members: Mapping[str, Member],
    answers: Mapping[str, Sequence[Judgement]],
    name: str,
) -> FitRows:
    """The rows with a rating of dimension ``name`` that every member with it has scored.

    Raises ConfigError if no row is left.
    """
    having = [m for m, member in members.items() if m in answers and member.has(name)]
    rated = [i for i, row in enumerate(rows) if name in row.targets]
    table = [[members[m].unit(answers[m][i], name) for m in having] for i in rated]
    whole = [k for k, line in enumerate(table) if having and None not in line]
    if left := len(rated) - len(whole):
        logger.warning("%s: %d of %d rows have no score of a member", name, left, len(rated))
    if not whole:
        raise ConfigError(
            f"{name}: no fitting row has a rating and a score of {', '.join(having) or 'any'}"
        )
    chosen = [rows[rated[k]] for k in whole]
    return FitRows(
        tuple(having),
        np.array([table[k] for k in whole], dtype=float),
        np.array([row.targets[name] for row in chosen], dtype=float),
        np.array([row.source for row in chosen]),
        np.array([row.group or row.dialogue.id for row in chosen]),
        np.array([row.weight for row in chosen], dtype=float),
    )


def _combined(
    model: HybridConfig, fitted: Mapping[str, FitRows]
) -> tuple[Combination, dict[str, float]]:
    """The selection or the stack, and the figures of its members and itself."""
    figures: dict[str, float] = {}
    choices, blends = {}, {}
    for name, rows in fitted.items():
        prefixes = {member: f"spearman/{name}/{member}" for member in rows.members}
        for column, prefix in enumerate(prefixes.values()):
            figures |= agreement(prefix, rows.units[:, column], rows)
        if model.kind == "select":
            means = {m: figures[prefix] for m, prefix in prefixes.items() if prefix in figures}
            if not means:
                raise ConfigError(
                    "no member's agreement is defined: scores or ratings never differ"
                )
            choices[name] = max(means, key=lambda member: means[member])
            continue
        settings = chosen_alpha(model, rows)
        blends[name] = fit_blend(settings, rows)
        if settings.alpha != "auto":
            figures[f"alpha/{name}"] = settings.alpha
        if (scores := crossed(settings, rows)) is not None:
            figures |= agreement(f"spearman/{name}", scores, rows)
    return (MemberSelection(choices) if model.kind == "select" else Stack(blends)), figures


# -- the stack's line -----------------------------------------------------------------------------


def chosen_alpha(config: HybridConfig, rows: FitRows) -> HybridConfig:
    """``config`` with a number for ``alpha: auto``: the one of ALPHAS whose cross-validated scores
    agree best with people (mean over sources; the smallest of equals, and 1 if there are too few
    conversations)."""
    if config.alpha != "auto":
        return config
    best, top = ALPHAS[0], -2.0
    for alpha in ALPHAS:
        scores = crossed(config.model_copy(update={"alpha": alpha}), rows)
        figures = {} if scores is None else agreement("mean", scores, rows)
        # A penalty that leaves a source without a figure is not compared on the others.
        if len(figures) == len(np.unique(rows.sources)) + 1 and figures["mean"] > top + EQUAL:
            best, top = alpha, figures["mean"]
    return config.model_copy(update={"alpha": best})


def fit_blend(config: HybridConfig, rows: FitRows) -> Blend:
    """Returns the line of one dimension, for an ``alpha`` that is a number (``chosen_alpha``).

    Raises ConfigError with fewer than 3 rows, or if no member's score differs between them.
    """
    if len(rows.targets) < 3:
        raise ConfigError(f"a stack needs at least 3 rows with a rating; here: {len(rows.targets)}")
    w = rows.shares()
    centers = _source_means(rows.units, rows.sources, w)
    level = _source_means(rows.targets[:, None], rows.sources, w)[:, 0]
    x, y = rows.units - centers, rows.targets - level
    spread = np.sqrt(np.average(x**2, axis=0, weights=w))
    if not spread.any():
        raise ConfigError("every member gives all fitting rows of a source the same score")
    spread = np.where(spread > 0, spread, 1.0)
    z = x / spread
    # The mean over rows with these weights is the mean of the sources' means.
    middle = float(np.average(level, weights=w))
    from sklearn.linear_model import ridge_regression

    # Both sides are centred by source, so an intercept would be 0.
    weights = ridge_regression(z, y, config.alpha, sample_weight=w, positive=config.nonnegative)
    residual = float(np.sqrt(np.average((y - z @ weights) ** 2, weights=w)))
    center = np.average(centers, axis=0, weights=w)
    return Blend(rows.members, center, spread, weights, middle, residual)


def _source_means(values: np.ndarray, sources: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The mean of its source for each row [n, columns]."""
    means = np.zeros_like(values, dtype=float)
    for name in np.unique(sources):
        own = sources == name
        means[own] = np.average(values[own], axis=0, weights=w[own])
    return means


def crossed(config: HybridConfig, rows: FitRows) -> np.ndarray | None:
    """Scores [n] of each row by a line that was fitted without its conversation (5 folds); None
    with fewer conversations than folds."""
    from sklearn.model_selection import GroupKFold

    if len(np.unique(rows.groups)) < FOLDS:
        return None
    scores = np.full(len(rows.targets), np.nan)
    for learn, held in GroupKFold(FOLDS).split(rows.groups, groups=rows.groups):
        scores[held] = fit_blend(config, rows.part(learn))(rows.units[held])
    return scores if np.isfinite(scores).all() else None


def agreement(prefix: str, scores: np.ndarray, rows: FitRows) -> dict[str, float]:
    """Spearman's correlation with the targets: ``prefix``@SOURCE of each source in which it is
    defined, and their mean as ``prefix``."""
    figures = {}
    for name in dict.fromkeys(rows.sources.tolist()):
        of_source = rows.sources == name
        x, y = Values(scores[of_source], EQUAL), Values(rows.targets[of_source], EQUAL)
        if undefined_reason(y, x) is None:
            figures[f"{prefix}@{name}"] = float(weighted_spearman(x, y, np.ones((1, len(x))))[0])
    mean = {prefix: sum(figures.values()) / len(figures)} if figures else {}
    return mean | figures
