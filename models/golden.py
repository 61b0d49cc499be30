"""Golden scores: sixteen dialogues of our own, scored at the end of training and by every reader.

``python -m medal_judges.models.golden JUDGE`` loads the judge in a process of its own and
compares; a run whose judge does not come back the same fails.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from medal_judges.dialogue import Dialogue, parse_dialogue
from medal_judges.errors import JudgeLoadError
from medal_judges.models.judge import Judge

GOLDEN_NAME = "golden.json"
TOLERANCE = 1e-5  # fp32 on CPU, as a share of the dimension's scale


def golden_dialogues() -> list[Dialogue]:
    """The sixteen dialogues of configs/golden.yaml, in six languages."""
    from medal_judges.config import read_yaml

    return [parse_dialogue(record) for record in read_yaml("golden")["dialogues"]]


def golden_scores(judge: Judge) -> list[dict[str, float | None]]:
    """The judge's scores of each golden dialogue."""
    return [dict(j.scores) for j in judge.score(golden_dialogues())]


def write_golden(judge: Judge, folder: Path) -> None:
    """Write golden.json into the judge's folder: scores, tolerance and the versions they need."""
    import torch
    import transformers

    from medal_judges import __version__

    record = {
        "signature": str(judge.signature()),
        "tolerance": TOLERANCE,
        "versions": {
            "medal_judges": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "dialogues": [d.to_record() for d in golden_dialogues()],
        "scores": golden_scores(judge),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (folder / GOLDEN_NAME).write_text(text + "\n", encoding="utf-8")


def deviation(judge: Judge, record: dict[str, Any]) -> float:
    """Largest difference between ``judge`` and golden scores, as a share of the scale."""
    dialogues = [parse_dialogue(d) for d in record["dialogues"]]
    worst = 0.0
    for found, wanted in zip(judge.score(dialogues), record["scores"], strict=True):
        for name, value in wanted.items():
            now = found.scores[name]
            if (now is None) != (value is None):
                return float("inf")
            if now is not None and value is not None:
                dimension = judge.dimension(name)
                share = abs(now - value) / (dimension.high - dimension.low)
                worst = max(worst, share if math.isfinite(share) else math.inf)
    return worst


def check_golden(folder: Path) -> float:
    """Deviation of the judge saved in ``folder``, loaded here on CPU in fp32.

    Raises JudgeLoadError when it is above the tolerance or there is no golden.json.
    """
    path = folder / GOLDEN_NAME
    if not path.is_file():
        raise JudgeLoadError(f"{folder}: no {GOLDEN_NAME}")
    record = json.loads(path.read_text(encoding="utf-8"))
    worst = deviation(Judge.from_pretrained(folder, device="cpu"), record)
    if worst > record["tolerance"]:
        raise JudgeLoadError(f"{folder}: scores differ by {worst:.2e} from {GOLDEN_NAME}")
    return worst


def check_in_fresh_process(folder: Path) -> None:
    """``check_golden`` in a new Python process. Raises JudgeLoadError when it fails."""
    command = [sys.executable, "-m", "medal_judges.models.golden", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise JudgeLoadError(
            f"{folder}: the saved judge does not come back the same in a fresh process",
            hint=done.stderr.strip()[-2000:],
        )


if __name__ == "__main__":
    print(f"largest deviation {check_golden(Path(sys.argv[1])):.2e}")
