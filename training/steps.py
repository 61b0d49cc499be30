"""Trains a judge by steps, with JudgeTrainer. Every process takes part in the steps. Then the
process group is closed, and the main process goes on alone.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import EarlyStoppingCallback

from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import truncation_warning
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import write_json
from medal_judges.training.arguments import CHECKPOINTS, training_arguments
from medal_judges.training.checkpoints import (
    RUN_NAME,
    checkpoint_to_resume,
    run_record,
)
from medal_judges.training.family import TrainingRun
from medal_judges.training.rows import RunRows
from medal_judges.training.trainer import JudgeTrainer, count_truncated, unsharded_load

logger = logging.getLogger(__name__)


def fit_by_steps(
    rows: RunRows,
    run: TrainingRun,
    new_judge: Callable[..., Any],
    trainer_class: type[JudgeTrainer] = JudgeTrainer,
) -> Any:
    """Trains a neural judge by gradient steps on ``rows`` and calibrates it on the validation rows.

    In a distributed run, every process must call this function.

    Args:
        run: The settings and the dimensions to learn.
        new_judge: A function that returns an untrained judge. It gets the settings of the run, the
            dimensions and the TrainingArguments.
        trainer_class: JudgeTrainer, or a subclass with another loss or dataset.

    Returns:
        The judge on the main process, None on the others.

    Raises:
        ConfigError: Settings contradict each other, or early stopping is set without validation
            rows.
        MedalError: The loss is not finite, or the checkpoints in the run's folder are of a run with
            other settings or data.
    """
    config, dimensions = run.config, run.dimensions
    folder = Path(config.output_dir)
    if config.early_stopping_patience and not rows.validation:
        raise ConfigError(
            "early_stopping_patience: give validation entries with labelled rows"
        )
    args = training_arguments(
        config.args, folder, seed=config.seed, validated=bool(rows.validation)
    )
    torch.manual_seed(config.seed)
    with unsharded_load():
        judge = new_judge(config, dimensions, args)
        if config.start is not None:
            copy_start_weights(judge, Path(config.start))
    checkpoints = folder / CHECKPOINTS
    record = run_record(config, dimensions, rows.facts)
    with args.main_process_first(desc="the cache of token ids"):
        if run.overwrite and args.should_save:
            shutil.rmtree(checkpoints, ignore_errors=True)
        datasets = make_datasets(trainer_class, judge, rows, checkpoints, record)
    callbacks = []
    if config.early_stopping_patience is not None:
        callbacks.append(EarlyStoppingCallback(config.early_stopping_patience))
    try:
        steps = trainer_class(
            model=judge,
            args=args,
            train_dataset=datasets["train"],
            eval_dataset=datasets.get("validation"),
            processing_class=judge.tokenizer,
            callbacks=callbacks,
        )
    except (ValueError, ImportError, RuntimeError) as error:
        raise ConfigError(f"args: {error}") from error
    steps.check_metric()
    strategy = steps.parallel_strategy()
    batch = args.train_batch_size * args.gradient_accumulation_steps
    record["examples a step"] = batch * args.world_size
    if strategy.startswith("zero"):  # DeepSpeed saves the optimizer in parts
        record["parts of the optimizer"] = f"{strategy}, {args.world_size} processes"
    checkpoint = checkpoint_to_resume(checkpoints, record)
    lost = {part: count_truncated(dataset) for part, dataset in datasets.items()}
    if args.should_save:
        write_json(checkpoints / RUN_NAME, record)
        warn_of_truncation(lost)
    steps.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))

    if rows.validation:
        steps.calibrate(datasets["validation"], config.calibration)
    judge = steps.trained_judge()
    wait_and_close_process_group()
    if not args.should_save:
        return None
    steps.state.save_to_json(str(folder / "trainer_state.json"))
    judge.facts = {
        "seed": args.seed,
        "steps": steps.state.global_step,
        "step_of_the_weights": steps.step_of_weights(),
        "processes": args.world_size,
        "strategy": strategy,
        "precision": str(steps.accelerator.mixed_precision),
        "attention": str(judge.net.config._attn_implementation),
        "gradient_checkpointing": bool(args.gradient_checkpointing),
        "data": content_hash(rows.facts),
        "beyond_window": lost,
    }
    return judge


def make_datasets(
    trainer_class: type[JudgeTrainer],
    judge: Any,
    rows: RunRows,
    folder: Path,
    record: Mapping[str, Any],
) -> dict[str, Dataset]:
    """Returns the tokenised datasets of a run, ``{"train": ..., "validation": ...}``. Without
    validation rows, the second is left out.

    Args:
        trainer_class: The Trainer class, whose function ``dataset`` tokenises dialogues.
        judge: The judge to train.
        rows: The labelled dialogues of the run.
        folder: The folder of the cached token ids, which is created.
        record: The settings and data hashes of the run. A cache file is used again only by a run
            with an equal record.
    """
    folder.mkdir(parents=True, exist_ok=True)
    datasets = {}
    for part in ("train", "validation"):
        examples = getattr(rows, part)
        if examples:
            cache = folder / f"{part}-{content_hash(record)}.arrow"
            datasets[part] = trainer_class.dataset(judge, examples, cache)
    return datasets


def warn_of_truncation(lost: Mapping[str, Mapping[str, int]]) -> None:
    """Logs a warning if dialogues are longer than the judge can read.

    Args:
        lost: ``train`` or ``validation`` -> what its dialogues lose, such as ``{"rows": 2,
            "truncated_turns": 9, "cut_turns": 0}``: dialogues that lose text, turns left out, and
            turns shortened.
    """
    for part, counts in lost.items():
        if counts["rows"]:
            rows = f"{counts['rows']} {part} rows"
            text = truncation_warning(
                rows, counts["truncated_turns"], counts["cut_turns"]
            )
            logger.warning(text)


def wait_and_close_process_group() -> None:
    """Waits for all processes, then closes the process group. Models that are loaded later are
    whole on each process, also after DeepSpeed ZeRO-3."""
    from transformers.integrations.deepspeed import unset_hf_deepspeed_config

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]


def copy_start_weights(
    judge: Any,
    folder: Path,
) -> None:
    """Copies weights of the saved judge in ``folder`` into ``judge``: each tensor whose name and
    shape are equal in both.

    Raises:
        ConfigError: There is no such tensor.
    """
    saved: dict[str, torch.Tensor] = {}
    for file in folder.glob("*.safetensors"):
        saved |= load_file(file)
    weights = {}
    for name, weight in judge.net.state_dict().items():
        weights[_without_adapter_name(name)] = weight
    copied = 0
    for name, value in saved.items():
        weight = weights.get(_without_adapter_name(name))
        if weight is not None and weight.shape == value.shape:
            weight.copy_(value)
            copied += 1
    if not copied:
        raise ConfigError(
            f"start: none of the {len(saved)} tensors in {folder} fits by name and shape",
            hint="Start from a folder that medal train wrote with the same model settings",
        )
    logger.warning("start: copied %s of %s tensors of %s", copied, len(saved), folder)


def _without_adapter_name(name: str) -> str:
    """Returns the ``name`` of a weight without its adapter's name: ``lora_A.default.weight``
    becomes ``lora_A.weight``."""
    return name.replace(".default.", ".").replace(".modules_to_save.", ".")
