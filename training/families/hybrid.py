"""The family ``hybrid`` in a run: fits lines through the judgements of its members.

The rows are those of ``train``. They should be validation rows of the members: a trained member
looks better than it is on its training rows. Each source is centred on its own mean and all weigh
the same: their raters use the scale differently, and the level of a judge's scores does not say how
well it ranks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
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
from medal_judges.training.validation import agreement

FOLDS = 5
# With standardised scores and n rows, a penalty of n halves the weight of a lone member.
ALPHAS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
LEAST_ROWS = 20
_ROUNDING = 1e-9  # the deviation of a member that gives the same score to all rows

logger = logging.getLogger(__name__)

check = refuse_steps


def fit(run: TrainingRun) -> FittedJudge:
    """Fits the judge of ``run``.

    Figures are agreement with people over the fitting rows: of each member, and of the judge by
    5-fold cross-validation over conversations. Raises ConfigError for rows that nothing can be
    fitted on.
    """
    config, rows = run.config, run.rows.train
    members = {}
    for name, settings in config.model.members.items():
        members[name] = open_member(name, settings)
        trained_on = training_chats(settings.path, settings.revision)
        learnt = sum(row.dialogue.text_hash in trained_on for row in rows)
        if learnt:
            logger.warning(
                "member %s was trained on %d of the %d fitting rows: its weight will be too large",
                *(name, learnt, len(rows)),
            )
    names = [dimension.name for dimension in run.dimensions]
    for name in names:
        if not any(member.has(name) for member in members.values()):
            raise ConfigError(
                f"no member has the dimension {name}",
                hint="name those to learn: only=[NAME, ...]",
            )
    folder = Path(config.output_dir) / JUDGEMENTS
    judgements = {}
    for name, member in members.items():
        judgements[name] = _judge(folder, rows, member, names)
    figures: dict[str, float] = {}
    lines: dict[str, Line] = {}
    for dimension in run.dimensions:
        lines[dimension.name] = fit_line(rows, members, judgements, dimension, figures)
    facts = {"rows": len(rows), "seed": config.seed}
    judge = HybridJudge(members, lines, run.dimensions, name=config.name, facts=facts)
    return FittedJudge(judge, figures)


def _judge(
    folder: Path,
    rows: Sequence[TrainingExample],
    member: Member,
    dimensions: Sequence[str],
) -> list[Judgement]:
    """Returns a member's judgement of each row. They are saved in ``folder``: a member may cost
    money."""
    logger.info("%s judges %d rows", member.name, len(rows))
    options = ScoreOptions(dimensions=tuple(filter(member.has, dimensions)))
    dialogues = [row.dialogue for row in rows]
    file = folder / f"{member.name}.jsonl"
    return judge_once(member.judge, dialogues, file, options)


def fit_line(
    rows: Sequence[TrainingExample],
    members: Mapping[str, Member],
    judgements: Mapping[str, Sequence[Judgement]],
    dimension: Dimension,
    figures: dict[str, float],
) -> Line:
    """Returns the line of one dimension, fitted on the rows that all its members scored. Adds the
    ``figures`` of the members and of the judge."""
    name = dimension.name
    names = [member for member in members if members[member].has(name)]
    columns = []
    for member in names:
        column = [
            members[member].unit(judgement, name) for judgement in judgements[member]
        ]
        columns.append(np.array(column, dtype=float))  # None becomes NaN
    table = np.column_stack(columns)
    chosen = _scored_rows(rows, table, name)
    examples, units = [rows[row] for row in chosen], table[chosen]
    human = np.array([example.human.get(name, np.nan) for example in examples])
    sources = np.array([example.source for example in examples])

    def measured(scores: np.ndarray) -> float:
        is_binary = dimension.kind == "binary"
        figure = agreement(name, human, scores, sources, is_binary)
        return next(iter(figure.values()), 0.0)

    by_member = {}
    for member, scores in zip(names, units.T, strict=True):
        by_member[member] = measured(scores)
        figures[f"agreement/{name}/{member}"] = by_member[member]
    if not any(by_member.values()):
        raise ConfigError(f"{name}: all ratings, or each member's scores, are equal")
    labelled = Labelled.of(units, examples, name)
    groups = [example.group or example.dialogue.id for example in examples]
    line, figures[f"agreement/{name}"] = _stack(names, labelled, groups, measured)
    return line


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


def _stack(
    names: Sequence[str],
    labelled: Labelled,
    groups: Sequence[str],
    measured: Callable[[np.ndarray], float],
) -> tuple[Line, float]:
    """Returns the ridge regression on the scores of members ``names``, and its agreement, as
    ``measured`` in the 5-fold cross-validation over ``groups`` that chose its penalty."""
    units = labelled.x
    spread = labelled.deviation(units)
    spread[spread < _ROUNDING] = 1.0
    x, y = labelled.centred(units) / spread, labelled.centred(labelled.y)
    weights = labelled.weights * len(y) / labelled.weights.sum()
    # Both sides are centred by source, so an intercept would be 0.
    ridge = Ridge(positive=True, fit_intercept=False)
    folds = GroupKFold(FOLDS)
    search = GridSearchCV(ridge, {"alpha": ALPHAS}, cv=folds)
    search.fit(x, y, groups=groups, sample_weight=weights)
    solver = search.best_estimator_
    held_out = cross_val_predict(
        solver,
        *(x, y),
        groups=groups,
        cv=folds,
        params={"sample_weight": weights},
    )
    slopes = solver.coef_ / spread
    middle = labelled.source_means(units).mean(axis=0) @ slopes
    used = np.flatnonzero(slopes > _ROUNDING).tolist()
    line = Line(
        tuple(names[column] for column in used),
        tuple(slopes[used].tolist()),
        intercept=float(labelled.source_means(labelled.y).mean() - middle),
    )
    return line, measured(held_out)
