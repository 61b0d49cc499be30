"""Golden scores: a judge's scores of sixteen dialogues, saved with it to check it on other
machines.

``medal train`` fails if the saved judge, loaded again, gives other scores. ``medal doctor JUDGE``
runs the same check."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from medal_judges.config import read_yaml
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.saving import GOLDEN_NAME, load_judge
from medal_judges.models.device import DTYPES
from medal_judges.records.dialogue import Dialogue, parse_dialogue_line
from medal_judges.records.dimension import EQUAL

COARSE = 2e-2  # of bf16, whose scores differ by thousandths between GPUs and batches
FEW = 4  # dialogues for a judge that writes answers


@dataclass(frozen=True, slots=True)
class GoldenCheck:
    """The result of a check that a judge gives the same scores on this machine as on the machine
    that saved it.

    A judge is saved with its golden scores, its scores of up to sixteen fixed dialogues.

    Attributes:
        deviation: The largest difference between a score and its golden score, as a share of the
            length of the dimension's scale: 0.01 is 0.04 points on a scale from 1 to 5. Infinite if
            only one of the two is missing.
        where: The dialogue and dimension of the largest difference, such as ``golden-03, overall``.
            Empty if all scores are equal.
        golden: The content of golden.json: the dialogues, their golden scores, and ``tolerance``,
            the largest ``deviation`` that is allowed.
    """

    deviation: float
    where: str
    golden: Mapping[str, Any]

    @property
    def holds(self) -> bool:
        """Whether ``deviation`` is at most the tolerance in golden.json."""
        return self.deviation <= float(self.golden["tolerance"])


def golden_dialogues() -> list[Dialogue]:
    """Returns sixteen fixed dialogues, in six languages. A judge is saved with its scores of
    these dialogues, so that it can be checked on other machines."""
    return [parse_dialogue_line(record) for record in read_yaml("golden")["dialogues"]]


def write_golden_scores(judge: Any, folder: Path) -> None:
    """Scores sixteen fixed dialogues, and writes the dialogues and their scores to golden.json in
    ``folder``. ``medal doctor`` later compares with these scores.

    Args:
        judge: The judge that scores. If it asks language models, it scores only four of the
            dialogues.
        folder: The judge's folder.
    """
    dialogues = golden_dialogues()
    if judge.language_models():
        # Evenly spaced, because neighbours in the file share a language.
        dialogues = dialogues[:: len(dialogues) // FEW]
    device = getattr(judge, "device", "cpu")
    dtype = getattr(judge, "dtype", "fp32")
    is_exact = (str(device), dtype) == ("cpu", "fp32")
    judgements = judge.score(dialogues, warn=False)
    record = {
        "signature": str(judge.signature()),
        "device": str(device),
        "dtype": dtype,
        "tolerance": EQUAL if is_exact else COARSE,
        "dialogues": [dialogue.to_record() for dialogue in dialogues],
        "scores": [dict(judgement.scores) for judgement in judgements],
    }
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (folder / GOLDEN_NAME).write_text(text + "\n", encoding="utf-8")


def read_golden(folder: Path) -> dict[str, Any]:
    """Returns the content of golden.json in the judge's ``folder``.

    Its main fields are ``dialogues``, ``scores`` and ``tolerance``. ``scores`` has a dict for each
    dialogue, in order: dimension -> the judge's score. ``tolerance`` is the largest difference of
    scores that passes a check, as a share of the length of the scale.

    Raises:
        JudgeLoadError: The file is missing or damaged.
    """
    path = folder / GOLDEN_NAME
    if not path.is_file():
        raise JudgeLoadError(
            f"{folder}: without {GOLDEN_NAME} the expected scores are not known",
            hint="Load the judge and save it again with save_pretrained, which writes the file",
        )
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not record["scores"] or len(record["scores"]) != len(record["dialogues"]):
            raise ValueError("its scores are not one for each dialogue")
        return dict(record)
    except (KeyError, TypeError, ValueError) as error:
        raise JudgeLoadError(
            f"{path}: not golden scores. Copy the whole folder again: {error}"
        ) from error


def compare_with_golden(
    folder: Path,
    *,
    device: str | None = None,
    options: Mapping[str, object] | None = None,
) -> GoldenCheck:
    """Loads a saved judge, scores the dialogues in its golden.json, and compares the scores with
    those in golden.json.

    Args:
        folder: The judge's folder.
        device: Where the judge runs. None is the device that golden.json names, or the CPU if this
            machine has no GPU.
        options: Further options for loading the judge, such as ``{"dtype": "bf16"}``. If
            golden.json names bf16 or fp16, that dtype is used instead.

    Returns:
        The largest difference of scores, and where it is.

    Raises:
        JudgeLoadError: golden.json is missing or damaged, or the judge cannot be loaded.
        ConfigError: This machine does not have the device.
    """
    import torch

    golden = read_golden(folder)
    changed: dict[str, Any] = dict(options or {})
    if golden["dtype"] in DTYPES[1:]:
        changed["dtype"] = golden["dtype"]
    if device is None:
        device = golden["device"] if torch.cuda.is_available() else "cpu"
    judge = load_judge(folder, device=device, **changed)
    deviation, where = 0.0, ""
    dialogues = [parse_dialogue_line(record) for record in golden["dialogues"]]
    judgements = judge.score(dialogues, warn=False)
    for judgement, golden_scores in zip(judgements, golden["scores"], strict=True):
        for dimension in judge.dimensions:
            score = judgement.scores[dimension.name]
            golden_score = golden_scores.get(dimension.name)
            difference = 0.0 if score is golden_score else math.inf
            if score is not None and golden_score is not None:
                difference = abs(score - golden_score)
            share = difference / (dimension.high - dimension.low)
            if share > deviation:
                deviation, where = share, f"{judgement.id}, {dimension.name}"
    return GoldenCheck(deviation, where, golden)


def require_golden_scores(
    folder: Path, options: Mapping[str, object] | None = None
) -> float:
    """Raises JudgeLoadError unless a saved judge still gives the scores in its golden.json.

    Args:
        folder: The judge's folder.
        options: Options for loading the judge, such as ``{"dtype": "bf16"}``.

    Returns:
        The largest difference between a score and its golden score, divided by the length of the
        dimension's scale.

    Raises:
        JudgeLoadError: The difference is above the tolerance, golden.json is missing or damaged, or
            the judge cannot be loaded.
    """
    check = compare_with_golden(folder, options=options)
    if not check.holds:
        raise JudgeLoadError(
            f"{folder}: scores differ by {check.deviation:.2e} of the scale from {GOLDEN_NAME} "
            f"(at {check.where}; {check.golden['tolerance']:.0e} is allowed)",
            hint=f"Type: medal doctor {quote(str(folder))}",
        )
    return check.deviation
