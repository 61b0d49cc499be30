"""In which precision an encoder judge scores where ``dtype="auto"`` leaves that to the hardware.

bf16 is taken where four things hold: the device says that it multiplies bf16, a trial on the golden
dialogues was faster in it, and of all their beginnings no score moved by more than ``MOVED`` of its
scale and their order stayed (Spearman of at least ``ORDER``). The trial takes seconds and is
kept in the cache for this judge, CPU and version of torch, unless the machine was too busy for its
times to be believed.

``auto`` is not the default: the same command would give numbers that differ in the third digit on
two machines, a file begun on one could not be resumed on the other, and a gate in CI could pass
here and fail there. Who scores much asks for it; ``medal score`` says so after a run in fp32.
"""

from __future__ import annotations

import json
import logging
import math
import platform
import time
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from medal_judges.models.base.golden import golden_dialogues
from medal_judges.records.signature import content_hash
from medal_judges.stats.correlation import weighted_spearman
from medal_judges.storage.files import atomic_write, cache_folder

if TYPE_CHECKING:
    from medal_judges.models.base.learned import NetworkJudge

logger = logging.getLogger(__name__)

MOVED = 0.02  # share of the scale; golden scores in bf16 are held to the same (golden.py)
ORDER = 0.999
FASTER = 1.2
_ROUNDS, _MOST = 3, 9  # timings of each precision: as many as it takes until the best two agree
_STEADY = 1.1
FORMAT = 2


@dataclass(frozen=True, slots=True)
class PrecisionTrial:
    """``speedup``: how many times as fast as fp32 bf16 was. ``deviation``: the largest difference
    of a score as a share of its scale. ``spearman``: the lowest of a dimension, None where none is
    defined. ``steady``: whether the same was timed twice."""

    speedup: float
    deviation: float
    spearman: float | None
    steady: bool = True

    @property
    def refused(self) -> str | None:
        """Why bf16 is not taken; None where it is."""
        if not self.deviation <= MOVED:
            return f"bf16 moves its scores by more than {MOVED:.0%} of the scale"
        if self.spearman is not None and not self.spearman >= ORDER:
            return f"bf16 changes the order of its scores (Spearman below {ORDER})"
        return None if self.speedup >= FASTER else "bf16 is no faster here"


def reports_bf16(device: torch.device) -> bool:
    """Whether ``device`` says that it multiplies bf16 itself (a CPU: AMX, AVX-512 BF16, ARM's)."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    if platform.machine().lower() in ("x86_64", "amd64"):
        # oneDNN's own answer is yes on any AVX-512 CPU, where it makes do without.
        native = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")  # private, hence getattr
        return any(getattr(torch.cpu, name, bool)() for name in native)
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", bool)
    return bool(supported())


def place_by_trial(judge: NetworkJudge, revision: str) -> None:
    """Place ``judge``, which is in fp32, in bf16 where that holds; else ``judge.precision_note``
    says why not, and so does its signature. ``revision`` (see judge_revision) names it in the
    cache."""
    if not reports_bf16(judge.device):
        refused: str | None = f"this {judge.device.type} does not multiply bf16"
    else:
        file = cache_folder() / "precision" / f"{_key(judge, revision)}.json"
        trial = _kept(file)
        if trial is None:
            trial = tried(judge)
            if trial.steady:
                atomic_write(file, json.dumps(asdict(trial)) + "\n")
            else:
                logger.info("the machine is busy: bf16 will be tried again next time")
        refused = trial.refused
    judge.precision_note = refused
    if refused is None:
        judge.place(judge.device, "bf16")
    else:
        logger.info("%s scores in fp32: %s", judge.name, refused)


def tried(judge: NetworkJudge) -> PrecisionTrial:
    """The golden dialogues up to each turn of the assistant, scored by ``judge`` in fp32 and by a
    copy of it in bf16, in turns."""
    half = copy(judge)
    half.net = deepcopy(judge.net)
    half.place(judge.device, "bf16")
    dialogues = [d.upto(turn) for d in golden_dialogues() for turn in d.assistant_turns]
    seconds: dict[str, list[float]] = {"fp32": [], "bf16": []}
    scores = {}
    for number in range(1 + _MOST):  # the first of each lays out weights
        for each in (judge, half):
            start = time.perf_counter()
            found = list(each.score(dialogues, unknown_language="allow", detect_language=False))
            if number:
                seconds[each.dtype].append(time.perf_counter() - start)
            scores[each.dtype] = [dict(one.scores) for one in found]
        if number >= _ROUNDS and _steady(seconds):
            break
    moved, orders = [], []
    for dimension in judge.dimensions:
        one, other = (
            np.array([row[dimension.name] or 0.0 for row in scores[name]]) for name in seconds
        )
        moved.append(float(np.abs(one - other).max()) / (dimension.high - dimension.low))
        orders.append(float(weighted_spearman(one, other, np.ones((1, len(one))))[0]))
    fastest = {name: min(each) for name, each in seconds.items()}
    return PrecisionTrial(
        fastest["fp32"] / fastest["bf16"],
        max(moved),
        min((order for order in orders if not math.isnan(order)), default=None),
        _steady(seconds),
    )


def _steady(seconds: Mapping[str, Sequence[float]]) -> bool:
    """Whether the two best times of each precision agree."""
    best = [sorted(each)[:2] for each in seconds.values()]
    return all(second <= _STEADY * first for first, second in best)


def advice(judge: NetworkJudge) -> str | None:
    """What to say after a run in fp32 on a CPU that would be faster in bf16; None for others."""
    if judge.dtype != "fp32" or judge.precision_note or judge.device.type != "cpu":
        return None
    if not reports_bf16(judge.device):
        return None
    return (
        "this CPU multiplies bf16: --dtype auto tries it, and where it is faster takes it; scores "
        "then differ in the third digit"
    )


def _key(judge: NetworkJudge, revision: str) -> str:
    return content_hash([revision, _device_name(judge.device), version("torch"), FORMAT])


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    told = Path("/proc/cpuinfo")
    if not told.is_file():
        return f"{platform.machine()} {platform.processor()}"
    lines = told.read_text(encoding="utf-8", errors="replace").splitlines()
    wanted = ("model name", "flags", "Features")
    return "\n".join(next((x for x in lines if x.startswith(name)), "") for name in wanted)


def _kept(file: Path) -> PrecisionTrial | None:
    try:
        return PrecisionTrial(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # not tried yet, or not written whole
