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
from medal_judges.models.model_files import embedded_file

Fact = tuple[str, str]

# Embedded model -> its use.
EMBEDDED = {
    "minilm": "boxed, and judges trained on it",
    "e5": "an encoder of many languages (118M), to train judges on",
    "chitchat": "the quickstart's conversations",
    "smollm2": "language-model judges without a server (135M), English",
}
# Variables that hold a secret: only whether they are set is shown.
TOKENS = ("HF_TOKEN", "OPENAI_API_KEY")
_YES_NO = {True: "yes", False: "no"}


def machine_facts() -> Iterator[Fact]:
    """Yields (name, value) of versions, devices, folders, models, extras and tokens."""
    import torch
    from huggingface_hub import get_token
    from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_OFFLINE

    from medal_judges.models.device import has_bf16
    from medal_judges.storage.files import data_folder

    yield "python", f"{platform.python_version()} ({sys.platform})"
    yield from versions().items()
    for package in (
        "accelerate",
        "huggingface_hub",
        "sentence-transformers",
        "scikit-learn",
    ):
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    bf16 = "no bf16"
    if has_bf16(torch.device("cpu")):
        bf16 = "multiplies bf16"
    yield "cpu", f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()}, {bf16}"
    if not torch.cuda.is_available():
        yield "cuda", "none: judges run on the CPU"
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        bf16 = "no bf16"
        if torch.cuda.is_bf16_supported():
            bf16 = "bf16"
        yield (
            f"cuda:{index}",
            f"{about.name}, {about.total_memory / 1e9:.0f} GB, {bf16}",
        )
    yield "cache of the Hub", _space(Path(HF_HUB_CACHE))
    data = data_folder()
    if data is None:
        yield "MEDAL_JUDGES_DATA", "not set"
    else:
        yield "MEDAL_JUDGES_DATA", _space(data)
    yield "this folder", _space(Path.cwd())
    yield "HF_HUB_OFFLINE", _YES_NO[HF_HUB_OFFLINE]
    yield from _embedded_models()
    yield from _extras()
    yield "token of the Hub", _YES_NO[bool(get_token())]
    for name in TOKENS:
        yield name, _YES_NO[bool(os.environ.get(name))]


def _embedded_models() -> Iterator[Fact]:
    for name, use in EMBEDDED.items():
        try:
            state = "yes"
            if not embedded_file(name).exists():
                state = "no: damaged"
            yield f"embedded:{name}", f"{state}: {use}"
        except MedalError as error:
            yield f"embedded:{name}", f"no: {use} ({error.hint})"


def _space(folder: Path) -> str:
    existing_folder = folder.absolute()
    while not existing_folder.exists():
        existing_folder = existing_folder.parent
    state = ", does not exist yet"
    if folder.exists():
        state = ""
    return (
        f"{folder} ({shutil.disk_usage(existing_folder).free / 1e9:.1f} GB free{state})"
    )


def _extras() -> Iterator[Fact]:
    """Yields each extra with its missing or outdated packages."""
    requirements = [Requirement(line) for line in requires("medal-judges") or []]
    for extra in distribution("medal-judges").metadata.get_all("Provides-Extra") or []:
        wrong = []
        for requirement in requirements:
            marker = requirement.marker
            if requirement.name == "medal-judges" or marker is None:
                continue
            is_of_extra = marker.evaluate({"extra": extra}) and not marker.evaluate(
                {"extra": ""}
            )
            problem = None
            if is_of_extra:
                problem = _problem(requirement)
            if problem is not None:
                wrong.append(problem)
        if wrong:
            yield f"extra {extra}", f"no: {', '.join(wrong)} ({install_command(extra)})"
        else:
            yield f"extra {extra}", "yes"


def _problem(requirement: Requirement) -> str | None:
    """Returns how the installed package does not fit; None if it does."""
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        if find_spec(requirement.name.replace("-", "_")) is None:
            return f"{requirement.name} missing"
        return None
    if requirement.specifier.contains(installed, prereleases=True):
        return None
    return f"{requirement.name} {installed} is installed, {requirement.specifier} is needed"


def judge_facts(check: GoldenCheck) -> Iterator[Fact]:
    """Yields (name, value) of a judge and its golden scores."""
    where = ""
    if check.where:
        where = f" at {check.where}"
    golden = check.golden
    share = f"{check.deviation:.2e} of the scale{where}; {golden['tolerance']:.0e} is allowed"
    yield "deviation", share
    for package in {**golden["versions"], **check.versions}:
        saved_version = golden["versions"].get(package, "?")
        text = check.versions.get(package, "not installed")
        if text != saved_version:
            text = f"{saved_version} then, {text} now"
        yield package, text
    if golden["signature"] == check.signature:
        yield "signature", check.signature
    else:
        yield "signature then", golden["signature"]
        yield "signature now", check.signature
