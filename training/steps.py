"""Training by steps: one judge, or one a dimension, with JudgeTrainer.

Every process takes part in the steps. Then the process group is closed, and the main process
goes on alone: nothing slow happens while others wait.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import EarlyStoppingCallback

from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import setting_for
from medal_judges.models.base.heads import output_heads
from medal_judges.models.base.judge import Judge, truncation_text
from medal_judges.models.base.saving import save_judge
from medal_judges.models.hybrid.judge import MEMBERS, HybridJudge, Line, Member
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import content_hash
from medal_judges.training.agreement import ScoredExamples
from medal_judges.training.arguments import CHECKPOINTS, is_main, training_arguments
from medal_judges.training.checkpoints import (
    RunIdentity,
    checkpoint_to_resume,
    run_hash,
)
from medal_judges.training.config import TrainConfig, family_module
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import RunRows
from medal_judges.training.trainer import JudgeTrainer, beyond_window, whole_weights
from medal_judges.training.validation import means_over_dimensions, require_figure

logger = logging.getLogger(__name__)


def fit_by_steps(run: TrainingRun) -> FittedJudge | None:
    """Trains the judge of ``run``, or one a dimension; returns it on the main process."""
    if run.config.per_dimension:
        return fit_per_dimension(run)
    fitted = train_one(run, run.config, run.dimensions)
    close_group()
    return fitted


def train_one(
    run: TrainingRun, config: TrainConfig, dimensions: Sequence[Dimension]
) -> FittedJudge | None:
    """Takes the steps of one judge, on every process, and calibrates it; returns it on the main
    process. Raises ConfigError for checkpoints in its folder that it cannot resume from, and for a
    ``metric_for_best_model`` that its validation rows do not have."""
    family = family_module(config.model.family)
    rows, folder = run.rows, Path(config.output_dir)
    args = training_arguments(
        config.args, folder, seed=config.seed, validated=bool(rows.validation)
    )
    torch.manual_seed(config.seed)
    with whole_weights():
        judge = family.new_judge(config, dimensions, args)
        if config.start is not None:
            copy_start(judge, Path(config.start))
    trainer_class = family.trainer_class(config)
    checkpoints = folder / CHECKPOINTS
    data_hash = run_hash(config, rows.facts)
    with args.main_process_first(desc="the cache of token ids"):
        if run.overwrite and args.should_save:
            shutil.rmtree(checkpoints, ignore_errors=True)
        datasets = cached_datasets(trainer_class, judge, rows, checkpoints, data_hash)
    trainer = trainer_class(
        model=judge,
        args=args,
        train_dataset=datasets["train"],
        eval_dataset=datasets.get("validation"),
        processing_class=judge.tokenizer,
    )
    if config.early_stopping_patience is not None:
        stopping = EarlyStoppingCallback(config.early_stopping_patience)
        trainer.add_callback(stopping)
    if rows.validation and args.metric_for_best_model:
        names = []
        if trainer.measures:
            names = [dimension.name for dimension in dimensions]
        binary = trainer.binary()
        require_figure(args.metric_for_best_model, rows.validation, names, binary)
    identity = RunIdentity(
        run=data_hash,
        examples_a_step=args.train_batch_size
        * args.gradient_accumulation_steps
        * args.world_size,
        processes=args.world_size,
        strategy=trainer.strategy(),
    )
    checkpoint = checkpoint_to_resume(checkpoints, identity)
    lost = {}
    for part, dataset in datasets.items():
        lost[part] = beyond_window(dataset, getattr(rows, part), dimensions)
    if args.should_save:
        identity.write(checkpoints)
        warn_of_window(lost)
    trainer.train(resume_from_checkpoint=checkpoint)

    figures, scores = {}, {}
    if rows.validation:
        figures, scores = trainer.calibrate(rows.validation, config.calibration)
    judge = trainer.finished_judge()
    if not args.should_save:
        return None
    trainer.state.save_to_json(str(folder / "trainer_state.json"))
    judge.facts = run_facts(trainer, judge, identity)
    judge.facts |= {"data": content_hash(rows.facts), "beyond_window": lost}
    golden = setting_for(
        judge.net,
        judge.device.type,
        judge.facts["precision"],
        writes=bool(judge.language_models()),
    )
    scored = {}
    if scores:
        scored["validation"] = ScoredExamples(rows.validation, scores)
    return FittedJudge(judge, figures, scored, golden)


def cached_datasets(
    trainer_class: type[JudgeTrainer],
    judge: Any,
    rows: RunRows,
    folder: Path,
    data_hash: str,
) -> dict[str, Dataset]:
    """Returns the datasets of the parts with examples; their token ids are cached in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    datasets = {}
    for part in ("train", "validation"):
        examples = getattr(rows, part)
        if examples:
            cache = folder / f"{part}-{data_hash}.arrow"
            datasets[part] = trainer_class.dataset(judge, examples, cache)
    return datasets


