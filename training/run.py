"""One training run from its config to a judge that a fresh process has checked."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from medal_judges.dimension import Dimension, load_rubric
from medal_judges.errors import ConfigError
from medal_judges.models.embedding_config import EmbeddingConfig
from medal_judges.models.encoder import EncoderJudge
from medal_judges.models.encoder_config import EncoderConfig
from medal_judges.models.feature import FeatureJudge
from medal_judges.models.feature_config import FeatureConfig
from medal_judges.models.golden import check_in_fresh_process, write_golden
from medal_judges.models.hybrid.config import HybridConfig
from medal_judges.models.judge import Judge
from medal_judges.models.lora_config import LoraConfig
from medal_judges.signature import content_hash
from medal_judges.training.agreement import (
    AGREEMENT_NAME,
    Scores,
    agreement,
    judge_scores,
    scores_of_logits,
)
from medal_judges.training.balance import balance_heads
from medal_judges.training.calibrate import fit_calibrations
from medal_judges.training.card import write_card
from medal_judges.training.config import TrainConfig
from medal_judges.training.distributed import strategy
from medal_judges.training.emissions import Meter
from medal_judges.training.hybrid import fit_hybrid
from medal_judges.training.loop import TrainingLoop
from medal_judges.training.rows import RunRows, class_levels, load_rows, write_facts
from medal_judges.training.turn_means import fit_turn_means

# Families that the loop trains; the others are fitted at once.
BY_STEPS = ("encoder", "lora")

logger = logging.getLogger(__name__)


def train_judge(config: TrainConfig, *, resume: bool = False) -> Path:
    """Train, calibrate, save and check the judge of ``config``; returns its folder.

    With several processes all train and the main one saves. Raises LeakError when training and
    held-out rows share a dialogue, JudgeLoadError when the saved judge does not come back the same.
    """
    meter = Meter()
    if config.threads:
        torch.set_num_threads(config.threads)
    dimensions: Sequence[Dimension] = load_rubric(config.rubric)
    rows = load_rows(config, dimensions)
    dimensions = _learnable(dimensions, rows, config.only)
    if config.per_dimension:
        return _train_apart(config, dimensions, rows, resume)
    if config.model.family in BY_STEPS:
        folder = _train_by_steps(config, dimensions, rows, resume)
    else:
        judge, figures = fit_judge(config, dimensions, rows)
        folder = _finish(config, judge, rows, figures)
    if is_main():
        meter.write(folder)
        write_card(folder)
    return folder


def _train_apart(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, resume: bool
) -> Path:
    from medal_judges.training.per_dimension import join_parts, train_parts

    meter = Meter()
    folders = train_parts(config, dimensions, lambda part: train_judge(part, resume=resume))
    if is_main():
        judge, figures = join_parts(config, dimensions, folders)
        folder = _finish(config, judge, rows, figures)
        meter.write(folder)
        write_card(folder)
    return Path(config.output_dir)


def is_main() -> bool:
    """True in the one process that saves; launchers number theirs."""
    return int(os.environ.get("RANK", "0")) == 0


def fit_judge(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows
) -> tuple[Judge, dict[str, float]]:
    """The judge of a family that is fitted at once, and its figures on rows it did not learn."""
    model = config.model
    if isinstance(model, HybridConfig):
        return fit_hybrid(config, rows.train, dimensions)
    if isinstance(model, EmbeddingConfig):
        from medal_judges.training.embedding import fit_embedding_judge

        return fit_embedding_judge(config, rows, dimensions)
    assert isinstance(model, FeatureConfig)
    return FeatureJudge.fit(model, rows.train, dimensions, name=config.name), {}


def new_judge(config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows) -> Judge:
    """The judge that the loop trains, with fresh heads."""
    model = config.model
    if isinstance(model, LoraConfig):
        return _new_lora(config, model, dimensions)
    assert isinstance(model, EncoderConfig)
    return EncoderJudge.create(balance_heads(model, rows.train), dimensions, name=config.name)


def _new_lora(config: TrainConfig, model: LoraConfig, dimensions: Sequence[Dimension]) -> Judge:
    if model.head == "scoring":
        from medal_judges.models.lora import LoraJudge

        return LoraJudge.create(model, dimensions, name=config.name)
    from medal_judges.models.lora_generative import GenerativeLoraJudge

    return GenerativeLoraJudge.create(model, dimensions, name=config.name, rubric=config.rubric)


def _learnable(
    dimensions: Sequence[Dimension], rows: RunRows, only: Sequence[str] | None = None
) -> list[Dimension]:
    """Dimensions (of ``only``) with at least one training label; a head without any would answer
    at random. Raises ConfigError for a name that the rubric does not have."""
    if unknown := set(only or ()) - {d.name for d in dimensions}:
        raise ConfigError(
            f"only: the rubric has no dimension {', '.join(sorted(unknown))}",
            hint=f"it has: {', '.join(d.name for d in dimensions)}",
        )
    dimensions = [d for d in dimensions if only is None or d.name in only]
    labelled = {name for example in rows.train for name in example.targets}
    if left := [d.name for d in dimensions if d.name not in labelled]:
        logger.warning("no training labels for %s: the judge will not have them", ", ".join(left))
    return [d for d in dimensions if d.name in labelled]


def _train_by_steps(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, resume: bool
) -> Path:
    torch.manual_seed(config.seed)
    judge: Any = new_judge(config, dimensions, rows)
    run_hash = content_hash([_settings(config), rows.facts])
    levels = class_levels(config, dimensions)
    loop = TrainingLoop(config, judge, rows.train, rows.validation, levels, run_hash)
    progress = loop.run(resume)
    figures: dict[str, float] = {}
    scores: Scores = {}
    if rows.validation:
        logits, _ = loop.predict(loop.validation)
        figures = loop.validate()
        judge.calibration = fit_calibrations(
            rows.validation, logits, loop.task.heads, config.calibration
        )
        scores = scores_of_logits(loop.task.heads, logits, judge.calibration)
    facts = {
        "seed": config.seed,
        "steps": progress.step,
        "best_step": progress.best_step,
        "processes": loop.accelerator.num_processes,
        "strategy": strategy(loop.accelerator),
    }
    judge.facts = facts | loop.facts | {"data": content_hash(rows.facts)}
    folder = Path(config.output_dir)
    loop.release()
    if loop.accelerator.is_main_process:
        # Scored as it will be loaded: fp32 on CPU, whatever precision it was trained in.
        judge.net = judge.net.to("cpu").float().eval()
        judge.device = torch.device("cpu")
        if isinstance(judge, EncoderJudge):
            fit_turn_means(judge, [example.dialogue for example in rows.train])
        _finish(config, judge, rows, figures, scores)
    loop.accelerator.wait_for_everyone()
    loop.accelerator.end_training()
    return folder


def _settings(config: TrainConfig) -> dict[str, object]:
    """What the weights depend on; a resumed run may move its folder or its log."""
    return config.model_dump(exclude={"output_dir", "log", "threads", "name", "calibration"})


def _finish(
    config: TrainConfig,
    judge: Judge,
    rows: RunRows,
    figures: dict[str, float],
    scores: Scores | None = None,
) -> Path:
    """Save the judge and the facts of its run; ``scores`` of the validation rows where known."""
    folder = judge.save_pretrained(config.output_dir)
    if scores is None:
        scores = judge_scores(judge, rows.validation) if rows.validation else {}
    known = [d for d in judge.dimensions if d.name in scores]
    told = agreement(rows.validation, scores, known, config.seed)
    # The folder may be published; where it stood on this disk is nobody's business.
    public = config.model_copy(update={"output_dir": folder.name})
    _write(folder / "train_config.json", public.model_dump(mode="json"))
    _write(folder / "validation.json", figures)
    _write(folder / AGREEMENT_NAME, told)
    write_facts(folder, rows.facts)
    write_golden(judge, folder)
    check_in_fresh_process(folder)
    return folder


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
