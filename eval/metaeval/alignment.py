"""Alignment: judgements joined with ratings by (id, turn), and a judge's verdicts on an issue
(present or absent) against people's labels. Unscored rows count against coverage.

Figures of verdicts are computed against each annotator and then averaged, as in MEDAL (section
5.3.1), after Finch et al. (2023): a majority vote would hide disagreement between people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
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
from medal_judges.stats.estimate import Estimate, defined, undefined
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
        return choose_clusters(
            self.chatbots, [row.group for row in self.rows], self.lead
        )

    def part(self, indices: Iterable[int]) -> Aligned:
        """Returns a selection of the rows; ``total`` becomes their number."""
        index = list(map(int, indices))
        return replace(
            self,
            rows=tuple(self.rows[i] for i in index),
            judgements=tuple(self.judgements[i] for i in index),
            values=self.values[index],
            human=self.human[index],
            score=self.score[index],
            total=len(index),
        )

    def shared(self, second: Aligned) -> tuple[Aligned, Aligned]:
        """Returns the rows that both have, in this order: first with this judge's scores, then with
        those of ``second``."""
        indices_of_second = {_key(row): i for i, row in enumerate(second.rows)}
        indices, second_indices = [], []
        for i, row in enumerate(self.rows):
            if _key(row) in indices_of_second:
                indices.append(i)
                second_indices.append(indices_of_second[_key(row)])
        return self.part(indices), second.part(second_indices)


def _key(row: LabelledDialogue | Judgement) -> Key:
    return row.id, row.turn


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
    rows = list(rows)
    judgements, joined = own_judgements(rows, list(judgements))
    repeated = [key for key, count in Counter(map(_key, rows)).items() if count > 1]
    if repeated:
        raise MedalError(f"rows that occur twice in the set: {_names(repeated)}")
    judgement_of = _by_row(rows, judgements, set(map(_key, left_out)))
    of_other_chats = set(map(_key, joined.of_other_chats))
    scored_rows: list[LabelledDialogue] = []
    scored_judgements: list[Judgement] = []
    labels: list[float] = []
    scores: list[float] = []
    total = 0
    for row in rows:
        rating = row.rating(dimension)
        if rating is None or _key(row) in of_other_chats:
            continue
        label = mean(rating)
        if label is None:
            continue
        total += 1
        judgement = judgement_of.get(_key(row))
        if judgement is None:
            continue
        score = judgement.scores.get(judge_dimension or dimension)
        if score is not None:
            scored_rows.append(row)
            scored_judgements.append(judgement)
            labels.append(label)
            scores.append(score)
    human, judge = (
        np.array(labels, dtype=np.float64),
        np.array(scores, dtype=np.float64),
    )
    return Aligned(
        tuple(scored_rows),
        tuple(scored_judgements),
        answer_matrix(scored_rows, dimension),
        human,
        judge,
        total,
        lead,
        human_tolerance=tolerance_of(common_scale(scored_rows, dimension), human),
        score_tolerance=tolerance_of(judge_scale, judge),
        notes=joined.notes("the set"),
    )


def _by_row(
    rows: Sequence[LabelledDialogue],
    judgements: Sequence[Judgement],
    ignored: Container[Key],
) -> dict[Key, Judgement]:
    """Returns the judgement of each row, without those of ``ignored`` rows. Raises MedalError for
    judgements of other rows, and for two judgements of a row."""
    turn_of = {row.id: row.turn for row in rows}
    keys = set(map(_key, rows))
    judgement_of: dict[Key, Judgement] = {}
    unknown: list[Key] = []
    for judgement in judgements:
        key = _key(judgement)
        is_unscored = all(score is None for score in judgement.scores.values())
        if key not in keys and judgement.turn is None and is_unscored:
            # A row of level turn without an assistant turn is unscored, without a turn.
            key = (judgement.id, turn_of.get(judgement.id))
        if key in judgement_of:
            raise MedalError(f"two judgements of {_names([key])}")
        if key in keys:
            judgement_of[key] = judgement
        elif key not in ignored:
            unknown.append(key)
    if unknown:
        raise MedalError(
            f"{len(unknown)} judgements of rows that are not in the set: {_names(unknown)}",
            hint="was another file judged, or another level? (turn-level sets: medal score --level "
            "last)",
        )
    return judgement_of


def common_scale(rows: Iterable[LabelledDialogue], dimension: str) -> Scale | None:
    """Returns the scale of the labels of ``dimension``; None if rows state several, or none."""
    scales = {row.scales.get(dimension) for row in rows if dimension in row.labels}
    if len(scales) == 1:
        return scales.pop()
    return None


def own_judgements(
    rows: Sequence[LabelledDialogue], judgements: Sequence[Judgement]
) -> tuple[list[Judgement], JoinedLabels]:
    """Returns the judgements under the ids of their rows, without those of other chats than the
    rows of their ids, and how they were joined."""
    keys = [
        ScoreKey(judgement.id, judgement.turn, judgement.chat)
        for judgement in judgements
    ]
    joined = join_labels(rows, keys, lambda label, score: label.turn == score.turn)
    row_of: dict[int, LabelledDialogue] = {}
    for row, indices in zip(rows, joined.score_rows, strict=True):
        row_of |= dict.fromkeys(indices, row)
    in_set = set(map(_key, rows))
    of_rows = []
    for i, judgement in enumerate(judgements):
        if i in row_of:
            of_rows.append(replace(judgement, id=row_of[i].id))
        elif _key(judgement) not in in_set:
            of_rows.append(judgement)
    return of_rows, joined


def answer_matrix(rows: Sequence[LabelledDialogue], dimension: str) -> Floats:
    """Returns the raw answers of people, shape (rows, annotators), NaN if not given."""
    if not rows:
        return np.full((0, 1), np.nan)
    columns = list(zip_longest(*(row.labels[dimension] for row in rows)))
    values: Floats = np.array(columns, dtype=np.float64).reshape(-1, len(rows)).T
    return values


def _names(keys: Sequence[Key]) -> str:
    names = []
    for id, turn in keys[:5]:
        name = id
        if turn is not None:
            name += f" (turn {turn})"
        names.append(name)
    if len(keys) > 5:
        names.append("...")
    return ", ".join(names)


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
    reason = not_classifiable(score, labels)
    if reason is not None:
        return undefined(METRICS, reason)
    values = classification_statistic(score, labels)(np.ones((1, len(score))))
    estimates = {}
    for name, reason in _REASONS.items():
        estimates[name] = defined(float(values[name][0]), reason)
    return estimates


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
        means = {}
        for name, by_annotator in metrics.items():
            count = np.isfinite(by_annotator).sum(axis=1)
            means[name] = ratio(np.nansum(by_annotator, axis=1), count)
        return means

    return statistic


def confusion_cells(score: Floats, labels: Floats) -> dict[str, Floats]:
    """Returns 0/1 indicators of tp, fp, fn and tn, shape (rows, annotators). Annotators without an
    answer are left out."""
    labels = labels[:, np.isfinite(labels).any(axis=0)]
    is_answered = np.isfinite(labels)
    people, judge = present(labels), present(score)[:, None]
    cells = {
        "tp": people & judge,
        "fp": ~people & judge,
        "fn": people & ~judge,
        "tn": ~people & ~judge,
    }
    return {
        name: (cell & is_answered).astype(np.float64) for name, cell in cells.items()
    }
