"""No secret is published: what a judge's files hold is looked through before a push.

The rules of detect-secrets, which is kept, with those for the Hub, for Google, for keys that begin
in sk- as well as for paths of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from medal_judges.errors import HubError

# Looked for in every line of every text file, and in the header of safetensors.
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
# Of detect-secrets' rules those with a form of their own. Left out: entropy (a hash is no secret),
# addresses of the network, and what the rules above find too.
_DETECTORS = (
    *("ArtifactoryDetector", "AWSKeyDetector", "AzureStorageKeyDetector", "BasicAuthDetector"),
    *("CloudantDetector", "DiscordBotTokenDetector", "GitHubTokenDetector", "GitLabTokenDetector"),
    *("IbmCloudIamDetector", "IbmCosHmacDetector", "JwtTokenDetector", "KeywordDetector"),
    *("MailchimpDetector", "NpmDetector", "OpenAIDetector", "PrivateKeyDetector"),
    *("PypiTokenDetector", "SendGridDetector", "SlackDetector", "SoftlayerDetector"),
    *("SquareOAuthDetector", "StripeDetector", "TelegramBotTokenDetector", "TwilioKeyDetector"),
)
# What may stand behind "api_key": the name of a variable, or nothing.
_NO_SECRET = re.compile(r"[A-Z][A-Z0-9_]*|\W*|null|none|true|false")
_PIECE, _OVERLAP = 4_000, 400  # characters of a line that are looked at together


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
            for what in kinds_in(line):
                yield SecretFinding(path.relative_to(folder).as_posix(), number, what)


def kinds_in(line: str) -> list[str]:
    """What kinds of secrets and paths stand in ``line``, whatever its length."""
    step = _PIECE - _OVERLAP
    pieces = [line[start : start + _PIECE] for start in range(0, max(1, len(line)), step)]
    kinds = [what for what, pattern in SECRETS.items() if any(map(pattern.search, pieces))]
    if kinds:
        return kinds
    return [str(d.secret_type) for d in _detectors() if any(_strikes(d, p) for p in pieces)]


@cache
def _detectors() -> list[Any]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    classes: Iterable[Any] = get_mapping_from_secret_type_to_class().values()
    known: dict[str, Any] = {each.__name__: each for each in classes}
    return [known[name]() for name in _DETECTORS]


def _strikes(detector: Any, piece: str) -> bool:
    # The patterns alone: detect-secrets can also try a key at its provider; nothing is sent here.
    return any(not _NO_SECRET.fullmatch(str(found)) for found in detector.analyze_string(piece))


def require_no_secrets(folder: Path, files: Iterable[Path]) -> None:
    """Raise HubError that names each file and line with something that must not be published."""
    if findings := list(find_secrets(folder, files)):
        lines = "\n  ".join(f"{f.file}, line {f.line}: {f.what}" for f in findings)
        raise HubError(
            f"{folder.name} is not pushed, it holds what must not be published:\n  {lines}",
            hint="take it out of the file (paths: train with relative ones), then push again",
        )
