"""Predictions: a judge scores each set once; the file is reused while nothing changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from medal_judges.inference.scoring import ScoreOptions, score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.storage.files import atomic_write
from medal_judges.storage.judgements import read_judgements


def judge_once(
    judge: Judge,
    dialogues: Sequence[Dialogue],
    out: Path,
    options: ScoreOptions,
    *,
    data: str,
    progress: Callable[[int], None] | None = None,
) -> list[Judgement]:
    """Returns the judgements of ``dialogues``, from ``out`` if that file is of this judge and data.

    ``data`` identifies the dialogues (a hash of them). A file beside ``out`` (.meta.json) says what
    it was made of, and whether it is complete: a stopped run is resumed, and rows with a transient
    failure are scored again. Another judge, data, level or dimensions start it from the beginning.
    """
    about: dict[str, object] = {
        "signature": str(judge.signature()),
        "data": data,
        "level": options.level,
        "dimensions": list(options.dimensions or ()),
        "rows": len(dialogues),
    }
    meta = out.with_name(out.name.removesuffix(".jsonl") + ".meta.json")
    earlier = _read_meta(out)

    def write(**state: object) -> None:
        atomic_write(meta, json.dumps(about | state, indent=2, ensure_ascii=False) + "\n")

    unchanged = {k: earlier.get(k) for k in about} == about
    same = out.is_file() and unchanged and not options.overwrite
    if same and earlier.get("complete") and not options.retry_failed:
        if progress is not None:
            progress(len(dialogues))
        return list(read_judgements(out))
    judged, seconds = judging_time(out) if same else (0, 0.0)
    write(complete=False, judged=judged, seconds=seconds)
    options = options.model_copy(update={"overwrite": not same})
    report = score_to_file(iter(dialogues), judge, out, options, progress=progress)
    write(
        complete=not report.transient,
        judged=judged + report.dialogues,
        seconds=seconds + report.seconds,
    )
    return list(read_judgements(out))


def judging_time(out: Path) -> tuple[int, float]:
    """Returns (dialogues, seconds) that ``judge_once`` has judged into ``out``, over all finished
    runs; (0, 0) if it is not known."""
    meta = _read_meta(out)
    return meta.get("judged", 0), meta.get("seconds", 0.0)


def _read_meta(out: Path) -> dict[str, Any]:
    try:
        path = out.with_name(out.name.removesuffix(".jsonl") + ".meta.json")
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}
