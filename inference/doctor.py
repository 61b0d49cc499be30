"""``medal doctor``: what is installed here, and whether a judge scores here as it should."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from importlib.util import find_spec
from pathlib import Path

from medal_judges.models.base.golden import GoldenCheck, versions

Fact = tuple[str, str]

# Variables that hold a secret: it is only shown whether they are set.
TOKENS = ("HF_TOKEN", "OPENAI_API_KEY")


def machine_facts() -> list[Fact]:
    """(what, value) of versions, device, folders, extras, tokens (set or not) and disk space."""
    return [*_versions(), *_devices(), *_folders(), *_extras(), *_tokens()]


def _versions() -> list[Fact]:
    named = dict(versions())
    for package in ("accelerate", "huggingface_hub", "sentence-transformers", "scikit-learn"):
        try:
            named[package] = version(package)
        except PackageNotFoundError:
            named[package] = "not installed"
    python = f"{platform.python_version()} ({sys.platform})"
    return [("python", python), *named.items()]


def _devices() -> list[Fact]:
    import torch

    from medal_judges.models.encoder.precision import reports_bf16

    threads = f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()}"
    threads += ", multiplies bf16" if reports_bf16(torch.device("cpu")) else ", no bf16"
    if not torch.cuda.is_available():
        return [("cpu", threads), ("cuda", "none: judges run on the CPU")]
    facts = [("cpu", threads)]
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        bf16 = "bf16" if torch.cuda.is_bf16_supported() else "no bf16"
        facts.append((f"cuda:{index}", f"{about.name}, {about.total_memory / 1e9:.0f} GB, {bf16}"))
    return facts


def _folders() -> list[Fact]:
    from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_OFFLINE

    from medal_judges.files import cache_folder, data_folder

    data = data_folder()
    facts = [
        ("cache of the Hub", _space(Path(HF_HUB_CACHE))),
        ("cache of data", _space(cache_folder())),
        ("MEDAL_JUDGES_DATA", "not set" if data is None else _space(data)),
        ("this folder", _space(Path.cwd())),
    ]
    return [*facts, ("HF_HUB_OFFLINE", "yes" if HF_HUB_OFFLINE else "no")]


def _space(folder: Path) -> str:
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    state = "" if folder.exists() else ", not made yet"
    return f"{folder} ({shutil.disk_usage(place).free / 1e9:.1f} GB free{state})"


def _extras() -> list[Fact]:
    """Each extra of the package: whether all that it asks for is installed."""
    facts = []
    for extra in distribution("medal-judges").metadata.get_all("Provides-Extra") or []:
        missing = [name for name in _wanted(extra) if not _installed(name)]
        hint = f"no: {', '.join(missing)} missing (pip install 'medal-judges[{extra}]')"
        facts.append((f"extra {extra}", hint if missing else "yes"))
    return facts


def _wanted(extra: str) -> list[str]:
    """Packages that an extra adds; an extra that only gathers others asks for none itself."""
    import re

    lines = [line for line in requires("medal-judges") or [] if f'extra == "{extra}"' in line]
    names = [re.split(r"[ ;<>=!\[]", line, maxsplit=1)[0] for line in lines]
    return [name for name in names if name != "medal-judges"]


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return find_spec(package.replace("-", "_")) is not None
    return True


def _tokens() -> list[Fact]:
    from huggingface_hub import get_token

    facts = [("token of the Hub", "yes" if get_token() else "no")]
    return [*facts, *((name, "yes" if os.environ.get(name) else "no") for name in TOKENS)]


def judge_facts(check: GoldenCheck) -> list[Fact]:
    """(what, value) of a judge and its golden scores."""
    where = f" at {check.where}" if check.where else ""
    share = f"{check.deviation:.2e} of the scale{where}; {check.tolerance:.0e} is allowed"
    facts = [("deviation", share)]
    for package in {**check.then, **check.now}:
        then, now = check.then.get(package, "?"), check.now.get(package, "not installed")
        facts.append((package, then if then == now else f"{then} then, {now} now"))
    if check.signature_then == check.signature:
        return [*facts, ("signature", check.signature)]
    return [*facts, ("signature then", check.signature_then), ("signature now", check.signature)]
