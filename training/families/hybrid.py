"""A hybrid judge from its members' judgements of the fitting rows: the stack's lines, the
selection's choices.

The rows are those of ``train``. They should be validation rows of the members: a trained member
looks better than it is on its training rows. Each source is centred on its own mean, and all weigh
the same: their raters use the scale differently, and the level of a judge's scores does not say how
well it ranks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import ridge_regression
from sklearn.model_selection import GroupKFold

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
from medal_judges.training.families.solvers import source_means
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import TrainingExample, training_chats

FOLDS = 5
# With standardised scores and n rows, a penalty of n halves the weight of a lone member.
ALPHAS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_ROUNDING = (
    1e-9  # the spread of a member that gives the same score to all rows of a source
)

logger = logging.getLogger(__name__)


check = refuse_steps


def fit(run: TrainingRun) -> FittedJudge:
    """Fits the judge of ``run``."""
    judge, figures = fit_hybrid(run.config, run.rows.train, run.dimensions)
    return FittedJudge(judge, figures)


def fit_hybrid(
    config: TrainConfig,
    rows: Sequence[TrainingExample],
    dimensions: Sequence[Dimension],
) -> tuple[HybridJudge, dict[str, float]]:
    """Returns the judge of ``config.model``, and its figures.

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
    members = {}
    for name, settings in model.members.items():
        members[name] = open_member(name, settings)
        trained_on = training_chats(settings.path, settings.revision)
        learnt = sum(row.dialogue.text_hash in trained_on for row in rows)
        if learnt:
            logger.warning(
                "member %s was trained on %d of the %d rows on which the hybrid is fitted: its "
                "weight will be too large",
                name,
                learnt,
                len(rows),
            )
    shared: list[Dimension] = []
    lacking: list[str] = []
    for dimension in dimensions:
        if any(member.has(dimension.name) for member in members.values()):
            shared.append(dimension)
        else:
            lacking.append(dimension.name)
    if not shared:
        raise ConfigError(
            f"no member has any of {', '.join(lacking)}",
            hint="members.NAME.dimensions maps a dimension of the rubric to the member's name",
        )
    if lacking:
        logger.warning(
            "no member has %s: the judge will not have them", ", ".join(lacking)
        )
    folder = Path(config.output_dir) / "judgements"
    judgements = {m.name: _judge(folder, rows, m, shared) for m in members.values()}
    fitted = {d.name: fit_rows(rows, members, judgements, d.name) for d in shared}
    combination, figures = _combined(model, fitted)
    facts = {"rows": len(rows), "seed": config.seed}
    return HybridJudge(
        members, combination, shared, name=config.name, facts=facts
    ), figures


def _judge(
    folder: Path,
    rows: Sequence[TrainingExample],
    member: Member,
    dimensions: Sequence[Dimension],
) -> list[Judgement]:
    """Returns a member's judgement of each row. Each source has its own file, so that another
    mixture of sources can reuse them."""
    logger.info("%s judges %d rows", member.name, len(rows))
    names = member.own([dimension.name for dimension in dimensions])
    options = ScoreOptions(dimensions=tuple(names))
    judgements_by_source: dict[str, Iterator[Judgement]] = {}
    for source in dict.fromkeys(row.source for row in rows):
        dialogues = [row.dialogue for row in rows if row.source == source]
        file = folder / member.name / f"{content_hash(source)}.jsonl"
        records = [dialogue.to_record() for dialogue in dialogues]
        data = f"{source}@{content_hash(records)}"
        judgements = judge_once(member.judge, dialogues, file, options, data=data)
        judgements_by_source[source] = iter(judgements)
    return [next(judgements_by_source[row.source]) for row in rows]


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

    @classmethod
    def of(
        cls,
        members: tuple[str, ...],
        units: np.ndarray,
        rows: Sequence[TrainingExample],
        name: str,
    ) -> FitRows:
        """Returns the rows with their ratings of dimension ``name``."""
        return cls(
            members,
            units,
            targets=np.array([row.targets[name] for row in rows], dtype=float),
            sources=np.array([row.source for row in rows]),
            groups=np.array([row.group or row.dialogue.id for row in rows]),
            weights=np.array([row.weight for row in rows], dtype=float),
        )

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
    judgements: Mapping[str, Sequence[Judgement]],
    name: str,
) -> FitRows:
    """Returns the rows with a rating of dimension ``name`` that all members have scored. Members
    without that dimension are left out.

    Raises ConfigError if no row is left.
    """
    names = tuple(member for member in judgements if members[member].has(name))
    rated = [number for number, row in enumerate(rows) if name in row.targets]
    columns = []
    for member in names:
        unit, of_member = members[member].unit, judgements[member]
        column = [unit(of_member[number], name) for number in rated]
        columns.append(np.array(column, dtype=float))  # None becomes NaN
    units = np.column_stack(columns)
    is_scored = np.isfinite(units).all(axis=1)
    chosen = np.array(rated)[is_scored]
    if len(rated) > len(chosen):
        logger.warning(
            "%s: %d of %d rows have no score of a member",
            name,
            len(rated) - len(chosen),
            len(rated),
        )
    if not len(chosen):
        raise ConfigError(
            f"{name}: no fitting row has a rating and a score of {', '.join(names)}"
        )
    fitted_on = [rows[number] for number in chosen]
    return FitRows.of(names, units[is_scored], fitted_on, name)


