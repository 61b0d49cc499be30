"""How well a judge agrees with the labels of held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from medal_judges.models.card.writer import METRICS
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.report.table import Table
from medal_judges.stats.intervals import Estimate
from medal_judges.storage.files import read_json_if_there

if TYPE_CHECKING:  # the table of a command needs no torch
    from medal_judges.eval.metaeval.metaeval import ResultRow
    from medal_judges.models.base.judge import Judge
    from medal_judges.records.dimension import Dimension
    from medal_judges.training.config import TrainConfig
    from medal_judges.training.rows import RunRows, TrainingExample

AGREEMENT_NAME = "agreement.json"
ANSWERED_ROWS = 200
COLUMNS = ("part", "source", "dimension", "n", "missed")
# The names of METRICS by the name in eval/metaeval.
_METRICS = {"spearman": "spearmanr", "auc": "roc_auc"}
Record = dict[str, Any]


def measure_agreement(
    judge: Judge,
    rows: RunRows,
    config: TrainConfig,
) -> list[Record]:
    """Measures how well the scores of ``judge`` agree with people's labels of validation and test
    rows.

    A judge that generates answers scores at most 200 rows of each set, drawn with the seed in
    ``config``.

    Args:
        rows: The labelled dialogues of the run.

    Returns:
        One record for each set, data source, dimension and language, such as ``{"part": "test",
            "source": "rated.jsonl", "dimension": "overall", "lang": "en", "metric": "spearmanr",
            "n": 180, "missed": 2, "value": 0.6, "low": 0.5, "high": 0.7}``. ``missed`` counts rows
            without a score. ``low`` and ``high`` bound the 95% interval. If ``value`` is None,
            ``reason`` says why.
    """
    from medal_judges.eval.metaeval.metaeval import evaluate

    records: list[Record] = []
    for part in ("validation", "test"):
        examples: list[TrainingExample] = getattr(rows, part)
        if judge.language_models() and len(examples) > ANSWERED_ROWS:
            order = np.random.default_rng(config.seed).permutation(len(examples))
            chosen = sorted(order[:ANSWERED_ROWS].tolist())
            examples = [examples[row] for row in chosen]
        for source in dict.fromkeys(example.source for example in examples):
            rated: list[LabelledDialogue] = []
            for example in examples:
                if example.source == source:
                    rated.append(
                        _labelled_for_evaluation(
                            str(len(rated)), example, judge.dimensions
                        )
                    )
            judgements = list(judge.score(row.dialogue for row in rated))
            names: dict[str, str] = {}
            for row in rated:
                names |= {
                    rating.dimension: rating.dimension for rating in row.ratings()
                }
            for result in evaluate(judgements, rated, names, only=tuple(_METRICS)):
                about = {"part": part, "source": Path(source).name}
                records += [about | record for record in _language_records(result.row)]
    return records


def _labelled_for_evaluation(
    id: str,
    example: TrainingExample,
    dimensions: Sequence[Dimension],
) -> LabelledDialogue:
    """Returns ``example`` with the new id ``id`` and with people's ratings of ``dimensions``. The
    rating of a binary dimension becomes 1 from 0.5 on, otherwise 0."""
    labels: dict[str, tuple[float | None, ...]] = {}
    scales: dict[str, Scale | None] = {}
    for dimension in dimensions:
        name = dimension.name
        if name not in example.human:
            continue
        labels[name], scales[name] = (example.human[name],), None
        if dimension.kind == "binary":
            labels[name] = (float(example.human[name] >= 0.5),)
            scales[name] = (0.0, 1.0)
    # Several examples from one conversation can have the same id.
    dialogue = replace(example.dialogue, id=id)
    return LabelledDialogue(dialogue, labels, scales, group=example.group)


def _language_records(row: ResultRow) -> Iterator[Record]:
    """Yields a record for each language of how well a judge agrees with people on one dimension.

    Args:
        row: The agreement on the dimension. If it has several languages, the first record covers
            all of them together.
    """
    parts = {"all": (row.scored, row.n - row.scored, row.metrics)}
    for lang, of_language in row.languages.items():
        parts[lang] = (of_language.n, 0, of_language.metrics)
    if len(row.languages) == 1:
        (lang,) = row.languages
        parts = {lang: parts["all"]}
    for lang, (n, missed, metrics) in parts.items():
        ((metric, estimate),) = metrics.items()
        yield {
            "dimension": row.dimension,
            "metric": _METRICS[metric],
            "lang": lang,
            "n": n,
            "missed": missed,
            "value": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "reason": estimate.reason,
        }


def agreement_table(folder: Path) -> Table | None:
    """Returns a table for the user of how well the judge in ``folder`` agrees with people. It has a
    line for each held-out set, data source and dimension. Returns None if no agreement was
    measured."""
    records = pd.DataFrame(
        read_json_if_there(folder / AGREEMENT_NAME, []), dtype=object
    )
    if records.empty:
        return None
    # The record ``all`` of a set stands before those of its languages.
    records = records.drop_duplicates(["part", "source", "dimension"])
    lines = []
    for record in records.to_dict("records"):
        value, low, high = record["value"], record["low"], record["high"]
        estimate = Estimate(value, low, high, reason=record["reason"])
        about = [record[column] for column in COLUMNS]
        lines.append([*about, METRICS[record["metric"]], estimate])
    return Table(
        "Agreement with the labels of held-out rows",
        [*COLUMNS, "statistic", "value"],
        lines,
        note="95% intervals hold for new dialogues with these chatbots. medal benchmark compares "
        "the judge with untrained baselines.",
    )
