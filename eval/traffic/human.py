"""People's labels on a sample of the rows: what they correct, and how far the judge agrees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medal_judges.errors import DataError, did_you_mean
from medal_judges.eval.metaeval.metaeval import ComparedDimension, evaluate
from medal_judges.eval.metaeval.results import ResultRow
from medal_judges.eval.page.plots import calibration_panel
from medal_judges.eval.traffic.figures import TrafficFigures
from medal_judges.eval.traffic.reading import mark_of
from medal_judges.eval.traffic.tables import is_share, ordered, shown
from medal_judges.eval.traffic.traffic import Traffic
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import mean, rescale
from medal_judges.report.figure import Figure
from medal_judges.report.numbers import label, number
from medal_judges.report.page import Block, Section
from medal_judges.report.table import Row, Share, Table
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.means import Sample, difference_of
from medal_judges.stats.weights import choose_weights, curation_weight

METRICS = {
    "ordinal": ("spearman", "pearson"),
    "continuous": ("spearman", "pearson"),
    "binary": ("f1_present", "precision", "recall"),
}
_LIKE_FOR_LIKE = ("Judge, like for like", "One person")
_NOTE = (
    "The last two columns compare: judge and one person, each against the other people of a row; "
    "they need rows with two answers or more, and are of"
)


@dataclass(frozen=True, slots=True)
class PeopleSample:
    """Rows that people labelled and the judge was asked about: ``labelled`` by row of the traffic.
    ``unmatched`` counts labelled rows that are not among the scores, ``other`` are dimensions of
    the labels that the judge does not have."""

    name: str
    labelled: Mapping[int, LabelledDialogue]
    unmatched: int
    other: Sequence[str]


def match_people(name: str, rows: Iterable[LabelledDialogue], traffic: Traffic) -> PeopleSample:
    """The labelled rows by their place in the traffic: same id, and same turn where turns are
    judged. Raises DataError where none is there, or no dimension is both judged and labelled."""
    listed = list(rows)
    wanted: dict[tuple[int, int], LabelledDialogue] = {}
    for row in listed:
        wanted[mark_of(row.id), -1 if row.turn is None else row.turn] = row
    marks = np.array([mark for mark, _ in wanted], dtype=np.int64)
    found: dict[int, LabelledDialogue] = {}
    for place in np.flatnonzero(np.isin(traffic.marks, marks)).tolist():
        match = wanted.get((int(traffic.marks[place]), int(traffic.turns[place])))
        if match is not None:
            found[place] = match
    if not found:
        hint = "labels belong to scored rows by their id, and turn for turn"
        raise DataError(name, None, "none of its rows is among the scores", hint=hint)
    names = dict.fromkeys(name for row in found.values() for name in row.labels)
    if not any(each in traffic.dimensions for each in names):
        first = next(iter(names), "")
        near = did_you_mean(first, traffic.dimensions)
        raise DataError(
            name, None, f"people labelled {', '.join(names) or 'nothing'}, which was not judged",
            hint=f"{near}the scores have: {', '.join(traffic.dimensions)}",
        )  # fmt: skip
    other = [each for each in names if each not in traffic.dimensions]
    return PeopleSample(name, found, len(listed) - len(found), other)


def with_people(traffic: Traffic, sample: PeopleSample) -> Traffic:
    """The traffic with the mean label of each labelled row, put on the judge's scale."""
    people: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for place, row in sample.labelled.items():
        for rating in row.ratings():
            value, dimension = mean(rating), traffic.dimensions.get(rating.dimension)
            if value is None or dimension is None:
                continue
            scale = dimension.low, dimension.high
            assumed = dimension.name in traffic.assumed
            if rating.scale is not None and not assumed:
                value = rescale(value, rating.scale, scale)
            elif not assumed and not scale[0] <= value <= scale[1]:
                raise DataError(
                    sample.name, None,
                    f"{row.id}: {dimension.name} {value:g} lies outside the judge's scale from "
                    f"{scale[0]:g} to {scale[1]:g}",
                    hint='state the scale of the labels: "scales": {"NAME": [lowest, highest]}',
                )  # fmt: skip
            column = people.setdefault(dimension.name, np.full(traffic.rows, math.nan))
            column[place] = value
    labelled = list(sample.labelled.values())
    weights = None
    if choose_weights(labelled, "curation", sample.name) == "curation":
        weights = np.zeros(traffic.rows)
        for place, row in sample.labelled.items():
            weights[place] = curation_weight(row)
    return replace(traffic, people=people, people_weights=weights)


