"""Golden scores: sixteen dialogues of our own, scored at the end of training and by every reader.

``python -m medal_judges.models.base.golden JUDGE`` loads the judge in a process of its own and
compares; a run whose judge does not come back the same fails. ``medal doctor JUDGE`` does the same
for a reader.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from medal_judges.dialogue import Dialogue, parse_dialogue
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.judge import Judge

GOLDEN_NAME = "golden.json"
TOLERANCE = 1e-5  # fp32 on CPU, as a share of the dimension's scale
COARSE = 2e-2  # bf16 has three digits: another GPU or batch moves a score by some thousandths
LARGE = 1_000_000_000  # parameters from which fp32 on a CPU takes minutes a dialogue
FEW, SHORT = 4, 4  # dialogues of a large judge, and turns of each
PACKAGES = ("medal-judges", "torch", "transformers", "tokenizers", "numpy")


@dataclass(frozen=True, slots=True)
class Setting:
    """How golden scores are taken: device and dtype of the judge, how many dialogues, and how many
    turns of each (None: all)."""

    device: str = "cpu"
    dtype: str = "fp32"
    dialogues: int | None = None
    turns: int | None = None

    @property
    def tolerance(self) -> float:
        """Allowed difference as a share of the scale."""
        return TOLERANCE if (self.device, self.dtype) == ("cpu", "fp32") else COARSE


def setting_for(net: Any, device: str, precision: str) -> Setting:
    """fp32 on a CPU with all dialogues; of a large ``net`` the device and ``precision`` (``no``,
    ``bf16``, ``fp16``) that it was trained in, and fewer and shorter dialogues."""
    if sum(parameter.numel() for parameter in net.parameters()) < LARGE:
        return Setting()
    return Setting(device, "fp32" if precision == "no" else precision, FEW, SHORT)


def settle(judge: Judge, setting: Setting) -> None:
    """``judge`` in place as ``from_pretrained`` would load it for ``setting``. A quantised one
    stays where it is: it cannot be moved."""
    net: Any = getattr(judge, "net", None)
    settings = getattr(judge, "lora", getattr(judge, "config", None))
    if net is None or getattr(settings, "quantize", None):
        return
    import torch

    from medal_judges.models.encoder.judge import DTYPES

    own: Any = judge
    own.net = net.to(setting.device).float().eval()
    own.device, own.dtype = torch.device(setting.device), setting.dtype
    if setting.dtype != "fp32":
        # Heads stay in fp32; a judge that writes its answers has none.
        (net if hasattr(judge, "lora") else net.body).to(DTYPES[setting.dtype])


@dataclass(frozen=True, slots=True)
class GoldenCheck:
    """A judge as it answers here beside its golden.json.

    ``deviation`` is the largest difference as a share of the dimension's scale (infinite where one
    side is unscored), ``where`` the dialogue and dimension that it was found at. ``then`` and
    ``now`` are versions of packages, ``signature_then`` and ``signature`` the judge's.
    """

    deviation: float
    tolerance: float
    where: str
    then: Mapping[str, str]
    now: Mapping[str, str]
    signature_then: str
    signature: str

    @property
    def holds(self) -> bool:
        return self.deviation <= self.tolerance


def golden_dialogues(setting: Setting | None = None) -> list[Dialogue]:
    """The sixteen dialogues of configs/golden.yaml, in six languages; of ``setting`` the first
    turns of some of them."""
    from medal_judges.config import read_yaml

    found = [parse_dialogue(record) for record in read_yaml("golden")["dialogues"]]
    if setting is None or setting.dialogues is None:
        return found
    # Spread over the file, whose neighbours speak one language.
    step = len(found) // setting.dialogues
    chosen = found[::step][: setting.dialogues]
    return [d if setting.turns is None else d.upto(setting.turns - 1) for d in chosen]


def golden_scores(judge: Judge, setting: Setting | None = None) -> list[dict[str, float | None]]:
    """The judge's scores of each golden dialogue."""
    told = judge.score(golden_dialogues(setting), unknown_language="allow")
    return [dict(j.scores) for j in told]


def versions() -> dict[str, str]:
    """Installed versions of the packages that a score can depend on."""
    found = {}
    for package in PACKAGES:
        try:
            found[package.replace("-", "_")] = version(package)
        except PackageNotFoundError:
            continue
    return found


