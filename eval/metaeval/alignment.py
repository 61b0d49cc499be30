"""Alignment: judgements joined with ratings by (id, turn), and a judge's verdicts on an issue
(present or absent) against people's labels. Unscored rows count against coverage.

Figures of verdicts are computed against each annotator and then averaged, as in MEDAL (section
5.3.1), after Finch et al. (2023): a majority vote would hide disagreement between people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from medal_judges.errors import MedalError
from medal_judges.records.dimension import EQUAL
from medal_judges.records.joining import JoinedLabels, ScoreKey, join_labels
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale, mean
from medal_judges.stats.correlation import Floats, Statistic, ratio
from medal_judges.stats.equal import Values, present, tolerance_of
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import Clusters, Lead, choose_clusters

Key = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Rows that both people and the judge scored.

    ``values``: the raw answers of people, shape (rows, annotators), NaN if not given. ``human``:
    their mean, ``score``: the judge's score, both of shape (rows,). ``total``: the number of rows
    with a label, scored or not. ``lead``: whom intervals are for. ``human_tolerance`` and
    ``score_tolerance``: the distances up to which two labels, and two scores, are equal.
    ``notes``: which judgements are of other chats.
    """

    rows: tuple[LabelledDialogue, ...]
    judgements: tuple[Judgement, ...]
    values: Floats
    human: Floats
    score: Floats
    total: int
    lead: Lead = "these"
    human_tolerance: float = 0.0
    score_tolerance: float = 0.0
    notes: Sequence[str] = ()

    @property
    def people(self) -> Values:
        """The means of people's answers."""
        return Values(self.human, self.human_tolerance)

    @property
    def judge(self) -> Values:
        """The judge's scores."""
        return Values(self.score, self.score_tolerance)

    @property
    def chatbots(self) -> list[str | None]:
        return [row.dialogue.chatbot for row in self.rows]

    @property
    def clusters(self) -> Clusters:
        return choose_clusters(self.chatbots, [row.group for row in self.rows], self.lead)

    def part(self, chosen: Iterable[int]) -> Aligned:
        """Returns a selection of the rows; ``total`` becomes their number."""
        index = [int(i) for i in chosen]
        return replace(
            self,
            rows=tuple(self.rows[i] for i in index),
            judgements=tuple(self.judgements[i] for i in index),
            values=self.values[index],
            human=self.human[index],
            score=self.score[index],
            total=len(index),
        )

    def shared(self, other: Aligned) -> tuple[Aligned, Aligned]:
        """Returns the rows that both have, in this order: first with this judge's scores, then with
        those of ``other``."""
        at = {(row.id, row.turn): j for j, row in enumerate(other.rows)}
        keys = [(row.id, row.turn) for row in self.rows]
        mine = self.part(i for i, key in enumerate(keys) if key in at)
        return mine, other.part(at[key] for key in keys if key in at)


def align(
    rows: Iterable[LabelledDialogue],
    judgements: Iterable[Judgement],
    dimension: str,
    judge_dimension: str | None = None,
    *,
    left_out: Iterable[LabelledDialogue] = (),
    lead: Lead = "these",
    judge_scale: Scale | None = None,
) -> Aligned:
    """Joins ``rows`` that have a label of ``dimension`` with the judge's ``judge_dimension``, see
    own_judgements.

    A row without a judgement, or with an unscored one, counts against coverage; one whose judgement
    is of another chat is left out. ``left_out``: rows that were judged but are not part of this
    set. ``judge_scale``: the lowest and highest score of the judge. Raises MedalError for
    judgements of other rows, and for two rows or judgements of one (id, turn).
    """
    listed = list(rows)
    judgements, joined = own_judgements(listed, list(judgements))
    notes = joined.notes("the set")
    other = {(row.id, row.turn) for row in joined.of_other_chats}
    keys = Counter((row.id, row.turn) for row in listed)
    if twice := [key for key, count in keys.items() if count > 1]:
        raise MedalError(f"rows that occur twice in the set: {_names(twice)}")
    ignored = {(row.id, row.turn) for row in left_out}
    turn_of = {row.id: row.turn for row in listed}
    judged: dict[Key, Judgement] = {}
    unknown: list[Key] = []
    for judgement in judgements:
        key = (judgement.id, judgement.turn)
        unscored = all(value is None for value in judgement.scores.values())
        if key not in keys and judgement.turn is None and unscored:
            # A row of level turn without an assistant turn is unscored, without a turn.
            key = (judgement.id, turn_of.get(judgement.id))
        if key in judged:
            raise MedalError(f"two judgements of {_names([key])}")
        if key in keys:
            judged[key] = judgement
        elif key not in ignored:
            unknown.append(key)
    if unknown:
        raise MedalError(
            f"{len(unknown)} judgements of rows that are not in the set: {_names(unknown)}",
            hint="was another file judged, or another level? (turn-level sets: medal score --level "
            "last)",
        )
    scored: list[LabelledDialogue] = []
    found: list[tuple[Judgement, float, float]] = []
    total = 0
    for row in listed:
        rating = row.rating(dimension)
        human = None if rating is None else mean(rating)
        if human is None or (row.id, row.turn) in other:
            continue
        total += 1
        if (one := judged.get((row.id, row.turn))) is not None:
            score = one.scores.get(judge_dimension or dimension)
            if score is not None:
                scored.append(row)
                found.append((one, human, float(score)))
    labels = np.array([human for _, human, _ in found], dtype=np.float64)
    scores = np.array([score for *_, score in found], dtype=np.float64)
    return Aligned(
        tuple(scored),
        tuple(judgement for judgement, *_ in found),
        answer_matrix(scored, dimension),
        labels,
        scores,
        total,
        lead,
        human_tolerance=tolerance_of(common_scale(scored, dimension), labels),
        score_tolerance=tolerance_of(judge_scale, scores),
        notes=notes,
    )


