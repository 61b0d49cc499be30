"""Meta-evaluation: how well one judge agrees with the labels of one set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from medal_judges.eval.metaeval.alignment import Aligned, Joined, infer_kind, join_rows
from medal_judges.eval.metaeval.metrics import (
    Ceiling,
    compute_ceiling,
    compute_metrics,
    headline_metric,
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
    """The metrics of a judge on the dialogues of one language.

    Attributes:
        n: The number of dialogues.
        metrics: Metric, such as ``spearman`` -> estimate.
        ceiling: Metric -> human ceiling: the agreement of one annotator with the others. It has
            only the metric by which judges are ranked.
        like_for_like: Metric -> the judge's agreement with the same annotators. It has the same
            metric as ``ceiling``.
    """

    n: int
    metrics: Estimates
    ceiling: Estimates
    like_for_like: Estimates


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The results of one judge on one set and dimension.

    Attributes:
        judge: The judge's name.
        signature: The judge's name, version and settings as text.
        set_name: The set's name.
        level: What is judged: the whole ``dialogue``, or its last ``turn``.
        dimension: The dimension's name in the set.
        judge_dimension: The judge's name for the dimension.
        kind: ``binary``, ``ordinal`` or ``continuous``.
        n: The number of dialogues or turns with a label.
        scored: The number of labelled dialogues or turns that the judge scored.
        metrics: Metric -> estimate. The metrics are ``f1_present``, ``auc`` and others on a binary
            dimension, otherwise ``spearman`` and others.
        ceiling: Metric -> human ceiling: the agreement of one annotator with the others.
        like_for_like: Metric -> the judge's agreement with the same annotators as in ``ceiling``,
            for comparison with it.
        ceiling_rows: The number of dialogues or turns with two ratings or more, from which
            ``ceiling`` is computed.
        languages: Language, such as ``en`` -> its metrics.
        clusters: What the clusters of the intervals are, such as ``conversation``.
        min_coverage: Pages show no metrics if ``scored / n`` is below this share.
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
        """Returns the name of the metric that ranks judges, such as ``spearman``."""
        return headline_metric(self.kind)

    @property
    def coverage(self) -> float | None:
        """Returns the share of labelled rows that the judge scored. None without rows."""
        return self.scored / self.n if self.n else None

    @property
    def has_low_coverage(self) -> bool:
        """Returns whether ``coverage`` is below ``min_coverage``, so that pages show no metric."""
        return self.coverage is not None and self.coverage < self.min_coverage


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """The results of a judge on a set and dimension, and the data they are computed from.

    Attributes:
        row: The metrics and the human ceiling.
        aligned: The human labels and the judge's scores.
    """

    row: ResultRow
    aligned: Aligned


@dataclass(frozen=True, slots=True)
class SystemAgreement:
    """How well a judge ranks chatbots as people do, on one set and dimension.

    Attributes:
        judge: The judge's name.
        set_name: The set's name.
        level: What is judged: the whole ``dialogue``, or its last ``turn``.
        dimension: The dimension's name in the set.
        systems: The number of chatbots with at least 5 scored dialogues.
        rows: The number of scored dialogues of these chatbots.
        pairwise_accuracy: The share of pairs of chatbots that the judge ranks like people.
    """

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
    """Measures the agreement of a judge with the human labels of ``rows``, on each dimension.

    Args:
        judge: A judge, which scores the rows first. Or its judgements of the rows. Or the return
            value of ``join_rows``.
        rows: The labelled dialogues or turns of a set.
        dimensions: Name of a label -> the judge's name for it, such as ``{"engaging":
            "engagingness"}``. By default, all labels whose name is also a dimension of the judge.
        only: Names of metrics, such as ``spearman``. By default, all metrics and the human ceilings
            are computed.
        intervals: Whether to compute confidence intervals.
        about: Values for fields of the results: ``judge``, ``signature``, ``set_name``,
            ``min_coverage``.

    Returns:
        One result for each dimension.

    Raises:
        MedalError: A judgement is of another row, or two rows or judgements have the same id and
            turn.

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
        kind = infer_kind(joined.rows, dimension)
        ceiling = Ceiling({}, {})
        if not only:
            ceiling = compute_ceiling(aligned, kind)
        languages = {}
        for language, indices in aligned.facts.groupby("lang").indices.items():
            part = aligned.select_rows(indices)
            of_part = Ceiling({}, {})
            if not only:
                of_part = compute_ceiling(part, kind, [headline_metric(kind)])
            metrics = compute_metrics(part, kind, only, intervals)
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
            metrics=compute_metrics(aligned, kind, only, intervals),
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
    """Returns ``rows`` with their judgements. If ``judge`` is a judge, it scores the rows first."""
    if isinstance(judge, Iterable):
        return join_rows(rows, judge)
    scales = {}
    for dimension in judge.dimensions:
        scales[dimension.name] = dimension.low, dimension.high
    is_turn_level = bool(rows) and rows[0].level == "turn"
    judgements = judge.score(
        [row.dialogue for row in rows], level="last" if is_turn_level else "dialogue"
    )
    return join_rows(rows, judgements, scales)


def measure_rank_agreement(evaluations: Iterable[JudgedRows]) -> list[SystemAgreement]:
    """Measures how well each judge ranks chatbots as people do. Chatbots are ranked by their mean
    scores and by their mean labels.

    Args:
        evaluations: The results of judges on sets and dimensions.

    Returns:
        One entry for each result. A result is left out if the judge scored too few rows, or if
        fewer than 3 chatbots have at least 5 scored dialogues.
    """
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
