"""How far the same run with the same seed comes back under other threads, kernels and precision.

    python benchmarks/repeatability.py [--config train/quickstart] [--only base again ...]

Trains the config once a setting, in a process of its own (the environment decides the kernels),
and compares every judge with the first: scores of the sixteen golden dialogues as shares of their
scale, and the validation figures. ``avx2`` stands in for a machine of another kind: it takes torch,
oneDNN and MKL to the kernels of a processor without AVX-512. Runs are kept in --out; a setting
that is there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from medal_judges.models.base.golden import read_golden


class Setting(NamedTuple):
    """Environment and overrides of one run."""

    environment: dict[str, str]
    overrides: tuple[str, ...] = ()


AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
ONE = {"OMP_NUM_THREADS": "1"}
TWO = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}  # a busy machine must not spin
BF16, FP32 = ("optim.mixed_precision=bf16",), ("optim.mixed_precision=no",)
SETTINGS = {
    "base": Setting(ONE, FP32),
    "again": Setting(ONE, FP32),
    "two threads": Setting(TWO, FP32),
    "avx2": Setting(ONE | AVX2, FP32),
    "bf16": Setting(ONE, BF16),
    "bf16, again": Setting(ONE, BF16),
    "bf16, two threads": Setting(TWO, BF16),
    "another seed": Setting(ONE, (*FP32, "seed=1")),
}


def run(name: str, setting: Setting, config: str, out: Path) -> Path:
    """The folder of the judge trained under ``setting``."""
    folder = out / name.replace(", ", "_").replace(" ", "_")
    if not (folder / "golden.json").is_file():
        command = [sys.executable, "-m", "medal_judges.training", "--config", config]
        command += [f"output_dir={folder}", "name=judge", *setting.overrides]
        subprocess.run(command, env=os.environ | setting.environment, check=True)
    return folder


def differences(base: Path, other: Path) -> tuple[float, float, float, float]:
    """(largest, mean) difference of golden scores as shares of the scale; (largest, mean)
    difference of the validation figures."""
    dimensions = json.loads((base / "config.json").read_text(encoding="utf-8"))["dimensions"]
    width = {d["name"]: d["high"] - d["low"] for d in dimensions}
    pairs = zip(read_golden(base)["scores"], read_golden(other)["scores"], strict=True)
    scores = [abs(a[n] - b[n]) / width[n] for a, b in pairs for n in a]
    first, second = (
        json.loads((folder / "validation.json").read_text(encoding="utf-8"))
        for folder in (base, other)
    )
    figures = [abs(first[n] - second[n]) for n in first if n != "loss"]
    return (
        max(scores),
        sum(scores) / len(scores),
        max(figures),
        sum(figures) / len(figures),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="train/quickstart")
    parser.add_argument("--only", nargs="*", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--out", type=Path, default=Path("runs/repeatability"))
    args = parser.parse_args()
    folders = {name: run(name, SETTINGS[name], args.config, args.out) for name in args.only}
    base = next(iter(folders.values()))
    table = Table(title=f"{args.config}: differences from {args.only[0]}")
    for column in ("setting", "scores, largest", "mean", "validation, largest", "mean"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for name, folder in folders.items():
        table.add_row(name, *(f"{value:.2g}" for value in differences(base, folder)))
    Console().print(table)


if __name__ == "__main__":
    main()
