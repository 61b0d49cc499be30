"""Meta-evaluation: one judge on one set, from judgements and ratings only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from medal_judges.eval.metaeval.alignment import Aligned, Joined, join, kind_of
from medal_judges.eval.metaeval.metrics import (
    Ceiling,
    ceiling_of,
    headline_metric,
    metrics_of,
)
from medal_judges.records.dimension import Kind
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.intervals import Estimate
from medal_judges.stats.system_agreement import MIN_ROWS, MIN_SYSTEMS, pairwise_accuracy

if TYPE_CHECKING:
    from medal_judges.models.base.judge import Judge

Estimates = Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class LanguageResult:
    """The metrics of a judge on the ``n`` rows of one language. ``ceiling`` and ``like_for_like``
    have only the metric that ranks judges."""

    n: int
    metrics: Estimates
    ceiling: Estimates
    like_for_like: Estimates


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The results of one judge on one set and dimension.

    ``metrics``: ``spearman``, ``pearson``, ``kendall``, ``pairwise`` and ``within_system``, or for
    issues ``f1_present``, ``f1_absent``, ``precision``, ``recall``, ``accuracy`` and ``auc``.
    ``ceiling``: the human ceiling, which is the agreement of one annotator with the other
    annotators. ``like_for_like``: the agreement of the judge with the same other annotators, which
    can be compared with the ceiling. Both are computed on the ``ceiling_rows`` rows with two
    answers or more.

    ``judge_dimension``: the judge's name for ``dimension``. ``n``: the number of rows with a label.
    ``scored``: the number of labelled rows with a score. If ``scored / n`` is below
    ``min_coverage``, no metric is shown. ``clusters``: the kind of cluster that the jackknife
    leaves out.
    """

    judge: str
    signature: str
    set_name: str
    level: str
    dimension: str
    judge_dimension: str
    kind: Kind
    n: int
    scored: int
    metrics: Estimates
    ceiling: Estimates = field(default_factory=dict)
    like_for_like: Estimates = field(default_factory=dict)
    ceiling_rows: int = 0
    languages: Mapping[str, LanguageResult] = field(default_factory=dict)
    clusters: str = ""
    min_coverage: float = 0.98

    @property
    def headline(self) -> str:
        """Returns the name of the metric that ranks judges on this dimension."""
        return headline_metric(self.kind)

    @property
    def coverage(self) -> float | None:
        """Returns the share of labelled rows that the judge scored. None without rows."""
        return self.scored / self.n if self.n else None

    @property
    def has_low_coverage(self) -> bool:
        """Returns whether coverage is below the minimum, so that no metric is shown."""
        return self.coverage is not None and self.coverage < self.min_coverage


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """The results of a judge on a set and dimension, and the labels and scores that they are
    computed from."""

    row: ResultRow
    aligned: Aligned


@dataclass(frozen=True, slots=True)
class SystemAgreement:
    """How well a judge orders chatbots as people do, on one set and dimension. ``systems``: the
    number of chatbots with 5 scored rows or more. ``rows``: the number of their rows."""

    judge: str
    set_name: str
    level: str
    dimension: str
    systems: int
    rows: int
    pairwise_accuracy: Estimate


