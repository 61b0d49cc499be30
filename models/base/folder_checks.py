"""What a judge's folder may hold: no code when it is loaded, no secrets when it is published.

transformers is told ``trust_remote_code=False`` at every call as well; the check for code needs no
library to honour it, and finds what has no such switch (the classes that modules.json names).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from medal_judges.errors import HubError, JudgeLoadError

# auto_map: classes of a file in the folder. custom_pipelines: the same for pipelines.
# attn_implementation: may name a kernel of the Hub, which is code too.
_CODE_KEYS = ("auto_map", "custom_pipelines", "trust_remote_code")
_ATTENTION = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
_PLAIN_ATTENTION = (
    None,
    "eager",
    "sdpa",
    "flash_attention_2",
    "flash_attention_3",
    "flex_attention",
)
_MODULES = ("Transformer", "Pooling", "Normalize")  # the rest can name functions to call
_LARGEST = 2_000_000  # bytes; vocabularies are larger, and hold no settings

# Secrets are looked for in every line of every text file, and in the header of safetensors.
SECRETS = {
    "a Hugging Face token": re.compile(r"\bhf_[A-Za-z0-9]{16,}"),
    "an API key (sk-...)": re.compile(r"\bsk-(?:[A-Za-z]{1,40}-){0,6}[A-Za-z0-9_]{16,}"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"),
    "an AWS key": re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    "a Google key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}\b"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a password in an address": re.compile(r"\b[a-z]{1,20}://[^/\s:@]{1,200}:[^/\s:@]{1,200}@"),
    "a path of a home folder": re.compile(
        r"(?:/home/|/Users/|[A-Za-z]:\\{1,2}Users\\{1,2})[^/\\\s\"']+|/root/[\w.]"
    ),
    "a path of this Python": re.compile(r"/(?:site|dist)-packages/"),
}
# A vocabulary holds any string there is, and nobody's secret.
_WORD_LISTS = ("tokenizer.json", "vocab.json", "vocab.txt", "merges.txt")
_HEADER = 1_000_000  # bytes of a safetensors file that can hold its header's metadata


def require_data_only(folder: Path) -> None:
    """Raise JudgeLoadError for settings anywhere in ``folder`` that name code to run."""
    for path in sorted(folder.rglob("*.json")):
        if path.stat().st_size > _LARGEST or path.name.startswith("tokenizer.json"):
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            continue  # whoever needs this file says what is wrong with it
        for what in _code_in(content, path, folder):
            raise JudgeLoadError(
                f"{folder}: {path.relative_to(folder)} {what}: a judge brings no code, and none "
                "is run",
                hint="do not use this folder unless you know who made it",
            )


def _code_in(content: object, path: Path, folder: Path) -> Iterator[str]:
    for key, value in _entries(content):
        if key in _CODE_KEYS or (key in _ATTENTION and value not in _PLAIN_ATTENTION):
            yield f"sets {key} to {value!r:.80}"
    if path.name != "modules.json":
        return
    for module in content if isinstance(content, list) else [content]:
        kind = module.get("type") if isinstance(module, dict) else module
        place = module.get("path", "") if isinstance(module, dict) else ""
        package, _, name = str(kind).rpartition(".")
        if not package.startswith("sentence_transformers.") or name not in _MODULES:
            yield f"names the module {kind!r:.80}"
        if not (path.parent / str(place)).resolve().is_relative_to(folder.resolve()):
            yield f"names the place {place!r:.80}"


def _entries(content: object) -> Iterator[tuple[str, object]]:
    """All (key, value) of the objects in ``content``, however deep."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from value.items()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """``what`` stands in line ``line`` (from 1) of ``file``; the secret itself is never shown."""

    file: str
    line: int
    what: str


def find_secrets(folder: Path, files: Iterable[Path]) -> Iterator[SecretFinding]:
    """What in ``files`` must not be published, in the order of the files."""
    for path in files:
        if path.name in _WORD_LISTS:
            continue
        with path.open("rb") as file:
            data = file.read(_HEADER) if path.suffix == ".safetensors" else file.read()
        for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), start=1):
            for what, pattern in SECRETS.items():
                if pattern.search(line):
                    yield SecretFinding(path.relative_to(folder).as_posix(), number, what)


def require_no_secrets(folder: Path, files: Iterable[Path]) -> None:
    """Raise HubError that names each file and line with something that must not be published."""
    if findings := list(find_secrets(folder, files)):
        lines = "\n  ".join(f"{f.file}, line {f.line}: {f.what}" for f in findings)
        raise HubError(
            f"{folder.name} is not pushed, it holds what must not be published:\n  {lines}",
            hint="take it out of the file (paths: train with relative ones), then push again",
        )
