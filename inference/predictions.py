"""Predictions: a judge judges each set once; the file is used again while nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from medal_judges.dialogue import Dialogue
from medal_judges.inference.scoring import score_to_file
from medal_judges.jsonl import read_judgements
from medal_judges.judgement import Judgement
from medal_judges.models.judge import Judge, ScoreLevel


def judge_once(
    judge: Judge,
    dialogues: Sequence[Dialogue],
    out: Path,
    *,
    data: str,
    level: ScoreLevel,
    dimensions: Sequence[str],
    progress: Callable[[int], None] | None = None,
) -> list[Judgement]:
    """Judgements of ``dialogues``, from ``out`` where that file is of this judge and data.

    ``data`` names what the dialogues are (a hash of them). A file beside ``out`` (.meta.json) says
    what it was made of, and whether it is complete: a run that was stopped is gone on with; other
    judge, data, level or dimensions start it anew.
    """
    about: dict[str, object] = {
        "signature": str(judge.signature()),
        "data": data,
        "level": level,
        "dimensions": list(dimensions),
        "rows": len(dialogues),
    }
    meta = out.with_name(out.name.removesuffix(".jsonl") + ".meta.json")
    found = _read_meta(meta)
    same = out.is_file() and {k: found.get(k) for k in about} == about
    if same and found.get("complete"):
        if progress is not None:
            progress(len(dialogues))
        return list(read_judgements(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    _write_meta(meta, about | {"complete": False})
    score_to_file(
        iter(dialogues),
        judge,
        out,
        level=level,
        dimensions=dimensions,
        overwrite=not same,
        progress=progress,
    )
    _write_meta(meta, about | {"complete": True})
    return list(read_judgements(out))


def _read_meta(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_meta(path: Path, about: dict[str, object]) -> None:
    path.write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
