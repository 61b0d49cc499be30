"""How well a judge agrees with the labels of held-out rows, and two untrained judges with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medal_judges.config import read_yaml
from medal_judges.models.card.writer import METRICS
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.report.table import Cell, Table
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
BASELINES = ("length", "repetition")  # names of shipped judges
COLUMNS = ("part", "source", "dimension", "n", "missed")
Record = dict[str, Any]


def held_out_agreement(
    judge: Judge,
    rows: RunRows,
    config: TrainConfig,
) -> list[Record]:
    """Returns the judge's agreement with the labels of validation and test rows: a record for each
    part, source, dimension and language (``all`` and each).

    ``value`` has a 95% interval from ``low`` to ``high`` for these chatbots, or a ``reason`` why it
    is None. ``n`` labelled rows have a score and ``missed`` do not. ``baselines`` are the values of
    two untrained judges on the same rows. A generative judge takes seconds a dialogue: it scores
    200 rows of each part, drawn by the run's seed.
    """
    from medal_judges.models.linear.judge import LinearJudge

    judges = {"judge": judge}
    for name in BASELINES:
        settings = read_yaml(f"judges/{name}")
        del settings["family"]
        judges[name] = LinearJudge.from_settings(settings, judge.dimensions)
    records: list[Record] = []
    for part in ("validation", "test"):
        examples: list[TrainingExample] = getattr(rows, part)
        if judge.language_models() and len(examples) > ANSWERED_ROWS:
            order = np.random.default_rng(config.seed).permutation(len(examples))
            drawn = sorted(order[:ANSWERED_ROWS].tolist())
            examples = [examples[row] for row in drawn]
        for source in dict.fromkeys(example.source for example in examples):
            of_source = [example for example in examples if example.source == source]
            about = {"part": part, "source": Path(source).name}
            records += _agreement(judges, of_source, about)
    return records


def _agreement(
    judges: Mapping[str, Judge],
    examples: Sequence[TrainingExample],
    about: Mapping[str, str],
) -> Iterator[Record]:
    """Yields the records of the ``examples`` of one source."""
    from medal_judges.eval.metaeval.metaeval import evaluate

    dimensions = judges["judge"].dimensions
    rows = [_rated(str(number), row, dimensions) for number, row in enumerate(examples)]
    dialogues = [row.dialogue for row in rows]
    judgements = {who: list(judge.score(dialogues)) for who, judge in judges.items()}
    for dimension in dimensions:
        if not any(row.has_label(dimension.name) for row in rows):
            continue
        metric, name = "spearman", "spearmanr"
        if dimension.kind == "binary":
            metric, name = "auc", "roc_auc"
        by_judge = {}
        for who, scored in judgements.items():
            (result,) = evaluate(
                scored,
                rows,
                {dimension.name: dimension.name},
                only=(metric,),
                intervals=who == "judge",
            )
            by_judge[who] = _by_language(result.row, metric)
        for lang, (n, missed, estimate) in by_judge["judge"].items():
            baselines = {}
            for who in BASELINES:
                _, _, of_baseline = by_judge[who][lang]
                baselines[who] = of_baseline.value
            yield {
                **about,
                "dimension": dimension.name,
                "metric": name,
                "lang": lang,
                "n": n,
                "missed": missed,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "reason": estimate.reason,
                "baselines": baselines,
            }


def _rated(
    id: str,
    example: TrainingExample,
    dimensions: Sequence[Dimension],
) -> LabelledDialogue:
    """Returns an example as a row with people's ratings. An example of a single turn has the id of
    its conversation, so the row has another ``id``."""
    labels: dict[str, tuple[float | None, ...]] = {}
    scales: dict[str, Scale | None] = {}
    for dimension in dimensions:
        rating = example.human.get(dimension.name)
        scales[dimension.name] = None
        if dimension.kind == "binary":
            scales[dimension.name] = (0.0, 1.0)
            rating = None if rating is None else float(rating >= 0.5)
        labels[dimension.name] = (rating,)
    dialogue = replace(example.dialogue, id=id)
    return LabelledDialogue(dialogue, labels, scales, group=example.group)


def _by_language(
    row: ResultRow,
    metric: str,
) -> dict[str, tuple[int, int, Estimate]]:
    """Returns the number of scored and of missed rows and the estimate of each language, after
    those of ``all`` if there is not one language."""
    together = (row.scored, row.n - row.scored, row.metrics[metric])
    if len(row.languages) == 1:
        return dict.fromkeys(row.languages, together)
    languages = {"all": together}
    for lang, part in row.languages.items():
        languages[lang] = (part.n, 0, part.metrics[metric])
    return languages


def summary_table(folder: Path) -> Table | None:
    """Returns a table of validation and test sets by dimension, all languages of a set together,
    with the baselines beside the judge. None if the run had no held-out rows."""
    # The record ``all`` of a set stands before those of its languages.
    by_set: dict[tuple[str, ...], Record] = {}
    for record in read_json_if_there(folder / AGREEMENT_NAME, []):
        key = (record["part"], record["source"], record["dimension"])
        by_set.setdefault(key, record)
    if not by_set:
        return None
    lines = []
    for record in by_set.values():
        estimate = Estimate(
            record["value"],
            record["low"],
            record["high"],
            reason=record["reason"],
        )
        line: list[Cell] = [record[column] for column in COLUMNS]
        line += [METRICS[record["metric"]], estimate, *record["baselines"].values()]
        lines.append(line)
    return Table(
        "Agreement with the labels of held-out rows",
        [*COLUMNS, "figure", "judge", *BASELINES],
        lines,
        note="95% intervals are for these chatbots in new conversations.\n\nlength, repetition: "
        "untrained judges, to which longer, less repetitive answers are better; chance: 0, of AUC "
        "0.50",
    )
