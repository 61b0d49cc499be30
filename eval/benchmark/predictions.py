"""Predictions of the rows of a benchmark's set, made once (see inference/predictions.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from medal_judges.eval.benchmark.sets import BenchmarkSet
from medal_judges.inference.predictions import judge_once
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.judgement import Judgement
from medal_judges.models.base.judge import Judge


def predict(
    judge: Judge,
    data: BenchmarkSet,
    out: Path,
    *,
    dimensions: Sequence[str],
    retry_failed: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Judgement]:
    """Judgements of the set's rows; see ``judge_once``."""
    return judge_once(
        judge,
        [row.dialogue for row in data.rows],
        out,
        ScoreOptions(data.level, dimensions, retry_failed=retry_failed, overwrite=overwrite),
        data=data.data,
        progress=progress,
    )
