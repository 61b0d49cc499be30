"""One training run, from its config to a saved and checked judge. If the judge is trained by steps,
every process takes part. Then the process group is closed, and the main process alone scores the
test sets, saves the judge and checks it. The other processes do not wait for it, because NCCL gives
up on a wait of minutes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from medal_judges.config import load_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import require_golden_scores, write_golden_scores
from medal_judges.models.base.learned import LearnedJudge
from medal_judges.models.base.saving import save_judge
from medal_judges.models.card.writer import write_card
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, base_language
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.storage.files import output_lock, read_json_if_there, write_json
from medal_judges.training.arguments import CHECKPOINTS, is_main_process
from medal_judges.training.config import TrainConfig, training_function
from medal_judges.training.doubts import warnings_about_rows
from medal_judges.training.family import TrainingRun
from medal_judges.training.held_out import AGREEMENT_NAME, measure_agreement
from medal_judges.training.rows import RunRows, load_rows

logger = logging.getLogger(__name__)


def train(
    config: str | Path, overrides: Sequence[str] = (), *, overwrite: bool = False
) -> Path:
    """Trains a judge, saves it and returns its folder. A stopped run resumes from its newest
    checkpoint.

    Args:
        config: A YAML file, or the name of a file in configs/train/.
        overrides: Changed settings, such as ``["seed=1"]``.
        overwrite: Whether to start from the beginning instead of resuming.

    Raises:
        ConfigError: A setting is wrong, or the folder holds other files.
        SourceError: A source of rows cannot be read.
        LeakError: A dialogue is in both training and held-out rows.
        JudgeLoadError: The saved judge gives other scores than the trained one.
        MedalError: Another run writes to the folder.

    >>> from medal_judges import Judge, train
    >>> overrides = ["rubric=overall", "train=[{source: labelled.jsonl}]", "output_dir=judge"]
    >>> folder = train("baseline_length", overrides)
    >>> Judge.from_pretrained(folder).family
    'linear'
    """
    settings = load_config(TrainConfig, config, overrides, folder="train")
    return train_judge(settings, overwrite=overwrite)


def train_judge(
    config: TrainConfig,
    *,
    overwrite: bool = False,
) -> Path:
    """Trains, calibrates, saves and checks the judge that ``config`` describes, and returns its
    folder.

    A stopped run resumes from its newest checkpoint.

    Args:
        overwrite: Whether to remove the checkpoints of an earlier run first, instead of resuming.

    Raises:
        ConfigError: A setting does not fit the rows, or the folder holds other files.
        SourceError: A source of rows cannot be read.
        LeakError: A dialogue is in both training and held-out rows.
        JudgeLoadError: The saved judge gives other scores than the trained one.
        MedalError: Another run writes to the folder.
    """
    folder = Path(config.output_dir)
    if not (config.model.by_steps or is_main_process()):
        return folder
    lock: AbstractContextManager[None] = nullcontext()
    if is_main_process():
        require_no_other_files(folder)
        lock = output_lock(folder)
    with lock:
        dimensions = load_rubric(config.rubric)
        rows = load_rows(config, dimensions)
        learnt = learnable_dimensions(config, dimensions, rows)
        warnings = warnings_about_rows(rows, learnt)
        for warning in warnings:
            logger.warning(warning)
        if config.start is not None:
            rows.facts += facts_of_start_judge(Path(config.start))
        run = TrainingRun(config, learnt, overwrite)
        judge = training_function(config.model.family)(rows, run)
        if is_main_process():
            save_and_check(config, judge, rows, warnings)
            write_card(folder)
    return folder


def facts_of_start_judge(folder: Path) -> list[dict[str, object]]:
    """Returns what the judge in ``folder`` was trained on, one mapping for each data source, such
    as ``{"part": "start", "rows": 900}``.

    A new judge that starts from these weights lists the same facts on its model card.
    """
    entries = read_json_if_there(folder / "data.json", [])
    learnt_from = [entry for entry in entries if entry["part"] in ("train", "start")]
    return [entry | {"part": "start"} for entry in learnt_from]


def require_no_other_files(folder: Path) -> None:
    """Raises ConfigError if ``folder`` has files and none of them comes from a training run."""
    names = sorted(path.name for path in folder.glob("[!.]*"))
    # Saving a judge could replace them. A run that was stopped has only its checkpoints.
    if names and {"judge.json", CHECKPOINTS}.isdisjoint(names):
        raise ConfigError(
            f"output_dir {folder} has files not of medal train: {', '.join(names[:5])}",
            hint="Type a new folder: output_dir=FOLDER",
        )


def learnable_dimensions(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    rows: RunRows,
) -> list[Dimension]:
    """Returns the dimensions that have at least one label in the training rows. Logs a warning
    about the others.

    Args:
        config: The settings of the run. If ``config.only`` is set, other dimensions are left out.
        dimensions: The dimensions of the rubric.
        rows: The labelled dialogues of the run.

    Raises:
        ConfigError: No dimension is left, or ``config`` names an unknown one.
    """
    require_known_dimensions(config, dimensions)
    labelled = set[str]().union(*(example.targets for example in rows.train))
    selected = dimensions
    if config.only is not None:
        selected = [d for d in dimensions if d.name in config.only]
    learnt = [dimension for dimension in selected if dimension.name in labelled]
    lacking = [d.name for d in selected if d.name not in labelled]
    if not learnt:
        raise ConfigError(
            f"no training row has a label of {', '.join(lacking)}",
            hint="Give an entry columns: {COLUMN: LABEL} or dimensions: {LABEL: DIMENSION}",
        )
    if lacking:
        logger.warning(
            "no training labels for %s: the judge will not have them",
            ", ".join(lacking),
        )
    return learnt


def require_known_dimensions(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
) -> None:
    """Raises ConfigError if a setting of ``config`` names a dimension that is not in
    ``dimensions``."""
    names = {dimension.name for dimension in dimensions}
    named = {"only": config.only or ()}
    for setting in ("heads", "prior_weights", "offsets"):
        named[f"model.{setting}"] = getattr(config.model, setting, ())
    for setting, values in named.items():
        unknown = set(values) - names
        if unknown:
            raise ConfigError(
                f"{setting}: the rubric has no dimension {', '.join(sorted(unknown))}",
                hint=f"Use one of: {', '.join(sorted(names))}",
            )


def save_and_check(
    config: TrainConfig,
    judge: LearnedJudge,
    rows: RunRows,
    warnings: Sequence[str],
) -> None:
    """Saves a trained judge in ``config.output_dir``. Then loads it again and checks that its
    scores are the same.

    Args:
        config: The settings of the run.
        judge: The trained judge.
        rows: The labelled dialogues of the run. The agreement of the judge with the labels of
            validation and test rows is measured and saved too.
        warnings: Sentences about ``rows`` for the judge's model card.

    Raises:
        JudgeLoadError: The loaded judge gives other scores.
    """
    judge.facts["warnings"] = warnings
    if judge.languages is None:
        languages = {base_language(example.dialogue.lang) for example in rows.train}
        judge.languages = tuple(sorted(languages - {UNKNOWN_LANGUAGE})) or None
    folder = save_judge(judge, Path(config.output_dir))
    # The folder may be published: it says nothing about where files are on this disk.
    settings = config.model_dump(mode="json") | {"output_dir": folder.name}
    agreement = measure_agreement(judge, rows, config)
    write_json(folder / "train_config.json", without_absolute_paths(settings))
    write_json(folder / AGREEMENT_NAME, agreement)
    write_json(folder / "data.json", without_absolute_paths(rows.facts))
    write_golden_scores(judge, folder)
    require_golden_scores(folder, judge.unsaved_options())


def without_absolute_paths(value: Any) -> Any:
    """Returns the JSON ``value`` with each absolute path in it replaced by its file name."""
    if isinstance(value, Mapping):
        return {key: without_absolute_paths(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_absolute_paths(part) for part in value]
    if isinstance(value, str) and Path(value).is_absolute():
        return Path(value).name
    return value
