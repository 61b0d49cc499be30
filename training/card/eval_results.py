"""A judge's figures as the Hub reads them today: ``.eval_results/*.yaml``, one file a data set.

The Hub shows them on the model's page and on the leaderboard of the benchmark (a data set of the
Hub whose eval.yaml names the tasks); the card's model-index is the form before.
https://huggingface.co/docs/hub/eval-results
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.models.base.hub import EVAL_RESULTS
from medal_judges.storage.files import atomic_write
from medal_judges.training.card.card import BenchmarkFigure, read_metadata

if TYPE_CHECKING:
    from huggingface_hub import EvalResultEntry

_SPEC = re.compile(r"(?P<set>[^=]+)=(?P<dataset>[\w.-]+/[\w.-]+)(:(?P<task>.+))?\Z")
_DIMENSION = "{dimension}"


@dataclass(frozen=True, slots=True)
class HubTask:
    """A set of a benchmark as a data set of the Hub; ``task``: the task's id there, in which
    ``{dimension}`` stands for the dimension."""

    set_name: str
    dataset: str
    task: str = _DIMENSION

    @classmethod
    def parse(cls, text: str) -> HubTask:
        """Of ``SET=OWNER/DATASET`` or ``SET=OWNER/DATASET:TASK``. Raises ConfigError."""
        found = _SPEC.match(text)
        if found is None:
            raise ConfigError(
                f"--eval-result {text}: expected SET=OWNER/DATASET or SET=OWNER/DATASET:TASK",
                hint="for example: --eval-result fed=me/fed-benchmark:{dimension}",
            )
        return cls(found["set"], found["dataset"], found["task"] or _DIMENSION)


def write_eval_results(folder: Path, tasks: Sequence[HubTask], results: Path | None) -> list[Path]:
    """Write ``.eval_results/OWNER--DATASET.yaml`` for each data set of ``tasks``; their paths.

    A value is Spearman's correlation with people of a graded dimension, F1 of an issue, of the
    whole set; ``notes`` have the interval, the rows and the judge's signature. Raises ConfigError
    without results, for a set that they lack or have no figure of, and for two figures of one task.
    """
    if not tasks:
        return []
    if results is None:
        raise ConfigError("--eval-result takes its figures from a benchmark: add --results")
    from huggingface_hub import eval_result_entries_to_yaml

    judge = read_metadata(folder, results)
    entries: dict[str, dict[str, EvalResultEntry]] = {}
    for task in tasks:
        for entry in _entries(task, judge.benchmark, str(judge.signature)):
            if entry.task_id in entries.setdefault(task.dataset, {}):
                raise ConfigError(
                    f"--eval-result: two figures for the task {entry.task_id!r} of {task.dataset}",
                    hint=f"name the task by the dimension: {task.dataset}:{_DIMENSION}",
                )
            entries[task.dataset][entry.task_id] = entry
    written = []
    for dataset, found in entries.items():
        path = folder / EVAL_RESULTS / f"{dataset.replace('/', '--')}.yaml"
        path.parent.mkdir(exist_ok=True)
        atomic_write(path, _yaml(eval_result_entries_to_yaml(list(found.values()))))
        written.append(path)
    return written


def _yaml(value: object) -> str:
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text


def _entries(
    task: HubTask, figures: Sequence[BenchmarkFigure], signature: str
) -> Iterator[EvalResultEntry]:
    from huggingface_hub import EvalResultEntry

    own = [each for each in figures if each.set_name == task.set_name and each.lang is None]
    if not own:
        sets = dict.fromkeys(each.set_name for each in figures)
        raise ConfigError(
            f"--eval-result: the results have no set {task.set_name!r} of this judge",
            hint=f"{did_you_mean(task.set_name, sets)}they have: {', '.join(sets)}",
        )
    shown = {name: _headline(own, name) for name in dict.fromkeys(f.dimension for f in own)}
    for name, figure in shown.items():
        if figure is not None and figure.estimate is not None:
            assert figure.estimate.value is not None  # _headline takes no other
            yield EvalResultEntry(
                dataset_id=task.dataset,
                task_id=task.task.replace(_DIMENSION, name),
                value=round(figure.estimate.value, 4),
                notes=_notes(figure, signature),
            )
    if not any(shown.values()):
        raise ConfigError(f"--eval-result: no figure of {task.set_name} is defined")


def _headline(figures: Sequence[BenchmarkFigure], dimension: str) -> BenchmarkFigure | None:
    known: Mapping[str, BenchmarkFigure] = {
        each.metric: each
        for each in figures
        if each.dimension == dimension and each.estimate is not None
        and each.estimate.value is not None
    }  # fmt: skip
    return known.get("f1_present") or known.get("spearman")


def _notes(figure: BenchmarkFigure, signature: str) -> str:
    estimate = figure.estimate
    assert estimate is not None
    what = {"f1_present": "F1 of the issue"}.get(figure.metric, "Spearman with people's mean")
    span = "no interval"
    if estimate.low is not None and estimate.high is not None:
        span = f"95% interval [{estimate.low:.4f}, {estimate.high:.4f}]"
    rows = f"{figure.scored} of {figure.rows} rows scored"
    return f"{what}, {figure.dimension}, level {figure.level}; {span}; {rows}; {signature}"