def common_scale(rows: Iterable[LabelledDialogue], dimension: str) -> Scale | None:
    """Returns the scale of the labels of ``dimension``; None if rows state several, or none."""
    scales = {row.scales.get(dimension) for row in rows if dimension in row.labels}
    return scales.pop() if len(scales) == 1 else None


def own_judgements(
    rows: Sequence[LabelledDialogue], judgements: Sequence[Judgement]
) -> tuple[list[Judgement], JoinedLabels]:
    """Returns the judgements under the ids of their rows, without those of other chats than the
    rows of their ids, and how they were joined."""
    keys = [ScoreKey(judgement.id, judgement.turn, judgement.chat) for judgement in judgements]
    joined = join_labels(rows, keys, lambda label, score: label.turn == score.turn)
    row_of = {}
    for row, places in zip(rows, joined.score_rows, strict=True):
        row_of.update(dict.fromkeys(places, row))
    in_set = {(row.id, row.turn) for row in rows}
    own = []
    for place, judgement in enumerate(judgements):
        if place in row_of:
            own.append(replace(judgement, id=row_of[place].id))
        elif (judgement.id, judgement.turn) not in in_set:
            own.append(judgement)
    return own, joined


def answer_matrix(rows: Sequence[LabelledDialogue], dimension: str) -> Floats:
    """Returns the raw answers of people, shape (rows, annotators), NaN if not given."""
    if not rows:
        return np.full((0, 1), np.nan)
    columns = list(zip_longest(*(row.labels[dimension] for row in rows)))
    values: Floats = np.array(columns, dtype=np.float64).reshape(-1, len(rows)).T
    return values


def _names(keys: Sequence[Key]) -> str:
    shown = [id if turn is None else f"{id} (turn {turn})" for id, turn in keys[:5]]
    return ", ".join(shown) + (", ..." if len(keys) > 5 else "")


_REASONS = {
    "f1_present": "neither labels nor judge ever say present",
    "f1_absent": "neither labels nor judge ever say absent",
    "precision": "the judge never says present",
    "recall": "the labels never say present",
    "accuracy": "no labels",
}
METRICS = tuple(_REASONS)


_LABELS = {
    "spearman": "Spearman ρ",
    "pearson": "Pearson r",
    "kendall": "Kendall τ-b",
    "pairwise": "Pairs right",
    "within_system": "ρ within chatbots",
    "f1_present": "F1+",
    "f1_absent": "F1−",
    "precision": "Precision",
    "recall": "Recall",
    "accuracy": "Accuracy",
}


def label(metric: str) -> str:
    """Name of a metric in a table head."""
    return _LABELS.get(metric, metric.replace("_", " "))


def classification(score: Floats, labels: Floats) -> dict[str, Estimate]:
    """Returns F1+ (``f1_present``), F1- (``f1_absent``), precision, recall and accuracy, each a
    mean over annotators.

    ``score``: probabilities of label 1, shape (rows,). ``labels``: 0 or 1, shape (rows,
    annotators), NaN if not given; a released vote or mean is present from 0.5 on. The mean skips
    annotators against whom a figure is 0/0; it is None if that holds for all of them.
    """
    if reason := not_classifiable(score, labels):
        return undefined(METRICS, reason)
    values = classification_statistic(score, labels)(np.ones((1, len(score))))
    return {
        name: Estimate(float(values[name][0]))
        if np.isfinite(values[name][0])
        else Estimate(None, reason=_REASONS[name])
        for name in METRICS
    }


def not_classifiable(score: Floats, labels: Floats) -> str | None:
    """Returns why F1 and the like cannot be computed, or None if they can."""
    if not np.isfinite(labels).any():
        return "no labels"
    if score.min() < -EQUAL or score.max() > 1 + EQUAL:
        return "the judge's scores are not probabilities"
    return None


def classification_statistic(score: Floats, labels: Floats) -> Statistic:
    """Returns a function of row weights that computes the figures of ``classification``."""
    cells = confusion_cells(score, labels)

    def statistic(weights: Floats) -> dict[str, Floats]:
        tp, fp, fn, tn = (weights @ cell for cell in cells.values())
        metrics = {
            "f1_present": ratio(2 * tp, 2 * tp + fp + fn),
            "f1_absent": ratio(2 * tn, 2 * tn + fp + fn),
            "precision": ratio(tp, tp + fp),
            "recall": ratio(tp, tp + fn),
            "accuracy": ratio(tp + tn, tp + fp + fn + tn),
        }
        return {
            name: ratio(np.where(np.isfinite(v), v, 0.0).sum(axis=1), np.isfinite(v).sum(axis=1))
            for name, v in metrics.items()
        }

    return statistic


def confusion_cells(score: Floats, labels: Floats) -> dict[str, Floats]:
    """Returns 0/1 indicators of tp, fp, fn and tn, shape (rows, annotators). Annotators without an
    answer are left out."""
    labels = labels[:, np.isfinite(labels).any(axis=0)]
    given = np.isfinite(labels)
    people, judge = present(labels), present(score)[:, None]
    cells = {
        "tp": people & judge,
        "fp": ~people & judge,
        "fn": people & ~judge,
        "tn": ~people & ~judge,
    }
    return {name: (cell & given).astype(np.float64) for name, cell in cells.items()}
