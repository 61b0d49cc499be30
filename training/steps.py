"""Training by steps: one judge, or one a dimension, with JudgeTrainer.

Every process takes part in the steps. Then the process group is closed, and the main process
goes on alone: nothing slow happens while others wait.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import setting_for
from medal_judges.models.base.heads import output_heads
from medal_judges.models.base.judge import Judge, truncation_text
from medal_judges.models.base.saving import save_judge
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import content_hash
from medal_judges.training.agreement import ScoredExamples, scores_of_logits
from medal_judges.training.arguments import CHECKPOINTS, training_arguments
from medal_judges.training.balance import balanced
from medal_judges.training.checkpoints import (
    RunIdentity,
    checkpoint_to_resume,
    remove_checkpoints,
    run_hash,
    write_identity,
)
from medal_judges.training.config import TrainConfig
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import RunRows, TrainingExample
from medal_judges.training.trainer import (
    JudgeTrainer,
    beyond_window,
    judge_dataset,
    whole_weights,
)
from medal_judges.training.validation import means_over_dimensions, require_figure

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import TrainingArguments

logger = logging.getLogger(__name__)


class StepFamily(ABC):
    """What a family brings to training by steps."""

    @abstractmethod
    def new_judge(
        self, config: TrainConfig, dimensions: Sequence[Dimension], args: TrainingArguments
    ) -> Any:
        """Returns the judge to train, with a new head, its frozen layers frozen."""

    def dataset(
        self, judge: Any, examples: Sequence[TrainingExample], cache: Path | None
    ) -> Dataset:
        """Returns the examples as the trainer reads them."""
        return judge_dataset(judge, examples, cache)

    @property
    def trainer(self) -> type[JudgeTrainer]:
        """The trainer of the judge."""
        return JudgeTrainer


def fit_by_steps(run: TrainingRun, family: StepFamily) -> FittedJudge | None:
    """Trains the judge of ``run``, or one a dimension; returns it on the main process."""
    if run.config.per_dimension:
        return _fit_per_dimension(run, family)
    fitted = train_one(run, run.config, run.dimensions, family)
    close_group()
    return fitted


def train_one(
    run: TrainingRun, config: TrainConfig, dimensions: Sequence[Dimension], family: StepFamily
) -> FittedJudge | None:
    """Takes the steps of one judge, on every process, and calibrates it; returns it on the main
    process."""
    rows, folder = run.rows, Path(config.output_dir)
    args = training_arguments(
        config.args, folder, seed=config.seed, validated=bool(rows.validation)
    )
    torch.manual_seed(config.seed)
    with whole_weights():
        model = balanced(config.model, rows.train)
        judge = family.new_judge(config.model_copy(update={"model": model}), dimensions, args)
        if config.start:
            copy_start(judge, Path(config.start))
    own_hash = run_hash(config, rows.facts)
    with args.main_process_first(desc="the cache of token ids"):
        if run.overwrite and args.should_save:
            remove_checkpoints(config)
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        train = family.dataset(judge, rows.train, folder / CHECKPOINTS / f"train-{own_hash}.arrow")
        validation = None
        if rows.validation:
            cache = folder / CHECKPOINTS / f"validation-{own_hash}.arrow"
            validation = family.dataset(judge, rows.validation, cache)
    trainer = family.trainer(
        model=judge,
        args=args,
        train_dataset=train,
        eval_dataset=validation,
        processing_class=judge.tokenizer,
        callbacks=_callbacks(config),
    )
    if validation is not None and args.metric_for_best_model:
        names = [d.name for d in judge.dimensions] if trainer.measures() else []
        require_figure(args.metric_for_best_model, rows.validation, names, trainer.binary())
    identity = RunIdentity(
        run=own_hash,
        examples_a_step=args.train_batch_size * args.gradient_accumulation_steps * args.world_size,
        processes=args.world_size,
        strategy=trainer.strategy(),
    )
    checkpoint = checkpoint_to_resume(run, config, identity)
    if args.should_save:
        write_identity(config, identity)
    lost = _beyond_window(trainer, rows)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    return _result(run, config, trainer, identity, lost)


def _beyond_window(trainer: JudgeTrainer, rows: RunRows) -> dict[str, dict[str, int]]:
    """Returns what the judge does not read of the rows of each part; the main process warns."""
    parts = {
        "train": (trainer.train_dataset, rows.train),
        "validation": (trainer.eval_dataset, rows.validation),
    }
    names = [dimension.name for dimension in trainer.judge.dimensions]
    lost: dict[str, dict[str, int]] = {}
    for part, (dataset, examples) in parts.items():
        if dataset is None:
            continue
        lost[part] = counts = beyond_window(dataset, examples, names)
        if not trainer.is_world_process_zero():
            continue
        long, turns, cut_turns, unread = counts.values()
        if long:
            logger.warning(truncation_text(f"{long} {part} rows", turns, cut_turns))
        if unread:
            text = "%s %s rows are left out: no prompt of max_tokens holds their last turn"
            logger.warning(text, unread, part)
    return lost


def _callbacks(config: TrainConfig) -> list[Any]:
    from transformers import EarlyStoppingCallback

    if config.early_stopping_patience is None:
        return []
    return [EarlyStoppingCallback(early_stopping_patience=config.early_stopping_patience)]


def _result(
    run: TrainingRun,
    config: TrainConfig,
    trainer: JudgeTrainer,
    identity: RunIdentity,
    lost: dict[str, dict[str, int]],
) -> FittedJudge | None:
    """Calibrates the trained judge and takes it out of the process group."""
    validation, state = run.rows.validation, trainer.state
    figures: dict[str, float] = {}
    logits: dict[str, np.ndarray] = {}
    if validation:
        figures, logits = trainer.calibrate(validation, config.calibration)
    calibration = trainer.judge.calibration
    judge: Any = trainer.finished_judge()
    if not trainer.is_world_process_zero():
        return None
    judge.calibration = calibration
    precision = str(trainer.accelerator.mixed_precision)
    judge.facts = {
        "seed": config.seed,
        "steps": state.global_step,
        "best_step": state.best_global_step or state.global_step,
        "processes": identity.processes,
        "strategy": identity.strategy,
        "precision": precision,
        "attention": str(judge.net.config._attn_implementation),
        "gradient_checkpointing": bool(trainer.args.gradient_checkpointing),
        "data": content_hash(run.rows.facts),
        "beyond_window": lost,
    }
    state.save_to_json(str(Path(config.output_dir) / "trainer_state.json"))
    scored: dict[str, ScoredExamples] = {}
    if logits:
        heads = {head.dimension.name: head for head in judge.heads}
        scores = scores_of_logits(heads, logits, judge.calibration)
        scored["validation"] = ScoredExamples(validation, scores)
    writes = bool(judge.language_models())
    golden = setting_for(judge.net, judge.device.type, precision, writes=writes)
    return FittedJudge(judge, figures, scored, golden)


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
    from safetensors.torch import load_file

    def plain(name: str) -> str:  # PEFT's files leave the name of the adapter out
        return name.replace(".default.", ".").replace(".modules_to_save.", ".")

    saved: dict[str, torch.Tensor] = {}
    for file in folder.glob("*.safetensors"):
        saved |= {plain(name): value for name, value in load_file(file).items()}
    own = {plain(name): value for name, value in judge.net.state_dict().items()}
    fitting = [name for name in saved if name in own and own[name].shape == saved[name].shape]
    if not fitting:
        raise ConfigError(
            f"start: none of the {len(saved)} tensors in {folder} fits by name and shape",
            hint="start from a folder that medal train wrote with the same model settings",
        )
    judge.to_scale()  # as a saved judge's output layer is
    for name in fitting:
        own[name].copy_(saved[name])
    judge.to_units()
    logger.warning("start: copied %s of %s tensors of %s", len(fitting), len(saved), folder)


# -- one judge a dimension -------------------------------------------------------------------------


def _fit_per_dimension(run: TrainingRun, family: StepFamily) -> FittedJudge | None:
    """Trains a judge for each dimension (ORALIS, sections 4.3 and 4.4), in one group of processes;
    then joins them in one."""
    from medal_judges.models.hybrid.judge import HybridJudge, MemberSelection
    from medal_judges.models.hybrid.members import Member

    config, rows = run.config, run.rows
    configs = {d.name: dimension_config(config, d.name) for d in run.dimensions}
    # What one dimension's run would refuse is refused before the first one's steps.
    metric = config.args.get("metric_for_best_model")
    if metric and rows.validation:
        heads = output_heads(run.dimensions, config.model.heads)
        binary = {head.dimension.name for head in heads if head.config.kind == "binary"}
        for name in configs:
            require_figure(metric, rows.validation, [name], binary)
    figures: dict[str, float] = {}
    for dimension in run.dimensions:
        own = configs[dimension.name]
        trained = train_one(run, own, [dimension], family)
        if trained is not None:
            save_judge(trained.judge, Path(own.output_dir))
            figures |= {key: value for key, value in trained.figures.items() if "/" in key}
        del trained  # one network at a time: they are loaded again when the group is closed
    is_main = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
    close_group()
    if not is_main:
        return None
    members = {
        name: Member(name, Judge.from_pretrained(own.output_dir), {})
        for name, own in configs.items()
    }
    choices = MemberSelection({name: name for name in members})
    facts = {"seed": config.seed, "per_dimension": True}
    joined = HybridJudge(members, choices, run.dimensions, name=config.name, facts=facts)
    return FittedJudge(joined, figures | means_over_dimensions(figures))


def dimension_config(config: TrainConfig, dimension: str) -> TrainConfig:
    """The run of one dimension: the same data and settings in a folder of the whole judge's."""
    return config.model_copy(
        update={
            "name": f"{config.name}_{dimension}",
            "output_dir": str(Path(config.output_dir) / "members" / dimension),
            "per_dimension": False,
            "only": (dimension,),
        }
    )
