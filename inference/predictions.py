"""Predictions: a judge judges each set once; the file is used again while nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

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
    """Judgements of ``dialogues``, from ``out`` where that file is of this judge and data.

    ``data`` names what the dialogues are (a hash of them). A file beside ``out`` (.meta.json) says
    what it was made of, and whether it is complete: a run that was stopped is resumed, and rows
    that lack an answer which may come now are asked again. Another judge, data, level or dimensions
    start it again from the beginning.
    """
    about: dict[str, object] = {
        "signature": str(judge.signature()),
        "data": data,
        "level": options.level,
        "dimensions": list(options.dimensions or ()),
        "rows": len(dialogues),
    }
    meta = _meta_of(out)
    earlier = _read_meta(meta)
    unchanged = {k: earlier.get(k) for k in about} == about
    same = out.is_file() and unchanged and not options.overwrite
    if same and earlier.get("complete") and not options.retry_failed:
        if progress is not None:
            progress(len(dialogues))
        return list(read_judgements(out))
    judged, seconds = judging_time(out) if same else (0, 0.0)
    _write_meta(meta, about | {"complete": False, "judged": judged, "seconds": seconds})
    options = options.model_copy(update={"overwrite": not same})
    report = score_to_file(iter(dialogues), judge, out, options, progress=progress)
    spent = {"judged": judged + report.dialogues, "seconds": seconds + report.seconds}
    _write_meta(meta, about | {"complete": not report.transient} | spent)
    return list(read_judgements(out))


def judging_time(out: Path) -> tuple[int, float]:
    """(Dialogues, seconds) that ``judge_once`` has judged into ``out``, all runs together that came
    to their end; (0, 0) where it is not known."""
    meta = _read_meta(_meta_of(out))
    judged, seconds = meta.get("judged"), meta.get("seconds")
    if not isinstance(judged, int) or not isinstance(seconds, int | float):
        return 0, 0.0
    return judged, float(seconds)


def _meta_of(out: Path) -> Path:
    return out.with_name(out.name.removesuffix(".jsonl") + ".meta.json")


def _read_meta(path: Path) -> dict[str, object]:
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}


def _write_meta(path: Path, about: dict[str, object]) -> None:
    atomic_write(path, json.dumps(about, indent=2, ensure_ascii=False) + "\n")
