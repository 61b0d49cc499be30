"""Training by steps: one judge, or one a dimension, with JudgeTrainer.

Every process takes part in the steps. Then the process group is closed, and the main process
goes on alone: nothing slow happens while others wait.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import EarlyStoppingCallback

from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import setting_for
from medal_judges.models.base.heads import output_heads
from medal_judges.models.base.judge import Judge, truncation_text
from medal_judges.models.base.saving import save_judge
from medal_judges.models.hybrid.judge import HybridJudge, MemberSelection
from medal_judges.models.hybrid.members import Member
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import content_hash
from medal_judges.training.agreement import ScoredExamples, scores_of_logits
from medal_judges.training.arguments import CHECKPOINTS, is_main, training_arguments
from medal_judges.training.checkpoints import (
    RunIdentity,
    checkpoint_to_resume,
    run_hash,
)
from medal_judges.training.config import TrainConfig
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.trainer import JudgeTrainer, beyond_window, whole_weights
from medal_judges.training.validation import means_over_dimensions, require_figure

if TYPE_CHECKING:
    from transformers import TrainingArguments

logger = logging.getLogger(__name__)


NewJudge = Callable[[TrainConfig, Sequence[Dimension], "TrainingArguments"], Any]


@dataclass(frozen=True, slots=True)
class StepFamily:
    """What a family brings to training by steps: how to make the judge that learns, with a new
    head, and its trainer."""

    new_judge: NewJudge
    trainer: type[JudgeTrainer] = JudgeTrainer


def fit_by_steps(run: TrainingRun, family: StepFamily) -> FittedJudge | None:
    """Trains the judge of ``run``, or one a dimension; returns it on the main process."""
    if run.config.per_dimension:
        return fit_per_dimension(run, family)
    fitted = train_one(run, run.config, run.dimensions, family)
    close_group()
    return fitted


def train_one(
    run: TrainingRun,
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    family: StepFamily,
) -> FittedJudge | None:
    """Takes the steps of one judge, on every process, and calibrates it; returns it on the main
    process. Raises ConfigError for checkpoints in its folder that it cannot resume from, and for a
    ``metric_for_best_model`` that its validation rows do not have."""
    validation = run.rows.validation
    folder = Path(config.output_dir)
    args = training_arguments(
        config.args, folder, seed=config.seed, validated=bool(validation)
    )
    torch.manual_seed(config.seed)
    with whole_weights():
        judge = family.new_judge(config, dimensions, args)
        if config.start is not None:
            copy_start(judge, Path(config.start))
    data_hash = run_hash(config, run.rows.facts)
    checkpoints = folder / CHECKPOINTS
    datasets = {}
    with args.main_process_first(desc="the cache of token ids"):
        if run.overwrite and args.should_save:
            shutil.rmtree(checkpoints, ignore_errors=True)
        checkpoints.mkdir(parents=True, exist_ok=True)
        for part, examples in (("train", run.rows.train), ("validation", validation)):
            if examples:
                cache = checkpoints / f"{part}-{data_hash}.arrow"
                datasets[part] = family.trainer.dataset(judge, examples, cache)
    callbacks: list[Any] = []
    if config.early_stopping_patience is not None:
        callbacks.append(EarlyStoppingCallback(config.early_stopping_patience))
    trainer = family.trainer(
        model=judge,
        args=args,
        train_dataset=datasets["train"],
        eval_dataset=datasets.get("validation"),
        processing_class=judge.tokenizer,
        callbacks=callbacks,
    )
    if validation and args.metric_for_best_model:
        names = []
        if trainer.measures:
            names = [dimension.name for dimension in judge.dimensions]
        require_figure(args.metric_for_best_model, validation, names, trainer.binary())
    identity = RunIdentity(
        run=data_hash,
        examples_a_step=args.train_batch_size
        * args.gradient_accumulation_steps
        * args.world_size,
        processes=args.world_size,
        strategy=trainer.strategy(),
    )
    checkpoint = checkpoint_to_resume(checkpoints, identity, required=run.resume)
    if args.should_save:
        identity.write(checkpoints)
    lost = {}
    for part, dataset in datasets.items():
        lost[part] = beyond_window(dataset, getattr(run.rows, part), judge.dimensions)
        if args.should_save:
            warn_of_window(part, lost[part])
    trainer.train(resume_from_checkpoint=checkpoint)

    figures: dict[str, float] = {}
    logits: dict[str, np.ndarray] = {}
    if validation:
        figures, logits = trainer.calibrate(validation, config.calibration)
    calibration = trainer.judge.calibration
    judge = trainer.finished_judge()
    if not args.should_save:
        return None
    judge.calibration = calibration
    facts = run_facts(trainer, judge, identity)
    judge.facts = facts | {"data": content_hash(run.rows.facts), "beyond_window": lost}
    trainer.state.save_to_json(str(folder / "trainer_state.json"))
    scored: dict[str, ScoredExamples] = {}
    if logits:
        heads = {head.dimension.name: head for head in judge.heads}
        scores = scores_of_logits(heads, logits, calibration)
        scored["validation"] = ScoredExamples(validation, scores)
    golden = setting_for(
        judge.net,
        judge.device.type,
        facts["precision"],
        writes=bool(judge.language_models()),
    )
    return FittedJudge(judge, figures, scored, golden)


def warn_of_window(part: str, lost: Mapping[str, int]) -> None:
    """Warns of the rows of a part that the judge does not read in full (see beyond_window)."""
    if lost["rows"]:
        rows = f"{lost['rows']} {part} rows"
        logger.warning(
            truncation_text(rows, lost["truncated_turns"], lost["cut_turns"])
        )
    if lost["unread_rows"]:
        text = "%s %s rows are left out: no prompt of max_tokens holds their last turn"
        logger.warning(text, lost["unread_rows"], part)


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

    def without_adapter(
        name: str,
    ) -> str:  # PEFT's files leave the name of the adapter out
        return name.replace(".default.", ".").replace(".modules_to_save.", ".")

    saved: dict[str, torch.Tensor] = {}
    for file in folder.glob("*.safetensors"):
        saved |= load_file(file)
    weights = {
        without_adapter(name): value for name, value in judge.net.state_dict().items()
    }
    copied = 0
    judge.to_scale()  # as a saved judge's output layer is
    for name, value in saved.items():
        weight = weights.get(without_adapter(name))
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


# -- one judge a dimension -------------------------------------------------------------------------


def fit_per_dimension(run: TrainingRun, family: StepFamily) -> FittedJudge | None:
    """Trains a judge for each dimension (ORALIS, sections 4.3 and 4.4), in one group of processes;
    then joins them in one. Each has its own folder in the run's."""
    config, validation = run.config, run.rows.validation
    names = [dimension.name for dimension in run.dimensions]
    configs = {name: dimension_config(config, name) for name in names}
    # What one dimension's run would refuse is refused before the first one's steps.
    metric = config.args.get("metric_for_best_model")
    if metric and validation:
        for head in output_heads(run.dimensions, config.model.heads):
            name = head.dimension.name
            binary = [name] if head.config.kind == "binary" else []
            require_figure(metric, validation, [name], binary)
    figures: dict[str, float] = {}
    for dimension in run.dimensions:
        member_config = configs[dimension.name]
        trained = train_one(run, member_config, [dimension], family)
        if trained is not None:
            save_judge(trained.judge, Path(member_config.output_dir))
            for name, value in trained.figures.items():
                if "/" in name:  # not the means over dimensions
                    figures[name] = value
        del (
            trained
        )  # one network at a time: they are loaded again when the group is closed
    close_group()
    if not is_main():
        return None
    members = {}
    for name, member_config in configs.items():
        members[name] = Member(
            name, Judge.from_pretrained(member_config.output_dir), {}
        )
    choices = MemberSelection({name: name for name in members})
    facts = {"seed": config.seed, "per_dimension": True}
    joined = HybridJudge(
        members, choices, run.dimensions, name=config.name, facts=facts
    )
    return FittedJudge(joined, figures | means_over_dimensions(figures))


def dimension_config(config: TrainConfig, dimension: str) -> TrainConfig:
    """Returns the run of one dimension: the same data and settings in a folder of the joined
    judge's."""
    return config.model_copy(
        update={
            "name": f"{config.name}_{dimension}",
            "output_dir": str(Path(config.output_dir) / "members" / dimension),
            "per_dimension": False,
            "only": (dimension,),
        }
    )
