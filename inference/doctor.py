"""``medal doctor``: shows what is installed, and checks whether a saved judge gives its golden
scores on this machine."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from medal_judges.errors import MedalError, install_command
from medal_judges.models.base.golden import GoldenCheck, versions
from medal_judges.models.model_files import embedded_files

Fact = tuple[str, str]

# Embedded model -> its use.
EMBEDDED = {
    "minilm": "boxed, and judges trained on it",
    "e5": "an encoder of many languages (118M), to train judges on",
    "chitchat": "the quickstart's conversations",
    "smollm2": "language-model judges without a server (135M), English",
    "gemma3": "the same in many languages (270M): contrast_multilingual",
}
# Variables that hold a secret: only whether they are set is shown.
TOKENS = ("HF_TOKEN", "OPENAI_API_KEY")


def machine_facts() -> Iterator[Fact]:
    """Yields (name, value) of versions, devices, folders, models, extras and tokens."""
    import torch
    from huggingface_hub import get_token
    from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_OFFLINE

    from medal_judges.models.device import has_bf16
    from medal_judges.storage.files import data_folder

    yield "python", f"{platform.python_version()} ({sys.platform})"
    yield from versions().items()
    for package in ("accelerate", "huggingface_hub", "sentence-transformers", "scikit-learn"):
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    bf16 = "multiplies bf16" if has_bf16(torch.device("cpu")) else "no bf16"
    yield "cpu", f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()}, {bf16}"
    if not torch.cuda.is_available():
        yield "cuda", "none: judges run on the CPU"
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        bf16 = "bf16" if torch.cuda.is_bf16_supported() else "no bf16"
        yield f"cuda:{index}", f"{about.name}, {about.total_memory / 1e9:.0f} GB, {bf16}"
    yield "cache of the Hub", _space(Path(HF_HUB_CACHE))
    data = data_folder()
    yield "MEDAL_JUDGES_DATA", "not set" if data is None else _space(data)
    yield "this folder", _space(Path.cwd())
    yield "HF_HUB_OFFLINE", "yes" if HF_HUB_OFFLINE else "no"
    for name, use in EMBEDDED.items():
        try:
            whole = all(file.exists() for file in embedded_files(name))
            yield f"embedded:{name}", f"{'yes' if whole else 'no: damaged'}: {use}"
        except MedalError as error:
            yield f"embedded:{name}", f"no: {use} ({error.hint})"
    yield from _extras()
    yield "token of the Hub", "yes" if get_token() else "no"
    for name in TOKENS:
        yield name, "yes" if os.environ.get(name) else "no"


def _space(folder: Path) -> str:
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    state = "" if folder.exists() else ", does not exist yet"
    return f"{folder} ({shutil.disk_usage(place).free / 1e9:.1f} GB free{state})"


def _extras() -> Iterator[Fact]:
    """Yields each extra with its missing or outdated packages."""
    every = [Requirement(line) for line in requires("medal-judges") or []]
    for extra in distribution("medal-judges").metadata.get_all("Provides-Extra") or []:
        wrong = []
        for wanted in every:
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                continue
            if wanted.name == "medal-judges" or not wanted.marker.evaluate({"extra": extra}):
                continue
            try:
                installed = version(wanted.name)
            except PackageNotFoundError:
                if find_spec(wanted.name.replace("-", "_")) is None:
                    wrong.append(f"{wanted.name} missing")
                continue
            if not wanted.specifier.contains(installed, prereleases=True):
                wrong.append(
                    f"{wanted.name} {installed} is installed, {wanted.specifier} is needed"
                )
        missing = f"no: {', '.join(wrong)} ({install_command(extra)})"
        yield f"extra {extra}", missing if wrong else "yes"


def judge_facts(check: GoldenCheck) -> Iterator[Fact]:
    """Yields (name, value) of a judge and its golden scores."""
    where = f" at {check.where}" if check.where else ""
    golden = check.golden
    share = f"{check.deviation:.2e} of the scale{where}; {golden['tolerance']:.0e} is allowed"
    yield "deviation", share
    for package in {**golden["versions"], **check.versions}:
        then = golden["versions"].get(package, "?")
        now = check.versions.get(package, "not installed")
        yield package, then if then == now else f"{then} then, {now} now"
    if golden["signature"] == check.signature:
        yield "signature", check.signature
    else:
        yield "signature then", golden["signature"]
        yield "signature now", check.signature
