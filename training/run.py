"""One training run from its config to a saved judge that a fresh process has checked."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from medal_judges.config import load_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import GoldenSetting, check_in_fresh_process, write_golden
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.judged_languages import languages_of
from medal_judges.models.feature.judge import FeatureConfig, FeatureJudge
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.storage.files import atomic_write, only_run
from medal_judges.training.agreement import (
    AGREEMENT_NAME,
    ScoredExamples,
    agreement,
    baseline_scores,
    judge_scores,
)
from medal_judges.training.card.card import write_card
from medal_judges.training.config import TrainConfig
from medal_judges.training.rows.examples import Columns, TrainingExample
from medal_judges.training.rows.rows import RunRows, load_rows

logger = logging.getLogger(__name__)


def train(config: str | Path, overrides: Sequence[str] = (), *, resume: bool = False) -> Path:
    """Train a judge and save it; returns its folder, the config's ``output_dir``.

    ``config`` is a YAML file or the name of one in configs/train/, ``overrides`` are
    ``field=value``; ``resume`` continues from the newest checkpoint. Raises ConfigError, and what
    ``train_judge`` raises.

    >>> from medal_judges import Judge, train
    >>> overrides = ["rubric=overall", "train=[{source: labelled.jsonl}]", "output_dir=judge"]
    >>> folder = train("baseline_length", overrides)
    >>> Judge.from_pretrained(folder).family
    'feature'
    """
    return train_judge(load_config(TrainConfig, config, overrides, folder="train"), resume=resume)


def train_judge(config: TrainConfig, *, resume: bool = False) -> Path:
    """Train, calibrate, save and check the judge of ``config``; returns its folder.

    With several processes all take the steps, and the main one does everything else; it alone fits
    a family that is fitted at once. Raises LeakError if training and held-out rows share a
    dialogue, JudgeLoadError if the saved judge does not score the same in a fresh process, and
    MedalError if another run writes to that folder.
    """
    folder = Path(config.output_dir)
    if not (config.by_steps or is_main()):
        return folder
    if config.threads:
        torch.set_num_threads(config.threads)
    with only_run(folder) if is_main() else nullcontext():
        dimensions = load_rubric(config.rubric)
        rows = load_rows(config, dimensions)
        learnt = learnable(dimensions, rows, config.only)
        if config.by_steps:
            from medal_judges.training.steps import train_by_steps

            train_by_steps(config, learnt, rows, resume)
        else:
            judge, figures = _fit(config, learnt, rows)
            finish(config, judge, rows, figures)
        if is_main():
            write_card(folder)
    return folder


def is_main() -> bool:
    """Whether this is the process that saves; launchers number theirs."""
    return int(os.environ.get("RANK", "0")) == 0


def learnable(
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
    labelled = Columns.of(rows.train).targets
    if left := [d.name for d in dimensions if d.name not in labelled]:
        logger.warning("no training labels for %s: the judge will not have them", ", ".join(left))
    return [d for d in dimensions if d.name in labelled]


def _fit(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows
) -> tuple[Judge, dict[str, float]]:
    """The judge of a family that is fitted at once, and its figures on rows it did not learn."""
    model = config.model
    if model.family == "hybrid":
        from medal_judges.training.families.hybrid import fit_hybrid

        return fit_hybrid(config, rows.train, dimensions)
    if model.family == "embedding":
        from medal_judges.training.families.embedding import fit_embedding_judge

        return fit_embedding_judge(config, rows, dimensions)
    assert isinstance(model, FeatureConfig)
    return FeatureJudge.fit(model, rows.train, dimensions, name=config.name), {}


def finish(
    config: TrainConfig,
    judge: Judge,
    rows: RunRows,
    figures: Mapping[str, float],
    scored: Mapping[str, ScoredExamples] | None = None,
    setting: GoldenSetting | None = None,
) -> None:
    """Save the judge and the facts of its run, and check it in a fresh process.

    ``scored`` has the scores that are known, by part of the data; the judge scores the other
    held-out rows here, unless it is a hybrid (a member may cost money). ``setting``: device and
    precision of its golden scores.
    """
    if judge.languages is None:
        judge.languages = languages_of(example.dialogue for example in rows.train)
    folder = judge.save_pretrained(config.output_dir)
    known = dict(scored or {})
    for part, examples in (("validation", rows.validation), ("test", rows.test)):
        if part in known or not examples:
            continue
        if judge.family == "hybrid":
            logger.warning("a hybrid does not score its %s rows: use medal benchmark", part)
            continue
        known[part] = score_examples(judge, examples, config)
    agreements = []
    for part, one in known.items():
        dimensions = [d for d in judge.dimensions if d.name in one.scores]
        plain = baseline_scores(rows.train, one.examples, dimensions, config.seed)
        agreements += [asdict(row) for row in agreement(one, plain, dimensions, part)]
    # The folder may be published: it says nothing about where it and its base are on this disk.
    public = config.model_dump(mode="json") | {"output_dir": folder.name}
    base = public["model"].get("base")
    if base and Path(base).is_dir():
        public["model"]["base"] = Path(base).resolve().name
    written = {
        "train_config.json": public,
        "validation.json": dict(figures),
        AGREEMENT_NAME: agreements,
        "data.json": rows.facts,
    }
    for name, value in written.items():
        atomic_write(folder / name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    setting = setting or GoldenSetting()
    judge.place(setting.device, setting.dtype)
    write_golden(judge, folder, setting)
    check_in_fresh_process(folder, judge.load_options())


def score_examples(
    judge: Judge, examples: Sequence[TrainingExample], config: TrainConfig
) -> ScoredExamples:
    """The judge's scores of ``examples``; of ``answered_rows`` of them, drawn, if it is generative,
    which takes seconds a dialogue."""
    from medal_judges.models.prompted.judge import PromptedJudge

    chosen = examples
    if isinstance(judge, PromptedJudge) and len(examples) > config.answered_rows:
        order = np.random.default_rng(config.seed).permutation(len(examples))
        chosen = [examples[i] for i in sorted(order[: config.answered_rows])]
    return ScoredExamples(chosen, judge_scores(judge, chosen))
