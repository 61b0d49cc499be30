"""Training by steps: one judge, or one a dimension."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import setting_for
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import save_judge
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import content_hash
from medal_judges.training.agreement import ScoredExamples, score_examples, scores_of_logits
from medal_judges.training.calibration import fit_calibrations
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.steps_turns import TurnsTask, balance_heads, fit_turn_means
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.loop.accelerator import (
    log_figures,
    make_accelerator,
    strategy,
    whole_weights,
)
from medal_judges.training.loop.loop import TrainingLoop
from medal_judges.training.rows import RunRows, TrainingExample, spread
from medal_judges.training.validation import means_over_dimensions

if TYPE_CHECKING:
    from accelerate import Accelerator

logger = logging.getLogger(__name__)
# The settings that the weights do not depend on. A resumed run may move its folder or its log, and
# share its batches among another number of processes (see load_checkpoint).
_UNIMPORTANT = {
    *("output_dir", "log_with", "log_steps", "threads", "name", "calibration", "answered_rows"),
}


@dataclass(slots=True)
class TrainingResult:
    """A judge after its steps, whole on the main process only: its validation figures, and its
    scores by part of the data (validation, test)."""

    judge: Any
    precision: str
    figures: dict[str, float] = field(default_factory=dict)
    scored: dict[str, ScoredExamples] = field(default_factory=dict)


def train_by_steps(run: TrainingRun) -> FittedJudge | None:
    """Train the judge of ``run``, or one a dimension; returns it on the main process."""
    config, dimensions, rows, resume = run.config, run.dimensions, run.rows, run.resume
    if config.per_dimension:
        return _train_per_dimension(config, dimensions, rows, resume)
    accelerator = make_accelerator(config)
    trained = train_one(config, dimensions, rows, resume, accelerator)
    accelerator.wait_for_everyone()
    accelerator.end_training()
    if accelerator.is_main_process:
        judge = trained.judge
        writes = bool(judge.language_models())
        setting = setting_for(judge.net, judge.device.type, trained.precision, writes=writes)
        return FittedJudge(judge, trained.figures, trained.scored, setting)
    return None


def train_one(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    rows: RunRows,
    resume: bool,
    accelerator: Accelerator,
) -> TrainingResult:
    """Take the steps of one judge, on every process, and calibrate it."""
    torch.manual_seed(config.seed)
    with whole_weights():
        judge = new_judge(config, dimensions, rows.train, accelerator.device)
        if config.start:
            copy_start(judge, Path(config.start))
    torch.manual_seed(config.seed)
    settings = config.model_dump(exclude=_UNIMPORTANT)
    del settings["optim"]["gradient_accumulation"]
    run_hash = content_hash([settings, rows.facts])
    loop = start_loop(config, judge, rows.train, rows.validation, run_hash, accelerator)
    progress = loop.run(resume)
    trained = TrainingResult(judge, loop.precision)
    if rows.validation:
        trained.figures, logits = loop.validate()
        log_figures(accelerator, "final", trained.figures, progress.step)
        heads = loop.task.heads
        judge.calibration = fit_calibrations(rows.validation, logits, heads, config.calibration)
        if heads:  # a generative judge has none, and scores its rows later
            scores = scores_of_logits(heads, logits, judge.calibration)
            trained.scored["validation"] = ScoredExamples(rows.validation, scores)
    judge.facts = {
        "seed": config.seed,
        "steps": progress.step,
        "best_step": progress.best_step,
        "processes": accelerator.num_processes,
        "strategy": strategy(accelerator),
        **loop.facts,
        "data": content_hash(rows.facts),
    }
    loop.release()
    if accelerator.is_main_process:
        judge.net.to(accelerator.device).eval()
        judge.device = accelerator.device
        if isinstance(judge, TurnsJudge):
            # A thousand turns are enough for a mean.
            fit_turn_means(judge, [example.dialogue for example in spread(rows.train, 64)])
    return trained


def new_judge(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    train: Sequence[TrainingExample],
    device: torch.device,
) -> Any:
    """The judge that the loop trains, with new heads, on ``device``."""
    model, name = config.model, config.name
    if isinstance(model, TurnsConfig):
        heads = balance_heads(model, train)
        return TurnsJudge.create(heads, dimensions, name=name, device=device)
    from medal_judges.models.lora.adapters import LoraConfig
    from medal_judges.models.lora.generative import GenerativeLoraJudge
    from medal_judges.models.lora.judge import LoraJudge

    assert isinstance(model, LoraConfig)
    if model.head == "scoring":
        return LoraJudge.create(model, dimensions, name=name, device=device)
    return GenerativeLoraJudge.create(
        model, dimensions, name=name, rubric=config.rubric, device=device
    )


def copy_start(judge: Any, folder: Path) -> None:
    """Copies to ``judge`` the weights of the judge in ``folder`` that fit it by name and shape.
    Raises ConfigError if none does."""
    from safetensors.torch import load_file

    def plain(name: str) -> str:  # the files of a LoRA judge leave these parts out
        return name.replace(".default.", ".").removeprefix("body.").removeprefix("scorers.")

    files = [*folder.glob("*.safetensors"), *folder.glob("adapter/*.safetensors")]
    saved = {plain(name): value for file in files for name, value in load_file(file).items()}
    own = {plain(name): value for name, value in judge.net.state_dict().items()}
    fitting = [name for name in saved if name in own and own[name].shape == saved[name].shape]
    if not fitting:
        raise ConfigError(
            f"start: none of the {len(saved)} tensors in {folder} fits by name and shape",
            hint="start from a folder that medal train wrote with the same model settings",
        )
    for name in fitting:
        own[name].copy_(saved[name])
    logger.warning("start: copied %s of %s tensors of %s", len(fitting), len(saved), folder)


def start_loop(
    config: TrainConfig,
    judge: Any,
    train: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    run_hash: str,
    accelerator: Accelerator | None = None,
) -> TrainingLoop:
    """The loop that trains ``judge``, with the data and the objective of its family."""
    accelerator = accelerator or make_accelerator(config)
    family: Any = TurnsTask
    if not isinstance(judge, TurnsJudge):
        from medal_judges.training.families.steps_lora import LoraTask

        family = LoraTask
    task = family(config, judge, train, validation, accelerator.device)
    return TrainingLoop(config, task, run_hash, accelerator)


# -- one judge a dimension ------------------------------------------------------------------------


def _train_per_dimension(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, resume: bool
) -> FittedJudge | None:
    """Train a judge for each dimension (ORALIS, sections 4.3 and 4.4), in one group of processes;
    then join them in one."""
    from medal_judges.models.hybrid.judge import HybridJudge, MemberSelection
    from medal_judges.models.hybrid.members import Member

    figures: dict[str, float] = {}
    scored: list[dict[str, ScoredExamples]] = []
    configs = {d.name: dimension_config(config, d.name) for d in dimensions}
    for dimension in dimensions:
        one = configs[dimension.name]
        accelerator = make_accelerator(one)
        trained = train_one(one, [dimension], rows, resume, accelerator)
        if accelerator.is_main_process:
            save_judge(trained.judge, Path(one.output_dir))
        figures |= {key: value for key, value in trained.figures.items() if "/" in key}
        scored.append(trained.scored)
        for tracker in accelerator.trackers:  # before the next judge starts its own
            tracker.finish()
        accelerator.trackers = []
        del trained  # one net at a time: they are loaded again when the group is closed
        accelerator.wait_for_everyone()
    accelerator.wait_for_everyone()
    accelerator.end_training()
    if not accelerator.is_main_process:
        return None
    for one, known in zip(configs.values(), scored, strict=True):
        judge = Judge.from_pretrained(one.output_dir, device=accelerator.device)
        for part, examples in (("validation", rows.validation), ("test", rows.test)):
            if part not in known and examples:
                known[part] = score_examples(judge, examples, one)
    members = {n: Member(n, Judge.from_pretrained(c.output_dir), {}) for n, c in configs.items()}
    facts = {"seed": config.seed, "per_dimension": True}
    choices = MemberSelection({name: name for name in members})
    whole = HybridJudge(members, choices, dimensions, name=config.name, facts=facts)
    together = {
        part: ScoredExamples(
            first.examples, {k: v for known in scored for k, v in known[part].scores.items()}
        )
        for part, first in scored[0].items()
    }
    return FittedJudge(whole, figures | means_over_dimensions(figures), together)


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
