"""Golden scores: a judge's scores of sixteen dialogues, saved with it and compared on loading.

At the end of training ``python -m medal_judges.models.base.golden JUDGE`` compares them in a fresh
process, and the run fails if they differ. ``medal doctor JUDGE`` runs the same check.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from medal_judges.config import read_yaml
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.saving import GOLDEN_NAME, load_judge
from medal_judges.records.dialogue import Dialogue, parse_dialogue_line
from medal_judges.records.dimension import EQUAL
from medal_judges.report.console import ProgressBar

if TYPE_CHECKING:
    from torch import nn

COARSE = 2e-2  # of bf16, whose scores differ by thousandths between GPUs and batches
LARGE = 1_000_000_000  # parameters; with more, fp32 on a CPU takes minutes a dialogue
FEW, SHORT = 4, 4  # dialogues for a large judge or one that writes, and turns of each
PACKAGES = ("medal-judges", "torch", "transformers", "tokenizers", "numpy")


@dataclass(frozen=True, slots=True)
class GoldenSetting:
    """How golden scores are computed: the judge's device and dtype, the number of dialogues and the
    number of turns of each (None: all)."""

    device: str = "cpu"
    dtype: str = "fp32"
    dialogues: int | None = None
    turns: int | None = None

    @property
    def tolerance(self) -> float:
        """The allowed difference as a share of the scale."""
        return EQUAL if (self.device, self.dtype) == ("cpu", "fp32") else COARSE


def setting_for(
    net: nn.Module, device: str, precision: str, *, writes: bool = False
) -> GoldenSetting:
    """Returns the setting for a trained ``net``: fp32 on a CPU and all dialogues; for a large net
    the device and ``precision`` (``no``, ``bf16``, ``fp16``) of its training, and fewer, shorter
    dialogues, as for a net that ``writes`` answers: seconds each on a CPU. A quantised net stays on
    its device and computes in bf16."""
    parameters = list(net.parameters())
    is_large = sum(parameter.numel() for parameter in parameters) >= LARGE
    size = (FEW, SHORT) if is_large or writes else ()
    if not all(parameter.is_floating_point() for parameter in parameters):
        return GoldenSetting(device, "bf16", *size)
    if not is_large:
        return GoldenSetting("cpu", "fp32", *size)
    return GoldenSetting(device, "fp32" if precision == "no" else precision, *size)


def current_setting(judge: Any) -> GoldenSetting:
    """Returns the setting for ``judge`` on its present device and in its present dtype."""
    if (net := getattr(judge, "net", None)) is None:
        return GoldenSetting()
    dtype = judge.dtype
    precision, writes = (
        "no" if dtype == "fp32" else dtype,
        bool(judge.language_models()),
    )
    setting = setting_for(net, judge.device.type, precision, writes=writes)
    if (setting.device, setting.dtype) == ("cpu", "fp32"):
        setting = replace(setting, device=judge.device.type, dtype=dtype)
    return setting


@dataclass(frozen=True, slots=True)
class GoldenCheck:
    """A comparison of a judge's scores on this machine with its golden.json.

    ``deviation`` is the largest difference as a share of the dimension's scale (infinite if only
    one of the two is scored), at the dialogue and dimension ``where``. ``golden`` is the content of
    the file; ``versions`` and ``signature`` are the current ones.
    """

    deviation: float
    where: str
    golden: Mapping[str, Any]
    versions: Mapping[str, str]
    signature: str

    @property
    def holds(self) -> bool:
        return self.deviation <= float(self.golden["tolerance"])


def golden_dialogues(setting: GoldenSetting | None = None) -> list[Dialogue]:
    """Returns the sixteen dialogues of configs/golden.yaml, in six languages; with ``setting`` as
    many of them, and as many turns of each, as it states."""
    dialogues = [
        parse_dialogue_line(record) for record in read_yaml("golden")["dialogues"]
    ]
    if setting is None or setting.dialogues is None:
        return dialogues
    # Evenly spaced, because neighbours in the file share a language.
    chosen = dialogues[:: len(dialogues) // setting.dialogues][: setting.dialogues]
    return [d if setting.turns is None else d.upto(setting.turns - 1) for d in chosen]


def versions() -> dict[str, str]:
    """Returns the versions of the installed packages that a score can depend on."""
    installed = {}
    for package in PACKAGES:
        try:
            installed[package.replace("-", "_")] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def write_golden(
    judge: Any, folder: Path, setting: GoldenSetting | None = None
) -> None:
    """Writes golden.json into the judge's folder: scores, tolerance, device, dtype and versions.
    ``judge`` must have the device and dtype of ``setting`` (see Judge.place)."""
    setting = setting or current_setting(judge)
    dialogues = golden_dialogues(setting)
    with ProgressBar(
        "golden scores", len(dialogues), visible=bool(judge.language_models())
    ) as bar:
        bar.console.print(
            f"golden scores: answering {len(dialogues)} dialogues", highlight=False
        )
        judgements = [
            *judge.score(dialogues, unknown_language="allow", progress=bar.advance)
        ]
    record = {
        "signature": str(judge.signature()),
        "device": setting.device,
        "dtype": setting.dtype,
        "tolerance": setting.tolerance,
        "versions": versions(),
        "dialogues": [d.to_record() for d in dialogues],
        "scores": [dict(judgement.scores) for judgement in judgements],
    }
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (folder / GOLDEN_NAME).write_text(text + "\n", encoding="utf-8")


def read_golden(folder: Path) -> dict[str, Any]:
    """Returns the content of a judge's golden.json. Raises JudgeLoadError if it is missing or
    damaged."""
    path = folder / GOLDEN_NAME
    if not path.is_file():
        raise JudgeLoadError(
            f"{folder}: no {GOLDEN_NAME}: the expected scores are not known",
            hint="load the judge and save it again: save_pretrained writes the file",
        )
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not record["scores"] or len(record["scores"]) != len(record["dialogues"]):
            raise ValueError("its scores are not one for each dialogue")
        return {"versions": {}, "signature": "", **record}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise JudgeLoadError(f"{path}: not golden scores: {error}") from error


def compare(
    folder: Path,
    *,
    device: str | None = None,
    options: Mapping[str, object] | None = None,
) -> GoldenCheck:
    """Compares the judge saved in ``folder``, loaded with ``options``, with its golden scores: on
    ``device``, by default on the device of golden.json, or on a CPU if there is no GPU.

    Raises JudgeLoadError if there is no golden.json.
    """
    import torch

    golden = read_golden(folder)
    load_options: dict[str, Any] = dict(options or {})
    if golden.get("dtype", "fp32") != "fp32":
        load_options["dtype"] = golden["dtype"]
    if device is None:
        device = golden.get("device", "cpu") if torch.cuda.is_available() else "cpu"
    judge = load_judge(folder, device=device, **load_options)
    worst, where = 0.0, ""
    dialogues = [parse_dialogue_line(record) for record in golden["dialogues"]]
    judgements = judge.score(dialogues, unknown_language="allow")
    for judgement, golden_scores in zip(judgements, golden["scores"], strict=True):
        for name in {**golden_scores, **judgement.scores}:
            score, golden_score = judgement.scores.get(name), golden_scores.get(name)
            share = 0.0 if score is golden_score else math.inf
            if score is not None and golden_score is not None:
                dimension = judge.dimension(name)
                share = abs(score - golden_score) / (dimension.high - dimension.low)
            if not share <= worst:  # NaN is a difference too
                worst = share if math.isfinite(share) else math.inf
                where = f"{judgement.id}, {name}"
    return GoldenCheck(worst, where, golden, versions(), str(judge.signature()))


def check_golden(folder: Path, options: Mapping[str, object] | None = None) -> float:
    """Returns the deviation of the judge saved in ``folder`` (see ``compare``). Raises
    JudgeLoadError if it is above the tolerance or there is no golden.json."""
    check = compare(folder, options=options)
    if not check.holds:
        raise JudgeLoadError(
            f"{folder}: scores differ by {check.deviation:.2e} of the scale from {GOLDEN_NAME} "
            f"(at {check.where}; {check.golden['tolerance']:.0e} is allowed)",
            hint=f"medal doctor {quote(str(folder))}",
        )
    return check.deviation


def check_in_fresh_process(
    folder: Path, options: Mapping[str, object] | None = None
) -> None:
    """Runs ``check_golden`` in a new Python process. Raises JudgeLoadError if it fails."""
    command = [sys.executable, "-m", "medal_judges.models.base.golden", str(folder)]
    stdin = json.dumps(options or {})  # not on the command line, which others can read
    process = subprocess.run(command, capture_output=True, text=True, input=stdin)
    if process.returncode != 0:
        raise JudgeLoadError(
            f"{folder}: the saved judge does not give the same scores in a fresh process",
            hint=process.stderr.strip()[-2000:],
        )


if __name__ == "__main__":
    print(
        f"largest deviation {check_golden(Path(sys.argv[1]), json.load(sys.stdin)):.2e}"
    )