def write_golden(judge: Judge, folder: Path, setting: Setting | None = None) -> None:
    """Write golden.json into the judge's folder: scores, tolerance, and the device, dtype and
    versions they need. ``judge`` stands as ``setting`` says (see ``settle``)."""
    setting = setting or Setting()
    record = {
        "signature": str(judge.signature()),
        "device": setting.device,
        "dtype": setting.dtype,
        "tolerance": setting.tolerance,
        "versions": versions(),
        "dialogues": [d.to_record() for d in golden_dialogues(setting)],
        "scores": golden_scores(judge, setting),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (folder / GOLDEN_NAME).write_text(text + "\n", encoding="utf-8")


def read_golden(folder: Path) -> dict[str, Any]:
    """golden.json of a judge. Raises JudgeLoadError when there is none or it is not whole."""
    path = folder / GOLDEN_NAME
    if not path.is_file():
        raise JudgeLoadError(
            f"{folder}: no {GOLDEN_NAME}: nothing says how this judge should answer",
            hint=f"medal doctor {folder} --write  (takes the judge as it answers here)",
        )
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not record["scores"] or len(record["scores"]) != len(record["dialogues"]):
            raise ValueError("its scores are not one for each dialogue")
    except (KeyError, TypeError, ValueError) as error:
        raise JudgeLoadError(f"{path}: not golden scores: {error}") from error
    return dict(record)


def deviation(judge: Judge, record: Mapping[str, Any]) -> tuple[float, str]:
    """(largest difference between ``judge`` and golden scores as a share of the scale, where)."""
    dialogues = [parse_dialogue(d) for d in record["dialogues"]]
    worst, where = 0.0, ""
    answers = judge.score(dialogues, unknown_language="allow")
    for found, wanted in zip(answers, record["scores"], strict=True):
        for name in {**wanted, **found.scores}:
            share = _share(judge, name, found.scores.get(name), wanted.get(name))
            if share > worst:
                worst, where = share, f"{found.id}, {name}"
    return worst, where


def _share(judge: Judge, name: str, now: float | None, then: float | None) -> float:
    if now is None or then is None:
        return 0.0 if now is then else math.inf
    dimension = judge.dimension(name)
    share = abs(now - then) / (dimension.high - dimension.low)
    return share if math.isfinite(share) else math.inf


def compare(
    folder: Path, *, device: str | None = None, options: Mapping[str, Any] | None = None
) -> GoldenCheck:
    """The judge saved in ``folder``, loaded here as golden.json says and with ``options``, beside
    its scores there: on ``device``, else on the one they were taken on, or a CPU where it is not
    here.

    Raises JudgeLoadError when there is no golden.json.
    """
    record = read_golden(folder)
    dtype = record.get("dtype", "fp32")
    given = dict(options or {}) | ({} if dtype == "fp32" else {"dtype": dtype})
    place = device or _here(record.get("device", "cpu"))
    judge = Judge.from_pretrained(folder, device=place, **given)
    worst, where = deviation(judge, record)
    return GoldenCheck(
        deviation=worst,
        tolerance=record["tolerance"],
        where=where,
        then=record.get("versions", {}),
        now=versions(),
        signature_then=record.get("signature", ""),
        signature=str(judge.signature()),
    )


def _here(device: str) -> str:
    import torch

    return "cpu" if device == "cuda" and not torch.cuda.is_available() else device


def check_golden(folder: Path, options: Mapping[str, Any] | None = None) -> float:
    """Deviation of the judge saved in ``folder``, loaded here (see ``compare``).

    Raises JudgeLoadError when it is above the tolerance or there is no golden.json.
    """
    found = compare(folder, options=options)
    if not found.holds:
        raise JudgeLoadError(
            f"{folder}: scores differ by {found.deviation:.2e} of the scale from {GOLDEN_NAME} "
            f"(at {found.where}; {found.tolerance:.0e} is allowed)",
            hint=f"medal doctor {folder}",
        )
    return found.deviation


def check_in_fresh_process(folder: Path, options: Mapping[str, Any] | None = None) -> None:
    """``check_golden`` in a new Python process. Raises JudgeLoadError when it fails."""
    command = [sys.executable, "-m", "medal_judges.models.base.golden", str(folder)]
    given = json.dumps(options or {})  # not on the command line, which others can read
    done = subprocess.run(command, capture_output=True, text=True, input=given)
    if done.returncode != 0:
        raise JudgeLoadError(
            f"{folder}: the saved judge does not come back the same in a fresh process",
            hint=done.stderr.strip()[-2000:],
        )


if __name__ == "__main__":
    print(f"largest deviation {check_golden(Path(sys.argv[1]), json.load(sys.stdin)):.2e}")
