"""Human labels of a sample of the rows correct the figures and show how far the judge agrees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from medal_judges.errors import DataError, did_you_mean
from medal_judges.eval.benchmark.plots import calibration_panel
from medal_judges.eval.metaeval.metaeval import evaluate
from medal_judges.eval.report.conversations import Conversation
from medal_judges.eval.report.figures import ReportFigures
from medal_judges.eval.report.scores import Scores
from medal_judges.eval.report.tables import is_share, ordered, shown
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import mean, rescale
from medal_judges.report.figure import Figure
from medal_judges.report.numbers import label, number
from medal_judges.report.page import Block, Section
from medal_judges.report.table import Row, Share, Table
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.means import Sample, difference_of
from medal_judges.stats.weights import choose_weights, curation_weight

Labelled = Mapping[int, LabelledDialogue]
_GRADED, _ISSUES = ("spearman", "pearson"), ("f1_present", "precision", "recall")


def add_labels(scores: Scores, path: str, rows: Iterable[LabelledDialogue]) -> Labelled:
    """Adds to ``scores`` the mean label of each labelled row, on the judge's scale, and notes.
    Returns the labelled rows by their place; labels and scores match by id, and by turn if turns
    are judged.

    Raises DataError if no row or no dimension is both judged and labelled, or a label is not on the
    judge's scale.
    """
    name, listed = Path(path).name, list(rows)
    wanted = {(row.id, -1 if row.turn is None else row.turn): row for row in listed}
    turns = scores.frame["turn"].fillna(-1)
    candidates = np.flatnonzero(scores.frame["id"].isin({id for id, _ in wanted}))
    labelled: dict[int, LabelledDialogue] = {}
    for place in candidates.tolist():
        key = str(scores.frame["id"].iloc[place]), int(turns.iloc[place])
        if key in wanted:
            labelled[place] = wanted[key]
    if not labelled:
        hint = "labels belong to scored rows by their id, and turn for turn"
        raise DataError(name, None, "none of its rows is among the scores", hint=hint)
    names = list(dict.fromkeys(each for row in labelled.values() for each in row.labels))
    if not any(each in scores.dimensions for each in names):
        near = did_you_mean(names[0] if names else "", scores.dimensions)
        raise DataError(
            name, None, f"its labels are of {', '.join(names) or 'nothing'}, which was not judged",
            hint=f"{near}the scores have: {', '.join(scores.dimensions)}",
        )  # fmt: skip
    for place, row in labelled.items():
        for rating in row.ratings():
            value, dimension = mean(rating), scores.dimensions.get(rating.dimension)
            if value is None or dimension is None:
                continue
            scale = dimension.low, dimension.high
            if dimension.name not in scores.assumed:
                if rating.scale is not None:
                    value = rescale(value, rating.scale, scale)
                elif not scale[0] <= value <= scale[1]:
                    raise DataError(
                        name, None,
                        f"{row.id}: {dimension.name} {value:g} is outside the judge's scale from "
                        f"{scale[0]:g} to {scale[1]:g}",
                        hint='state the scale of the labels: "scales": {"NAME": [lowest, highest]}',
                    )  # fmt: skip
            column = scores.people.setdefault(dimension.name, np.full(scores.rows, math.nan))
            column[place] = value
    if choose_weights(list(labelled.values()), "curation", name) == "curation":
        scores.people_weights = np.zeros(scores.rows)
        for place, row in labelled.items():
            scores.people_weights[place] = curation_weight(row)
    unmatched = len(listed) - len(labelled)
    other = [each for each in names if each not in scores.dimensions]
    missing = [each for each in scores.dimensions if each not in scores.people]
    scores.notes += [
        f"{len(labelled):,} of {scores.rows:,} {scores.unit}s have human labels ({name})",
        *([f"{unmatched:,} labelled rows are not among the scores: skipped"] if unmatched else []),
        *([f"Labelled but not judged: {', '.join(other)}"] if other else []),
        *([f"No labels of {', '.join(missing)}: not corrected"] if missing else []),
    ]
    head = scores.headline
    if head is not None and head in scores.people and scores.people_weights is None:
        values, has_label = scores.scores[head], np.isfinite(scores.people[head])
        sides = [np.isfinite(values) & side for side in (has_label, ~has_label)]
        first, second = (Sample(values[side], scores.clusters[side]) for side in sides)
        apart = difference_of(first, second)
        if apart.p_value is not None and apart.p_value < 0.01 and apart.value is not None:
            side = "lower" if apart.value < 0 else "higher"
            scores.notes.append(
                f"The labelled rows are not like the others: the judge's {head} is "
                f"{number(abs(apart.value))} {side} there. The correction holds for a random sample"
            )
    return labelled


def people_section(
    scores: Scores,
    figures: ReportFigures,
    labelled: Labelled,
    found: Mapping[int, Conversation],
    name: str,
) -> Section:
    """How far the judge is off and agrees with people on the labelled rows, and its calibration."""
    places = sorted(labelled)
    bias: list[Row] = []
    compared = []
    for dimension in ordered(scores, figures):
        if dimension not in scores.people:
            continue
        labels, values = scores.people[dimension], scores.scores[dimension]
        known = np.isfinite(labels) & np.isfinite(values)
        sides = [Sample(side[known], scores.clusters[known]) for side in (labels, values)]
        difference = difference_of(sides[1], sides[0])
        means = [Estimate(float(s.scores.mean()) if known.any() else None) for s in sides]
        share = is_share(scores, dimension)
        bias.append((
            dimension, int(known.sum()), *(shown(scores, dimension, each) for each in means),
            Share(difference, signed=True) if share else difference,
        ))  # fmt: skip
        scale = scores.dimensions[dimension]
        result = evaluate(
            [labelled[place] for place in places],
            [found[place].judgement for place in places],
            dimension,
            set_name=name,
            judge="judge",
            signature=next(iter(scores.signatures)),
            judge_scale=None if dimension in scores.assumed else (scale.low, scale.high),
        )
        compared.append(result.row)
    columns = ["Dimension", "Labelled", "People", "Judge", "Judge minus people"]
    note = "Means over the labelled rows alone; of an issue the judge's mean probability."
    blocks: list[Block] = [Table("How far the judge is off", columns, bias, note)]
    for title, is_issue, metrics in (
        ("Graded: agreement", False, _GRADED),
        ("Issues", True, _ISSUES),
    ):
        rows: list[Row] = [
            (row.dimension, row.scored, *(row.metrics.get(m) for m in metrics),
             row.like_for_like.get(metrics[0]), row.ceiling.get(metrics[0]))
            for row in compared
            if (row.kind == "binary") == is_issue
        ]  # fmt: skip
        if rows:
            heads = (*map(label, metrics), "Judge, like for like", "One person")
            note = (
                "The last two columns compare the judge and one person, each with the other people "
                f"of a row. They need rows with two answers or more, and are {label(metrics[0])}."
            )
            blocks.append(Table(title, ["Dimension", "Rows", *heads], rows, note))
    panels = [calibration_panel(r.dimension, [r], {r.judge: 0}) for r in compared if r.points]
    if panels:
        blocks.append(Figure("Calibration on the labelled rows", panels, "Calibration"))
    return Section("people", "The judge against people", blocks, link="People")
