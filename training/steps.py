"""Training by steps: every process takes part, then the group is closed and the main one finishes.

Nothing that takes long happens while other processes wait: scoring test sets, golden scores and
the check in a fresh process come when the group is closed and the others have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from medal_judges.models.base.golden import setting_for
from medal_judges.models.base.judge import Judge
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.hybrid.combination import MemberSelection
from medal_judges.models.hybrid.judge import HybridJudge
from medal_judges.models.hybrid.members import MEMBERS, Member
from medal_judges.models.lora.config import LoraConfig
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import content_hash
from medal_judges.training.agreement import ScoredExamples, scores_of_logits
from medal_judges.training.config import TrainConfig
from medal_judges.training.encoder.task import EncoderTask, balance_heads, fit_turn_means
from medal_judges.training.finish import ask, finish
from medal_judges.training.loop.calibration import fit_calibrations
from medal_judges.training.loop.distributed import make_accelerator, strategy, whole_weights
from medal_judges.training.loop.loop import TrainingLoop
from medal_judges.training.loop.task import TrainingTask
from medal_judges.training.loop.trackers import finish_trackers, log_figures
from medal_judges.training.loop.validation import means_over_dimensions
from medal_judges.training.lora.task import GenerativeTask, LoraTask
from medal_judges.training.rows.examples import TrainingExample, spread
from medal_judges.training.rows.rows import RunRows

if TYPE_CHECKING:
    from accelerate import Accelerator

SteppedJudge = EncoderJudge | LoraJudge | GenerativeLoraJudge


@dataclass(slots=True)
class TrainingResult:
    """A judge after its steps, whole on the main process only, and what is known of it: its figures
    of validation, and its scores by part of the data (validation, test)."""

    config: TrainConfig
    judge: SteppedJudge
    precision: str
    figures: dict[str, float] = field(default_factory=dict)
    scored: dict[str, ScoredExamples] = field(default_factory=dict)


def train_by_steps(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, resume: bool
) -> None:
    """Train the judge of ``config``, or one a dimension; saved and checked when this returns."""
    if config.per_dimension:
        _train_per_dimension(config, dimensions, rows, resume)
        return
    accelerator = make_accelerator(config)
    trained = train_one(config, dimensions, rows, resume, accelerator)
    _close_group(accelerator)
    if accelerator.is_main_process:
        judge = trained.judge
        setting = setting_for(judge.net, judge.device.type, trained.precision)
        finish(config, judge, rows, trained.figures, trained.scored, setting)


def _train_per_dimension(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, resume: bool
) -> None:
    """A judge for each dimension (ORALIS, sections 4.3 and 4.4), in one group of processes; then
    all are saved as one."""
    figures: dict[str, float] = {}
    scored: list[dict[str, ScoredExamples]] = []
    configs = {d.name: dimension_config(config, d.name) for d in dimensions}
    for dimension in dimensions:
        one = configs[dimension.name]
        accelerator = make_accelerator(one)
        trained = train_one(one, [dimension], rows, resume, accelerator)
        if accelerator.is_main_process:
            trained.judge.save_pretrained(one.output_dir)
        figures |= {key: value for key, value in trained.figures.items() if "/" in key}
        scored.append(trained.scored)
        finish_trackers(accelerator)
        del trained  # one net at a time: it is read again when the group is closed
        accelerator.wait_for_everyone()
    _close_group(accelerator)
    if not accelerator.is_main_process:
        return
    for name, known in zip(configs, scored, strict=True):
        judge = Judge.from_pretrained(configs[name].output_dir, device=accelerator.device)
        for part, examples in (("validation", rows.validation), ("test", rows.test)):
            if part not in known and examples:
                known[part] = ask(judge, examples, configs[name])
    members = {
        name: Member(name, Judge.from_pretrained(one.output_dir), {})
        for name, one in configs.items()
    }
    choices = MemberSelection({name: name for name in members})
    facts = {"seed": config.seed, "per_dimension": True}
    whole = HybridJudge(members, choices, dimensions, name=config.name, facts=facts)
    together = {
        part: ScoredExamples(
            first.examples, {k: v for known in scored for k, v in known[part].scores.items()}
        )
        for part, first in scored[0].items()
    }
    finish(config, whole, rows, figures | means_over_dimensions(figures), together)


def dimension_config(config: TrainConfig, dimension: str) -> TrainConfig:
    """The run of one dimension: the same data and settings, a folder of its own."""
    return config.model_copy(
        update={
            "name": f"{config.name}_{dimension}",
            "output_dir": str(Path(config.output_dir) / MEMBERS / dimension),
            "per_dimension": False,
            "only": (dimension,),
        }
    )


def train_one(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    rows: RunRows,
    resume: bool,
    accelerator: Accelerator,
) -> TrainingResult:
    """Take the steps of one judge, on every process, and calibrate it."""
    torch.manual_seed(config.seed)
    with whole_weights(accelerator):
        judge = new_judge(config, dimensions, rows.train, accelerator.device)
    torch.manual_seed(config.seed)
    run_hash = content_hash([_settings(config), rows.facts])
    loop = start_loop(config, judge, rows.train, rows.validation, run_hash, accelerator)
    progress = loop.run(resume)
    trained = TrainingResult(config, judge, loop.precision)
    if rows.validation:
        trained.figures, logits = loop.validate()
        log_figures(accelerator, "final", trained.figures, progress.step)
        heads = loop.task.heads
        judge.calibration = fit_calibrations(rows.validation, logits, heads, config.calibration)
        if heads:  # a judge that writes its numbers has none, and is asked later
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
        if isinstance(judge, EncoderJudge):
            fit_turn_means(judge, [example.dialogue for example in spread(rows.train, 256)])
    return trained


def start_loop(
    config: TrainConfig,
    judge: SteppedJudge,
    train: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    run_hash: str,
    accelerator: Accelerator | None = None,
) -> TrainingLoop:
    """The loop that trains ``judge``, with the data and the objective of its family."""
    accelerator = accelerator or make_accelerator(config)
    device = accelerator.device
    task: TrainingTask
    if isinstance(judge, EncoderJudge):
        task = EncoderTask(config, judge, train, validation, device)
    elif isinstance(judge, LoraJudge):
        task = LoraTask(config, judge, train, validation, device)
    else:
        task = GenerativeTask(judge, train, validation, device)
    return TrainingLoop(config, task, run_hash, accelerator)


def _close_group(accelerator: Accelerator) -> None:
    """End the processes' group and the logs: what comes next is the main process's alone, and no
    other waits for it (NCCL would give up after minutes)."""
    accelerator.wait_for_everyone()
    accelerator.end_training()


def new_judge(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    train: Sequence[TrainingExample],
    device: torch.device,
) -> SteppedJudge:
    """The judge that the loop trains, with fresh heads, on ``device``."""
    model, name = config.model, config.name
    if isinstance(model, EncoderConfig):
        heads = balance_heads(model, train)
        return EncoderJudge.create(heads, dimensions, name=name, device=device)
    assert isinstance(model, LoraConfig)
    if model.head == "scoring":
        return LoraJudge.create(model, dimensions, name=name, device=device)
    return GenerativeLoraJudge.create(
        model, dimensions, name=name, rubric=config.rubric, device=device
    )


def _settings(config: TrainConfig) -> Mapping[str, object]:
    """What the weights depend on; a resumed run may move its folder or its log, and share its
    batches among another number of processes (training/loop/checkpoint.py sees to that)."""
    unimportant = {
        "output_dir",
        "log_with",
        "log_steps",
        "threads",
        "name",
        "calibration",
        "answered_rows",
    }
    settings = config.model_dump(exclude=unimportant)
    del settings["optim"]["gradient_accumulation"]
    return settings