def evaluate(
    judge: Judge | Iterable[Judgement] | Joined,
    rows: Sequence[LabelledDialogue],
    dimensions: Mapping[str, str] | None = None,
    /,
    *,
    only: Sequence[str] = (),
    intervals: bool = True,
    **about: Any,
) -> list[JudgedRows]:
    """Returns the agreement of a judge with the labels of ``rows``, one result for each dimension.

    ``judge``: a Judge, which then scores the rows. It may also be the judge's judgements, or the
    result of ``join``. ``dimensions``: maps each dimension of the rows to the judge's name for it
    (default: all that both have under the same name). ``only``: the metrics to compute, without
    human ceilings (default: all, with ceilings). ``intervals``: whether metrics have intervals.
    ``about``: further fields of ResultRow (``judge``, ``signature``, ``set_name``,
    ``min_coverage``).

    The label of a row is the mean over annotators. F1 is computed against each annotator. Raises
    MedalError for judgements of other rows, and if two rows or two judgements have the same (id,
    turn).

    >>> from medal_judges import Judge, read_labelled
    >>> rows = list(read_labelled("labelled.jsonl"))
    >>> (result,) = evaluate(Judge.from_pretrained("length"), rows, {"overall": "overall"})
    >>> result.row.n, result.row.coverage
    (12, 1.0)
    """
    joined = judge if isinstance(judge, Joined) else _score_and_join(judge, rows)
    if dimensions is None:
        scored: set[str] = set()
        for judgement in filter(None, joined.judgements):
            scored.update(judgement.scores)
        labelled = dict.fromkeys(name for row in joined.rows for name in row.labels)
        dimensions = {name: name for name in labelled if name in scored}
    level = rows[0].level if rows else "dialogue"
    facts = {"judge": "", "signature": "", "set_name": "", "level": level} | about
    results = []
    for dimension, judge_dimension in dimensions.items():
        aligned = joined.align(dimension, judge_dimension)
        kind = kind_of(joined.rows, dimension)
        ceiling = Ceiling({}, {})
        if not only:
            ceiling = ceiling_of(aligned, kind)
        languages = {}
        for language, indices in aligned.facts.groupby("lang").indices.items():
            part = aligned.select_rows(indices)
            of_part = Ceiling({}, {})
            if not only:
                of_part = ceiling_of(part, kind, [headline_metric(kind)])
            metrics = metrics_of(part, kind, only, intervals)
            languages[str(language)] = LanguageResult(
                len(indices), metrics, of_part.person, of_part.like_for_like
            )
        row = ResultRow(
            **facts,
            dimension=dimension,
            judge_dimension=judge_dimension,
            kind=kind,
            n=aligned.total,
            scored=len(aligned.facts),
            metrics=metrics_of(aligned, kind, only, intervals),
            ceiling=ceiling.person,
            like_for_like=ceiling.like_for_like,
            ceiling_rows=ceiling.rows,
            languages=languages,
            clusters=aligned.clusters.unit,
        )
        results.append(JudgedRows(row, aligned))
    return results


def _score_and_join(
    judge: Judge | Iterable[Judgement], rows: Sequence[LabelledDialogue]
) -> Joined:
    """Returns ``rows`` joined with the judgements of ``judge``. If ``judge`` is a judge, it first
    scores the rows."""
    if isinstance(judge, Iterable):
        return join(rows, judge)
    scales = {}
    for dimension in judge.dimensions:
        scales[dimension.name] = dimension.low, dimension.high
    is_turn_level = bool(rows) and rows[0].level == "turn"
    judgements = judge.score(
        [row.dialogue for row in rows], level="last" if is_turn_level else "dialogue"
    )
    return join(rows, judgements, scales)


def system_agreements(evaluations: Iterable[JudgedRows]) -> list[SystemAgreement]:
    """Returns how well judges order chatbots, for each of ``evaluations`` (a judge on a set and
    dimension) with at least 3 chatbots and enough coverage. Chatbots with fewer than 5 scored rows
    do not count."""
    agreements = []
    for judged_rows in evaluations:
        row, aligned = judged_rows.row, judged_rows.aligned
        sizes = aligned.facts.chatbot.value_counts()
        names = sorted(sizes.index[sizes >= MIN_ROWS])
        if len(names) < MIN_SYSTEMS or row.has_low_coverage:
            continue
        # The number of the chatbot of each row, -1 for chatbots with few rows.
        systems = pd.Index(names).get_indexer(aligned.facts.chatbot)
        indices = np.flatnonzero(systems >= 0)
        accuracy = pairwise_accuracy(
            aligned.people[indices], aligned.judge[indices], systems[indices]
        )
        agreement = SystemAgreement(
            row.judge,
            row.set_name,
            row.level,
            row.dimension,
            len(names),
            len(indices),
            accuracy,
        )
        agreements.append(agreement)
    return agreements
