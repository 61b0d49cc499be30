"""Training by steps: every process takes part, then the group is closed and the main one finishes.

Nothing that takes long happens while other processes wait: scoring test sets, golden scores and
the check in a fresh process come when the group is closed and the others have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from medal_judges.dimension import Dimension
from medal_judges.models.base.golden import setting_for
from medal_judges.models.base.judge import Judge
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.lora.config import LoraConfig
from medal_judges.signature import content_hash
from medal_judges.training.agreement import Scored, joined, scores_of_logits
from medal_judges.training.calibrate import fit_calibrations
from medal_judges.training.config import TrainConfig
from medal_judges.training.encoder.balance import balance_heads
from medal_judges.training.encoder.turn_means import fit_turn_means
from medal_judges.training.finish import ask, finish
from medal_judges.training.hybrid.per_dimension import join_parts, part_config
from medal_judges.training.loop.accelerator import close_group, make_accelerator
from medal_judges.training.loop.distributed import strategy, whole_weights
from medal_judges.training.loop.loop import TrainingLoop
from medal_judges.training.rows.example_store import spread
from medal_judges.training.rows.rows import RunRows, class_levels


@dataclass(slots=True)
class Part:
    """One judge after its steps, whole on the main process only; ``scored`` by part of the data
    (validation, test), as far as it is known."""

    config: TrainConfig
    judge: Any
    device: torch.device
    precision: str
    figures: dict[str, float]
    scored: dict[str, Scored] = field(default_factory=dict)


def train_by_steps(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, resume: bool
) -> None:
    """Train the judge of ``config``, or one a dimension; saved and checked when this returns."""
    if config.per_dimension:
        _train_apart(config, dimensions, rows, resume)
        return
    accelerator = make_accelerator(config)
    part = train_part(config, dimensions, rows, resume, accelerator)
    close_group(accelerator)
    if accelerator.is_main_process:
        _score(part, rows)
        setting = setting_for(part.judge.net, part.device.type, part.precision)
        finish(config, part.judge, rows, part.figures, part.scored, setting)


def _train_apart(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, resume: bool
) -> None:
    """A judge for each dimension, in one group of processes; then all are saved as one."""
    parts: list[Part] = []
    accelerator: Any = None
    for dimension in dimensions:
        one = part_config(config, dimension.name)
        accelerator = make_accelerator(one)
        part = train_part(one, [dimension], rows, resume, accelerator)
        if accelerator.is_main_process:
            part.judge.save_pretrained(one.output_dir)
        part.judge = None  # one net at a time: it is read again when the group is closed
        parts.append(part)
        accelerator.wait_for_everyone()
    close_group(accelerator)
    if not accelerator.is_main_process:
        return
    for part in parts:
        part.judge = Judge.from_pretrained(part.config.output_dir, device=part.device)
        _score(part, rows)
        part.judge = None
    folders = [Path(part.config.output_dir) for part in parts]
    judge, figures = join_parts(config, dimensions, folders, [part.figures for part in parts])
    scored = {name: joined([part.scored[name] for part in parts]) for name in parts[0].scored}
    finish(config, judge, rows, figures, scored)


def train_part(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    rows: RunRows,
    resume: bool,
    accelerator: Any,
) -> Part:
    """Take the steps of one judge, on every process, and calibrate it."""
    torch.manual_seed(config.seed)
    with whole_weights(accelerator):
        judge: Any = new_judge(config, dimensions, rows, accelerator.device)
    torch.manual_seed(config.seed)
    loop = TrainingLoop(
        config,
        judge,
        rows.train,
        rows.validation,
        class_levels(config, dimensions),
        content_hash([_settings(config), rows.facts]),
        accelerator,
    )
    progress = loop.run(resume)
    figures: dict[str, float] = {}
    scored: dict[str, Scored] = {}
    if rows.validation:
        figures, logits = loop.validate()
        heads = loop.task.heads
        judge.calibration = fit_calibrations(rows.validation, logits, heads, config.calibration)
        if heads:  # a judge that writes its numbers has none, and is asked later
            scores = scores_of_logits(heads, logits, judge.calibration)
            scored["validation"] = Scored(rows.validation, scores)
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
        judge.net = judge.net.to(accelerator.device).eval()
        judge.device = accelerator.device
        if isinstance(judge, EncoderJudge):
            fit_turn_means(judge, [example.dialogue for example in spread(rows.train, 256)])
    return Part(config, judge, accelerator.device, loop.precision, figures, scored)


def _score(part: Part, rows: RunRows) -> None:
    """Score the held-out rows that are not scored yet, where the judge was trained."""
    for name, examples in (("validation", rows.validation), ("test", rows.test)):
        if name not in part.scored and examples:
            part.scored[name] = ask(part.judge, examples, part.config)


def new_judge(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, device: torch.device
) -> Judge:
    """The judge that the loop trains, with fresh heads, on ``device``."""
    model, name = config.model, config.name
    if isinstance(model, EncoderConfig):
        heads = balance_heads(model, rows.train)
        return EncoderJudge.create(heads, dimensions, name=name, device=device)
    assert isinstance(model, LoraConfig)
    if model.head == "scoring":
        from medal_judges.models.lora.judge import LoraJudge

        return LoraJudge.create(model, dimensions, name=name, device=device)
    from medal_judges.models.lora.generative import GenerativeLoraJudge

    return GenerativeLoraJudge.create(
        model, dimensions, name=name, rubric=config.rubric, device=device
    )


def _settings(config: TrainConfig) -> dict[str, object]:
    """What the weights depend on; a resumed run may move its folder or its log, and share its
    batches among another number of processes (training/loop/checkpoint.py sees to that)."""
    apart = {"output_dir", "log", "threads", "name", "calibration", "answered_rows"}
    settings = config.model_dump(exclude=apart)
    del settings["optim"]["gradient_accumulation"]
    return settings
