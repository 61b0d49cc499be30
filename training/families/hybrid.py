"""The family ``hybrid`` in a run: fits lines through the judgements of its members.

The rows are those of ``train``. They should be validation rows of the members: a trained member
looks better than it is on its training rows. Each source is centred on its own mean and all weigh
the same: their raters use the scale differently, and the level of a judge's scores does not say how
well it ranks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict

from medal_judges.errors import ConfigError
from medal_judges.inference.scoring import ScoreOptions, judge_once
from medal_judges.models.base.saving import training_chats
from medal_judges.models.hybrid.judge import HybridJudge, Line, Member, open_member
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.training.arguments import JUDGEMENTS
from medal_judges.training.config import refuse_steps
from medal_judges.training.families.solvers import Labelled
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import TrainingExample
from medal_judges.training.validation import agreement, with_means

FOLDS = 5
# With standardised scores and n rows, a penalty of n halves the weight of a lone member.
ALPHAS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
LEAST_ROWS = 20
_ROUNDING = 1e-9  # the deviation of a member that gives the same score to all rows

logger = logging.getLogger(__name__)

check = refuse_steps


def fit(run: TrainingRun) -> FittedJudge:
    """Fits the judge of ``run``. Figures are the agreement with people of scores in 5-fold
    cross-validation over conversations. Raises ConfigError for rows that nothing can be fitted on.
    """
    config, rows = run.config, run.rows.train
    names = [dimension.name for dimension in run.dimensions]
    dialogues = [row.dialogue for row in rows]
    members: dict[str, Member] = {}
    judgements: dict[str, Sequence[Judgement]] = {}
    for name, settings in config.model.members.items():
        member = members[name] = open_member(name, settings)
        trained_on = training_chats(settings.path, settings.revision)
        learnt = sum(dialogue.text_hash in trained_on for dialogue in dialogues)
        if learnt:
            logger.warning(
                "member %s was trained on %d of the %d fitting rows: its weight will be too large",
                *(name, learnt, len(rows)),
            )
        logger.info("%s judges %d rows", name, len(rows))
        options = ScoreOptions(dimensions=tuple(filter(member.has, names)))
        # They are saved: a member may cost money.
        file = Path(config.output_dir) / JUDGEMENTS / f"{name}.jsonl"
        judgements[name] = judge_once(member.judge, dialogues, file, options)
    figures: dict[str, float] = {}
    lines: dict[str, Line] = {}
    for dimension in run.dimensions:
        line, agreements = fit_line(rows, members, judgements, dimension)
        lines[dimension.name] = line
        figures |= agreements
    facts = {"rows": len(rows), "seed": config.seed}
    judge = HybridJudge(members, lines, run.dimensions, name=config.name, facts=facts)
    return FittedJudge(judge, with_means(figures))


def fit_line(
    rows: Sequence[TrainingExample],
    members: Mapping[str, Member],
    judgements: Mapping[str, Sequence[Judgement]],
    dimension: Dimension,
) -> tuple[Line, dict[str, float]]:
    """Returns the line of one dimension, a ridge regression on the rows that all its members
    scored, and its agreement with people in the 5-fold cross-validation over conversations that
    chose its penalty. Raises ConfigError for too few rows, and for equal scores or ratings."""
    name = dimension.name
    names = [member for member in members if members[member].has(name)]
    if not names:
        raise ConfigError(
            f"no member has the dimension {name}",
            hint="name those to learn: only=[NAME, ...]",
        )
    columns = []
    for member in names:
        units = [members[member].unit(scored, name) for scored in judgements[member]]
        columns.append(np.array(units, dtype=float))  # None becomes NaN
    table = np.column_stack(columns)
    chosen = _scored_rows(rows, table, name)
    examples = [rows[row] for row in chosen]
    labelled = Labelled.of(table[chosen], examples, name)
    spread = labelled.deviation(labelled.x)
    x, y = labelled.centred(labelled.x), labelled.centred(labelled.y)
    if max(spread) < _ROUNDING or np.abs(y).max() < _ROUNDING:
        raise ConfigError(f"{name}: all ratings, or each member's scores, are equal")
    spread[spread < _ROUNDING] = 1.0
    # Both sides are centred by source, so an intercept would be 0.
    ridge = Ridge(positive=True, fit_intercept=False)
    folds = {
        "groups": [example.group or example.dialogue.id for example in examples],
        "cv": GroupKFold(FOLDS),
    }
    weights = labelled.weights * len(y) / labelled.weights.sum()
    search = GridSearchCV(ridge, {"alpha": ALPHAS}, cv=folds["cv"])
    search.fit(x / spread, y, groups=folds["groups"], sample_weight=weights)
    solver = search.best_estimator_
    held_out = cross_val_predict(
        solver, x / spread, y, params={"sample_weight": weights}, **folds
    )
    slopes = solver.coef_ / spread
    middle = labelled.source_means(labelled.x).mean(axis=0) @ slopes
    used = np.flatnonzero(slopes > _ROUNDING).tolist()
    line = Line(
        tuple(names[column] for column in used),
        tuple(slopes[used].tolist()),
        intercept=float(labelled.source_means(labelled.y).mean() - middle),
    )
    human = np.array([example.human[name] for example in examples])
    is_binary = dimension.kind == "binary"
    return line, agreement(name, human, held_out, labelled.sources, is_binary)


def _scored_rows(
    rows: Sequence[TrainingExample],
    table: np.ndarray,
    name: str,
) -> list[int]:
    """Returns the numbers of the rows with a rating of ``name`` and all scores of the ``table`` [n,
    members]. Raises ConfigError for too few."""
    is_rated = np.array([name in row.targets for row in rows])
    chosen = np.flatnonzero(is_rated & np.isfinite(table).all(axis=1)).tolist()
    unscored = int(is_rated.sum()) - len(chosen)
    if unscored:
        logger.warning("%s: %d rows lack the score of a member", name, unscored)
    if len(chosen) < LEAST_ROWS:
        raise ConfigError(
            f"{name}: {len(chosen)} fitting rows have a rating and all members' scores; "
            f"{LEAST_ROWS} are needed"
        )
    return chosen
