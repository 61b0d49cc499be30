"""A judge's figures in the Hub's current form: ``.eval_results/*.yaml``, one file a data set.

The Hub shows them on the model's page and on the leaderboard of the benchmark (a data set of the
Hub whose eval.yaml names the tasks); the card's model-index is the earlier form.
https://huggingface.co/docs/hub/eval-results
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.models.base.hub import EVAL_RESULTS
from medal_judges.storage.files import atomic_write
from medal_judges.training.card.card import read_metadata

if TYPE_CHECKING:
    from huggingface_hub import EvalResultEntry

_SPEC = re.compile(r"(?P<set>[^=]+)=(?P<dataset>[\w.-]+/[\w.-]+)(:(?P<task>.+))?\Z")
_DIMENSION = "{dimension}"


def parse_task(text: str) -> tuple[str, str, str]:
    """(set of a benchmark, data set of the Hub, task) of ``SET=OWNER/DATASET[:TASK]``. A task is
    ``{dimension}`` by default, which stands for the dimension. Raises ConfigError."""
    found = _SPEC.match(text)
    if found is None:
        raise ConfigError(
            f"--eval-result {text}: expected SET=OWNER/DATASET or SET=OWNER/DATASET:TASK",
            hint="for example: --eval-result fed=me/fed-benchmark:{dimension}",
        )
    return found["set"], found["dataset"], found["task"] or _DIMENSION


def write_eval_results(folder: Path, tasks: Sequence[str], results: Path | None) -> None:
    """Write ``.eval_results/OWNER--DATASET.yaml`` for each data set of ``tasks`` (see parse_task).

    A value is Spearman's correlation with people of a graded dimension, F1 of an issue, of the
    whole set; ``notes`` have the interval, the rows and the judge's signature. Raises ConfigError
    without results, for a set that they lack or have no figure of, and for two figures of one task.
    """
    if not tasks:
        return
    if results is None:
        raise ConfigError("--eval-result takes its figures from a benchmark: add --results")
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    judge = read_metadata(folder, results)
    whole = [figure for figure in judge["benchmark"] if figure["lang"] is None]
    entries: dict[str, dict[str, EvalResultEntry]] = {}
    for set_name, dataset, task in map(parse_task, tasks):
        own = [figure for figure in whole if figure["set_name"] == set_name]
        if not own:
            sets = dict.fromkeys(figure["set_name"] for figure in whole)
            raise ConfigError(
                f"--eval-result: the results have no set {set_name!r} of this judge",
                hint=f"{did_you_mean(set_name, sets)}they have: {', '.join(sets)}",
            )
        defined = {
            (figure["dimension"], figure["metric"]): figure
            for figure in own
            if figure["estimate"] is not None and figure["estimate"].value is not None
        }
        found = entries.setdefault(dataset, {})
        before = len(found)
        for name in dict.fromkeys(figure["dimension"] for figure in own):
            figure = defined.get((name, "f1_present")) or defined.get((name, "spearman"))
            if figure is None:
                continue
            named = task.replace(_DIMENSION, name)
            if named in found:
                raise ConfigError(
                    f"--eval-result: two figures for the task {named!r} of {dataset}",
                    hint=f"name the task by the dimension: {dataset}:{_DIMENSION}",
                )
            found[named] = EvalResultEntry(
                dataset_id=dataset,
                task_id=named,
                value=round(figure["estimate"].value, 4),
                notes=_notes(figure, str(judge["signature"])),
            )
        if len(found) == before:
            raise ConfigError(f"--eval-result: no figure of {set_name} is defined")
    for dataset, found in entries.items():
        path = folder / EVAL_RESULTS / f"{dataset.replace('/', '--')}.yaml"
        path.parent.mkdir(exist_ok=True)
        written = eval_result_entries_to_yaml(list(found.values()))
        atomic_write(path, yaml.safe_dump(written, sort_keys=False, allow_unicode=True))


def _notes(figure: dict[str, Any], signature: str) -> str:
    estimate, f1 = figure["estimate"], figure["metric"] == "f1_present"
    what = "F1 of the issue" if f1 else "Spearman with people's mean"
    span = "no interval"
    if estimate.low is not None and estimate.high is not None:
        span = f"95% interval [{estimate.low:.4f}, {estimate.high:.4f}]"
    rows = f"{figure['scored']} of {figure['rows']} rows scored"
    return f"{what}, {figure['dimension']}, level {figure['level']}; {span}; {rows}; {signature}"
