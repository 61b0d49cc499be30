"""The end of a run, in one process: scores of held-out rows, the judge's folder, its check."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from medal_judges.models.base.golden import GoldenSetting, check_in_fresh_process, write_golden
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.judged_languages import languages_of
from medal_judges.storage.files import atomic_write
from medal_judges.training.agreement import (
    AGREEMENT_NAME,
    ScoredExamples,
    agreement,
    baseline_scores,
    judge_scores,
)
from medal_judges.training.config import TrainConfig
from medal_judges.training.rows.examples import TrainingExample
from medal_judges.training.rows.rows import RunRows

logger = logging.getLogger(__name__)


def finish(
    config: TrainConfig,
    judge: Judge,
    rows: RunRows,
    figures: Mapping[str, float],
    scored: Mapping[str, ScoredExamples] | None = None,
    setting: GoldenSetting | None = None,
) -> Path:
    """Save the judge and the facts of its run, and check it in a fresh process; its folder.

    ``scored``: what is known of its scores, by part of the data; the rest of the held-out rows is
    asked here, of a hybrid nothing (a member may cost money). ``setting``: how its golden scores
    are taken.
    """
    if judge.languages is None:
        judge.languages = languages_of(example.dialogue for example in rows.train)
    folder = judge.save_pretrained(config.output_dir)
    known = dict(scored or {})
    for part, examples in (("validation", rows.validation), ("test", rows.test)):
        if part in known or not examples:
            continue
        if judge.family == "hybrid":
            logger.warning("a hybrid is not asked for its %s rows: medal benchmark does that", part)
            continue
        known[part] = ask(judge, examples, config)
    agreements = []
    for part, one in known.items():
        dimensions = [d for d in judge.dimensions if d.name in one.scores]
        plain = baseline_scores(rows.train, one.examples, dimensions, config.seed)
        agreements += agreement(one, plain, dimensions, part)
    # The folder may be published, so that its place on this disk is left out.
    public = config.model_copy(update={"output_dir": folder.name})
    _write(folder / "train_config.json", public.model_dump(mode="json"))
    _write(folder / "validation.json", dict(figures))
    _write(folder / AGREEMENT_NAME, [asdict(row) for row in agreements])
    _write(folder / "data.json", rows.facts)
    setting = setting or GoldenSetting()
    judge.place(setting.device, setting.dtype)
    write_golden(judge, folder, setting)
    check_in_fresh_process(folder, judge.load_options())
    return folder


def ask(judge: Judge, examples: Sequence[TrainingExample], config: TrainConfig) -> ScoredExamples:
    """The judge's scores of ``examples``; of ``answered_rows`` drawn ones where it writes its
    answers, which takes seconds a dialogue."""
    from medal_judges.models.prompted.judge import PromptedJudge

    chosen = examples
    if isinstance(judge, PromptedJudge) and len(examples) > config.answered_rows:
        order = np.random.default_rng(config.seed).permutation(len(examples))
        chosen = [examples[i] for i in sorted(order[: config.answered_rows])]
    return ScoredExamples(chosen, judge_scores(judge, chosen))


def _write(path: Path, value: object) -> None:
    atomic_write(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
