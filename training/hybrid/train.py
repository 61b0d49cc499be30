"""A hybrid judge from the judgements of its members on the fitting rows.

The rows are those of ``train``; they should be validation rows of the members, never their
training rows, on which a trained member looks better than it is.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.inference.predictions import judge_once
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.models.hybrid.combination import (
    Cascade,
    Combination,
    MemberSelection,
    Stack,
    uncertainty,
)
from medal_judges.models.hybrid.config import HybridConfig
from medal_judges.models.hybrid.judge import HybridJudge
from medal_judges.models.hybrid.members import Member, open_member
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import content_hash
from medal_judges.training.config import TrainConfig
from medal_judges.training.hybrid.fit import (
    FitRows,
    agreement,
    best_member,
    crossed,
    fit_blend,
    mean_agreement,
    settled,
    threshold_for,
)
from medal_judges.training.rows.examples import TrainingExample

JUDGEMENTS = "judgements"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class MemberJudgements:
    """The fitting rows with what each member said of them: one judgement a row."""

    rows: Sequence[TrainingExample]
    members: Mapping[str, Member]
    answers: Mapping[str, Sequence[Judgement]]

    def of(self, dimension: Dimension) -> FitRows:
        """The rows with a rating of ``dimension`` that every member with it has scored.

        Raises ConfigError where no row is left.
        """
        name = dimension.name
        having = [m for m, member in self.members.items() if m in self.answers and member.has(name)]
        rated = [i for i, row in enumerate(self.rows) if name in row.targets]
        table = [[self.members[m].unit(self.answers[m][i], name) for m in having] for i in rated]
        kept = [k for k, line in enumerate(table) if having and None not in line]
        if len(kept) < len(rated):
            left = len(rated) - len(kept)
            logger.warning("%s: %d of %d rows have no score of a member", name, left, len(rated))
        if not kept:
            raise ConfigError(
                f"{name}: no fitting row has a rating and a score of {', '.join(having) or 'any'}"
            )
        rows = [self.rows[rated[k]] for k in kept]
        return FitRows(
            tuple(having),
            np.array([table[k] for k in kept], dtype=float),
            np.array([row.targets[name] for row in rows], dtype=float),
            np.array([row.source for row in rows]),
            np.array([row.group or row.dialogue.id for row in rows]),
            np.array([row.weight for row in rows], dtype=float),
        )


def fit_hybrid(
    config: TrainConfig, rows: Sequence[TrainingExample], dimensions: Sequence[Dimension]
) -> tuple[HybridJudge, dict[str, float]]:
    """The judge of ``config.model``, and its figures.

    Members' judgements are kept under ``output_dir``/judgements and used again while member and
    rows are the same. Figures are Spearman's correlations over the fitting rows, by source and
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
        _warn_of_training_rows(name, one.path, config)
    wanted = [d for d in dimensions if any(m.has(d.name) for m in members.values())]
    if left := [d.name for d in dimensions if d not in wanted]:
        logger.warning("no member has %s: the judge will not have them", ", ".join(left))
    if not wanted:
        raise ConfigError(
            f"no member has any of {', '.join(d.name for d in dimensions)}",
            hint="members.NAME.dimensions maps a dimension of the rubric to the member's name",
        )
    asked = list(members.values())
    if model.kind == "cascade":  # only the weak one, and none where the threshold is given
        asked = [] if model.share is None else asked[:1]
    folder = Path(config.output_dir) / JUDGEMENTS
    answers = {member.name: _judge(folder, rows, member, wanted) for member in asked}
    judged = MemberJudgements(rows, members, answers)
    fit = _cascade if model.kind == "cascade" else _combined
    combination, figures = fit(model, judged, wanted)
    facts = {"rows": len(rows), "seed": config.seed, "combiner": model.combiner}
    return HybridJudge(members, combination, wanted, name=config.name, facts=facts), figures


