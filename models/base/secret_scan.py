"""What must not be published: tokens, keys and paths of a home folder, before a push."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from medal_judges.errors import HubError

# Kinds are looked for in every line of every text file, and in the header of safetensors.
_PATTERNS = {
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
_WORD_LISTS = ("tokenizer.json", "vocab.json", "vocab.txt", "merges.txt")
_HEADER = 1_000_000  # bytes of a safetensors file that can hold its header's metadata


@dataclass(frozen=True, slots=True)
class Finding:
    """``what`` stands in line ``line`` (from 1) of ``file``; the thing itself is never shown."""

    file: str
    line: int
    what: str


def scan(folder: Path, files: Iterable[Path]) -> list[Finding]:
    """What in ``files`` must not be published, in the order of the files."""
    return [finding for path in files for finding in _scan_file(folder, path)]


def _scan_file(folder: Path, path: Path) -> Iterator[Finding]:
    name = path.relative_to(folder).as_posix()
    if path.name in _WORD_LISTS:  # a vocabulary holds any string there is, and nobody's secret
        return
    for number, line in enumerate(_text(path).splitlines(), start=1):
        for what, pattern in _PATTERNS.items():
            if pattern.search(line):
                yield Finding(name, number, what)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_HEADER) if path.suffix == ".safetensors" else file.read()
    return data.decode("utf-8", errors="replace")


def require_clean(folder: Path, files: Iterable[Path]) -> None:
    """Raise HubError that names each file and line with something that must not be published."""
    if found := scan(folder, files):
        told = "\n  ".join(f"{f.file}, line {f.line}: {f.what}" for f in found)
        raise HubError(
            f"{folder.name} is not pushed, it holds what must not be published:\n  {told}",
            hint="take it out of the file (paths: train with relative ones), then push again",
        )
