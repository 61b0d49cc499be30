"""``medal doctor``: what is installed here, and whether a judge scores here as it should."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from medal_judges.errors import MedalError
from medal_judges.models.base.golden import GoldenCheck, versions
from medal_judges.models.embedded import embedded_files

Fact = tuple[str, str]

# Extra, embedded model, program -> what it is for.
FOR = {
    "quickstart": "conversations to try things on (chitchat)",
    "report": "figure files beside the pages",
    "log": "TensorBoard in training",
    "evaluate": "judges and meta-evaluation as metrics of Hugging Face Evaluate",
    "inspect": "a scorer of Inspect",
    "trl": "a judge as reward in TRL",
    "lm-eval": "a metric of lm-evaluation-harness",
    "space": "a Space that scores a pasted chat",
    "llm": "language models held to a JSON schema, GGUF files",
    "api": "judges that ask an OpenAI-compatible server",
    "vllm": "language models in vLLM (a GPU)",
    "lang": "languages of chats, lemmas, words of Chinese and Japanese",
    "serve": "medal serve, and its client",
    "annotate": "spreadsheets, agreement of annotators, rater models",
    "lora": "training and running LoRA judges",
    "qlora": "LoRA on a quantised base",
    "deepspeed": "training over several processes that share a model",
    "docs": "building the site",
    "ray": "scoring on a Ray cluster (medal score --ray)",
    "liger": "Liger's kernels in training (a GPU)",
    "dev": "the tests",
}
EMBEDDED = {
    "minilm": "boxed, and judges trained on it",
    "chitchat": "the quickstart's conversations",
    "smollm2": "language-model judges without a server (135M), English",
    "gemma3": "the same in many languages (270M): contrast_multilingual",
}
PROGRAMS = {
    "make": "the Makefiles here and of medal init",
    "gcc": "deepspeed, compiled kernels",
    "chromium": "tests of pages (make test-browser); pages open in any browser",
}
# Variables that hold a secret: it is only shown whether they are set.
TOKENS = ("HF_TOKEN", "OPENAI_API_KEY")


def machine_facts() -> list[Fact]:
    """(what, value) of versions, device, folders, models, extras, programs and tokens: what is
    here, and what that which is not here is for."""
    return [
        *(*_versions(), *_devices(), *_folders(), *_models()),
        *(*_extras(), *_programs(), *_tokens()),
    ]


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

    from medal_judges.storage.files import cache_folder, data_folder

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
    """Each extra of the package: what it is for, and whether all that it asks for is installed."""
    facts = []
    for extra in distribution("medal-judges").metadata.get_all("Provides-Extra") or []:
        wrong = list(filter(None, map(_problem, _wanted(extra))))
        use = FOR.get(extra, "not described")
        told = f"no: {use}; {', '.join(wrong)} (pip install 'medal-judges[{extra}]')"
        facts.append((f"extra {extra}", told if wrong else f"yes: {use}"))
    return facts


def _wanted(extra: str) -> list[Requirement]:
    """What an extra adds; one that only gathers others asks for nothing itself."""
    every = [Requirement(line) for line in requires("medal-judges") or []]
    here = {"extra": extra}
    return [
        each
        for each in every
        if each.marker and each.marker.evaluate(here) and not each.marker.evaluate({"extra": ""})
        and each.name != "medal-judges"
    ]  # fmt: skip


def _problem(wanted: Requirement) -> str:
    """What is wrong with a package that is wanted; empty where it is here and new enough."""
    try:
        here = version(wanted.name)
    except PackageNotFoundError:
        there = find_spec(wanted.name.replace("-", "_")) is not None
        return "" if there else f"{wanted.name} missing"
    if wanted.specifier.contains(here, prereleases=True):
        return ""
    return f"{wanted.name} {here} is installed, {wanted.specifier} is needed"


def _models() -> list[Fact]:
    """Models and data that come as packages."""
    facts = []
    for name, use in EMBEDDED.items():
        try:
            there = all(file.exists() for file in embedded_files(name))
            facts.append((f"embedded:{name}", f"{'yes' if there else 'no: damaged'}: {use}"))
        except MedalError as error:
            facts.append((f"embedded:{name}", f"no: {use} ({error.hint})"))
    return facts


def _programs() -> list[Fact]:
    return [
        (name, f"{'yes' if shutil.which(name) else 'no'}: {use}") for name, use in PROGRAMS.items()
    ]


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