def people_notes(traffic: Traffic, sample: PeopleSample) -> list[str]:
    """What a reader has to know of the sample."""
    notes = [
        f"People labelled {len(sample.labelled):,} of {traffic.rows:,} {traffic.unit}s "
        f"({sample.name})"
    ]
    if sample.unmatched:
        notes.append(f"{sample.unmatched:,} labelled rows are not among the scores: left out")
    if sample.other:
        notes.append(f"People also labelled what was not judged: {', '.join(sample.other)}")
    if missing := [name for name in traffic.dimensions if name not in traffic.people]:
        notes.append(f"People did not label {', '.join(missing)}: not corrected")
    head = traffic.headline
    if head is not None and head in traffic.people and traffic.people_weights is None:
        apart = _drawn_apart(traffic, head)
        if apart.p_value is not None and apart.p_value < 0.01 and apart.value is not None:
            side = "lower" if apart.value < 0 else "higher"
            notes.append(
                f"The labelled rows are not like the others: the judge's {head} is "
                f"{number(abs(apart.value))} {side} there. The correction holds for rows drawn at "
                "random"
            )
    return notes


def _drawn_apart(traffic: Traffic, name: str) -> Estimate:
    """The judge's mean of the labelled rows minus that of the others."""
    scores, labelled = traffic.scores[name], np.isfinite(traffic.people[name])
    sides = [np.isfinite(scores) & side for side in (labelled, ~labelled)]
    first, second = (Sample(scores[side], traffic.clusters[side]) for side in sides)
    return difference_of(first, second)


def agreement_section(
    traffic: Traffic,
    figures: TrafficFigures,
    sample: PeopleSample,
    judgements: Mapping[int, Judgement],
) -> Section:
    """How far the judge agrees with people on the labelled rows, and its calibration there."""
    rows = [
        _result(traffic, sample, judgements, name)
        for name in ordered(traffic, figures)
        if name in traffic.people
    ]
    panels = [calibration_panel(row.dimension, [row], {row.judge: 0}) for row in rows if row.points]
    blocks: list[Block] = [_bias_table(traffic, figures), *_agreement_tables(rows)]
    if panels:
        blocks.append(Figure("Calibration on the labelled rows", panels, "Calibration"))
    return Section("people", "The judge against people", blocks, link="People")


def _result(
    traffic: Traffic, sample: PeopleSample, judgements: Mapping[int, Judgement], name: str
) -> ResultRow:
    places = sorted(sample.labelled)
    rows = [sample.labelled[place] for place in places]
    dimension = traffic.dimensions[name]
    return evaluate(
        rows,
        [judgements[place] for place in places],
        ComparedDimension(sample.name, name),
        judge="judge",
        signature=next(iter(traffic.signatures)),
        judge_scale=None if name in traffic.assumed else (dimension.low, dimension.high),
    ).row


def _bias_table(traffic: Traffic, figures: TrafficFigures) -> Table:
    rows: list[Row] = []
    for name in ordered(traffic, figures):
        if name not in traffic.people:
            continue
        labels, scores = traffic.people[name], traffic.scores[name]
        kept = np.isfinite(labels) & np.isfinite(scores)
        people = Sample(labels[kept], traffic.clusters[kept])
        judge = Sample(scores[kept], traffic.clusters[kept])
        difference = difference_of(judge, people)
        means = [Estimate(float(s.scores.mean()) if kept.any() else None) for s in (people, judge)]
        rows.append((
            name, int(kept.sum()), *(shown(traffic, name, e) for e in means),
            Share(difference, signed=True) if is_share(traffic, name) else difference,
        ))  # fmt: skip
    note = "Means over the labelled rows alone; of an issue the judge's mean probability."
    columns = ["Dimension", "Labelled", "People", "Judge", "Judge minus people"]
    return Table("How far the judge is off", columns, rows, note)


def _agreement_tables(rows: Sequence[ResultRow]) -> list[Table]:
    tables = []
    for title, kinds in (("Graded: agreement", ("ordinal", "continuous")), ("Issues", ("binary",))):
        listed = [row for row in rows if row.kind in kinds]
        if not listed:
            continue
        metrics = METRICS[kinds[0]]
        body: list[Row] = [
            (row.dimension, row.scored, *(row.metrics.get(m) for m in metrics),
             row.like_for_like.get(metrics[0]), row.ceiling.get(metrics[0]))
            for row in listed
        ]  # fmt: skip
        columns = ["Dimension", "Rows", *map(label, metrics), *_LIKE_FOR_LIKE]
        tables.append(Table(title, columns, body, f"{_NOTE} {label(metrics[0])}."))
    return tables