def _judge(
    folder: Path, rows: Sequence[TrainingExample], member: Member, dimensions: Sequence[Dimension]
) -> list[Judgement]:
    """One file a source, so that another mixture of sources finds what is there."""
    logger.info("%s judges %d rows", member.name, len(rows))
    judgements: dict[int, Judgement] = {}
    for source in dict.fromkeys(row.source for row in rows):
        own = [i for i, row in enumerate(rows) if row.source == source]
        dialogues = [rows[i].dialogue for i in own]
        own_answers = judge_once(
            member.judge,
            dialogues,
            folder / member.name / f"{content_hash(source)}.jsonl",
            ScoreOptions(dimensions=member.own([d.name for d in dimensions])),
            data=f"{source}@{content_hash([d.to_record() for d in dialogues])}",
        )
        judgements.update(zip(own, own_answers, strict=True))
    return [judgements[i] for i in range(len(rows))]


def _combined(
    model: HybridConfig, judged: MemberJudgements, dimensions: Sequence[Dimension]
) -> tuple[Combination, dict[str, float]]:
    """The selection or the stack, and the figures of its members and itself."""
    figures: dict[str, float] = {}
    choices, blends = {}, {}
    for dimension in dimensions:
        rows, name = judged.of(dimension), dimension.name
        for column, member in enumerate(rows.members):
            own = agreement(rows.units[:, column], rows)
            figures |= _named(f"spearman/{name}/{member}", own)
        if model.kind == "select":
            choices[name] = best_member(rows)
            continue
        fitted = settled(model, rows)
        blends[name] = fit_blend(fitted, rows)
        scores = crossed(fitted, rows)
        if fitted.combiner == "ridge" and fitted.alpha != "auto":
            figures[f"alpha/{name}"] = fitted.alpha
        if scores is not None:
            figures |= _named(f"spearman/{name}", agreement(scores, rows))
    return (MemberSelection(choices) if model.kind == "select" else Stack(blends)), figures


def _named(prefix: str, by_source: Mapping[str, float]) -> dict[str, float]:
    """``prefix`` for the mean over sources, ``prefix``@SOURCE for each."""
    mean = mean_agreement(dict(by_source))
    head = {} if mean is None else {prefix: mean}
    return head | {f"{prefix}@{source}": value for source, value in by_source.items()}


def _cascade(
    model: HybridConfig, judged: MemberJudgements, dimensions: Sequence[Dimension]
) -> tuple[Combination, dict[str, float]]:
    """Thresholds: the given one, or what defers the share of the fitting rows, by dimension."""
    if model.threshold is not None:
        return Cascade(dict.fromkeys([d.name for d in dimensions], model.threshold)), {}
    assert model.share is not None
    weak = next(iter(judged.members.values()))
    thresholds, figures = {}, {}
    for dimension in dimensions:
        values = [uncertainty(weak, j, dimension.name) for j in judged.answers[weak.name]]
        # What the weak judge cannot score is deferred whatever the threshold.
        uncertain = [float("inf") if value is None else value for value in values]
        threshold = threshold_for(uncertain, model.share)
        thresholds[dimension.name] = threshold
        deferred = sum(value > threshold for value in uncertain)
        figures[f"deferred/{dimension.name}"] = deferred / len(uncertain)
    return Cascade(thresholds), figures


def _warn_of_training_rows(name: str, path: str, config: TrainConfig) -> None:
    """A member that learnt from the fitting rows agrees with them too well."""
    facts = Path(path) / "data.json"
    if not facts.is_file():
        return
    entries = json.loads(facts.read_text(encoding="utf-8"))
    learnt = {entry["source"] for entry in entries if entry.get("part") == "train"}
    if both := sorted(learnt & {entry.source for entry in config.train}):
        logger.warning(
            "member %s was trained on %s, on which the hybrid is fitted: it will weigh too much",
            name,
            ", ".join(both),
        )