def warn_of_window(lost: Mapping[str, Mapping[str, int]]) -> None:
    """Warns of the rows of each part that the judge does not read in full (see beyond_window)."""
    for part, counts in lost.items():
        if counts["rows"]:
            rows = f"{counts['rows']} {part} rows"
            text = truncation_text(rows, counts["truncated_turns"], counts["cut_turns"])
            logger.warning(text)
        if counts["unread_rows"]:
            text = (
                "%s %s rows are left out: no prompt of max_tokens holds their last turn"
            )
            logger.warning(text, counts["unread_rows"], part)


def run_facts(
    trainer: JudgeTrainer, judge: Any, identity: RunIdentity
) -> dict[str, Any]:
    """Returns what judge.json and the card say of the training."""
    state = trainer.state
    return {
        "seed": trainer.args.seed,
        "steps": state.global_step,
        "best_step": state.best_global_step or state.global_step,
        "processes": identity.processes,
        "strategy": identity.strategy,
        "precision": str(trainer.accelerator.mixed_precision),
        "attention": str(judge.net.config._attn_implementation),
        "gradient_checkpointing": bool(trainer.args.gradient_checkpointing),
    }


def close_group() -> None:
    """Closes the process group. Models loaded from here on are whole: under ZeRO-3 transformers
    would partition them among a closed group."""
    from transformers.integrations.deepspeed import unset_hf_deepspeed_config

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]


def copy_start(judge: Any, folder: Path) -> None:
    """Copies to ``judge`` the weights of the judge in ``folder`` that fit it by name and shape.
    Raises ConfigError if none does."""
    saved: dict[str, torch.Tensor] = {}
    for file in folder.glob("*.safetensors"):
        saved |= load_file(file)
    weights = {}
    for name, weight in judge.net.state_dict().items():
        weights[_without_adapter(name)] = weight
    copied = 0
    judge.to_scale()  # as a saved judge's output layer is
    for name, value in saved.items():
        weight = weights.get(_without_adapter(name))
        if weight is not None and weight.shape == value.shape:
            weight.copy_(value)
            copied += 1
    judge.to_units()
    if not copied:
        raise ConfigError(
            f"start: none of the {len(saved)} tensors in {folder} fits by name and shape",
            hint="start from a folder that medal train wrote with the same model settings",
        )
    logger.warning("start: copied %s of %s tensors of %s", copied, len(saved), folder)


def _without_adapter(name: str) -> str:
    """Returns the name of a weight without that of the adapter, as PEFT's files have it:
    ``lora_A.weight`` of ``lora_A.default.weight``."""
    return name.replace(".default.", ".").replace(".modules_to_save.", ".")


# -- one judge a dimension -------------------------------------------------------------------------


def fit_per_dimension(run: TrainingRun) -> FittedJudge | None:
    """Trains a judge for each dimension (ORALIS, sections 4.3 and 4.4), in one group of processes;
    then joins them in one. Each has its own folder in the run's."""
    config, validation = run.config, run.rows.validation
    # What one dimension's run would refuse is refused before the first one's steps.
    metric = config.args.get("metric_for_best_model")
    if metric and validation:
        for head in output_heads(run.dimensions, config.model.heads):
            name = head.dimension.name
            binary = [name] if head.config.kind == "binary" else []
            require_figure(metric, validation, [name], binary)
    figures: dict[str, float] = {}
    folders = {}
    for dimension in run.dimensions:
        member_config = dimension_config(config, dimension.name)
        folders[dimension.name] = member_config.output_dir
        trained = train_one(run, member_config, [dimension])
        if trained is not None:
            save_judge(trained.judge, Path(member_config.output_dir))
            for name, value in trained.figures.items():
                if "/" in name:  # not the means over dimensions
                    figures[name] = value
        # One network at a time: they are loaded again when the group is closed.
        del trained
    close_group()
    if not is_main():
        return None
    members, lines = {}, {}
    for name, folder in folders.items():
        members[name] = Member(name, Judge.from_pretrained(folder))
        lines[name] = Line((name,), (1.0,))
    facts = {"seed": config.seed, "per_dimension": True}
    joined = HybridJudge(members, lines, run.dimensions, name=config.name, facts=facts)
    return FittedJudge(joined, figures | means_over_dimensions(figures))


def dimension_config(config: TrainConfig, dimension: str) -> TrainConfig:
    """Returns the run of one dimension: the same data and settings in a folder of the joined
    judge's."""
    return config.model_copy(
        update={
            "name": f"{config.name}_{dimension}",
            "output_dir": str(Path(config.output_dir) / MEMBERS / dimension),
            "per_dimension": False,
            "only": (dimension,),
        }
    )