def _combined(
    model: HybridConfig, fitted: Mapping[str, FitRows]
) -> tuple[Combination, dict[str, float]]:
    """Returns the selection or the stack, and the figures of its members and itself."""
    figures: dict[str, float] = {}
    choices: dict[str, str] = {}
    blends: dict[str, Blend] = {}
    for name, rows in fitted.items():
        means: dict[str, float] = {}
        for column, member in enumerate(rows.members):
            prefix = f"spearman/{name}/{member}"
            member_figures = agreement(prefix, rows.units[:, column], rows)
            figures |= member_figures
            if prefix in member_figures:
                means[member] = member_figures[prefix]
        if model.kind == "select":
            if not means:
                raise ConfigError(
                    "no member's agreement is defined: scores or ratings never differ"
                )
            choices[name] = max(means, key=lambda member: means[member])
            continue
        settings = with_alpha(model, rows)
        blends[name] = fit_blend(settings, rows)
        if settings.alpha != "auto":
            figures[f"alpha/{name}"] = settings.alpha
        scores = crossed(settings, rows)
        if scores is not None:
            figures |= agreement(f"spearman/{name}", scores, rows)
    if model.kind == "select":
        return MemberSelection(choices), figures
    return Stack(blends), figures


# -- the stack's line -----------------------------------------------------------------------------


def with_alpha(config: HybridConfig, rows: FitRows) -> HybridConfig:
    """Returns ``config`` with a number for ``alpha: auto``: the one of ALPHAS whose cross-validated
    scores agree best with people (mean over sources; the smallest of equals, and 1 if there are too
    few conversations)."""
    if config.alpha != "auto":
        return config
    best, highest = ALPHAS[0], -2.0
    for alpha in ALPHAS:
        scores = crossed(config.model_copy(update={"alpha": alpha}), rows)
        if scores is None:
            continue
        figures = agreement("mean", scores, rows)
        # A penalty that leaves a source without a figure is not compared on the others.
        is_complete = len(figures) == len(np.unique(rows.sources)) + 1
        if is_complete and figures["mean"] > highest + EQUAL:
            best, highest = alpha, figures["mean"]
    if highest < -1:
        logger.warning(
            "alpha: auto is %g: no penalty has a figure for each source, which has too few "
            "conversations, or scores or ratings that do not differ; alpha: NUMBER sets it",
            best,
        )
    return config.model_copy(update={"alpha": best})


def fit_blend(config: HybridConfig, rows: FitRows) -> Blend:
    """Returns the line of one dimension, for an ``alpha`` that is a number (``with_alpha``).

    Raises ConfigError with fewer than 3 rows, or if no member's score differs between them.
    """
    if len(rows.targets) < 3:
        raise ConfigError(
            f"a stack needs at least 3 rows with a rating; here: {len(rows.targets)}"
        )
    shares = rows.shares()
    _, numbers = np.unique(rows.sources, return_inverse=True)
    centers = source_means(rows.units, rows.sources, shares)[numbers]
    levels = source_means(rows.targets, rows.sources, shares)[numbers]
    differences = rows.units - centers
    spread = np.sqrt(np.average(differences**2, axis=0, weights=shares))
    is_constant = spread < _ROUNDING
    if is_constant.all():
        raise ConfigError(
            "every member gives all fitting rows of a source the same score"
        )
    spread[is_constant] = 1.0
    standardised, targets = differences / spread, rows.targets - levels
    # Both sides are centred by source, so an intercept would be 0.
    weights = ridge_regression(
        standardised,
        targets,
        config.alpha,
        sample_weight=shares,
        positive=config.nonnegative,
    )
    errors = targets - standardised @ weights
    return Blend(
        rows.members,
        # The mean over rows with these weights is the mean of the sources' means.
        np.average(centers, axis=0, weights=shares),
        spread,
        weights,
        float(np.average(levels, weights=shares)),
        float(np.sqrt(np.average(errors**2, weights=shares))),
    )


def crossed(config: HybridConfig, rows: FitRows) -> np.ndarray | None:
    """Returns the score [n] of each row by a line that was fitted without its conversation (5
    folds); None with fewer conversations than folds."""
    if len(np.unique(rows.groups)) < FOLDS:
        return None
    scores = np.full(len(rows.targets), np.nan)
    for train, held_out in GroupKFold(FOLDS).split(rows.groups, groups=rows.groups):
        scores[held_out] = fit_blend(config, rows.part(train))(rows.units[held_out])
    return scores if np.isfinite(scores).all() else None


def agreement(prefix: str, scores: np.ndarray, rows: FitRows) -> dict[str, float]:
    """Returns Spearman's correlation with the targets: ``prefix``@SOURCE of each source in which it
    is defined, and their mean as ``prefix``."""
    by_source = {}
    for source in dict.fromkeys(rows.sources.tolist()):
        of_source = rows.sources == source
        scored = Values(scores[of_source], EQUAL)
        human = Values(rows.targets[of_source], EQUAL)
        if undefined_reason(human, scored) is None:
            correlation = weighted_spearman(scored, human, np.ones((1, len(human))))
            by_source[f"{prefix}@{source}"] = float(correlation[0])
    if not by_source:
        return {}
    return {prefix: sum(by_source.values()) / len(by_source)} | by_source
