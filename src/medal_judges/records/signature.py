"""Signature: what must be equal for two numbers to be comparable (after sacrebleu's)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import Any

from medal_judges.errors import MedalError

# What a table's rows must share: figures on other data or another dimension do not compare.
_COMPARABLE = ("data", "dimension")


@dataclass(frozen=True, slots=True)
class Signature:
    """Key-value pairs that stand beside every number. None means not applicable.

    No paths, no secrets: a signature is published.

    >>> print(Signature("length", dimension="overall", seed=0))
    judge:length|dimension:overall|seed:0
    """

    judge: str
    revision: str | None = None
    base: str | None = None
    prompt: str | None = None
    rubric: str | None = None
    dtype: str | None = None
    truncation: str | None = None
    data: str | None = None
    dimension: str | None = None
    seed: int | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            value = str(getattr(self, f.name))
            if "|" in value or "\n" in value:
                raise MedalError(
                    f"signature: {f.name} {value!r} holds '|' or a line break, which part its pairs"
                )

    def __str__(self) -> str:
        """``judge:NAME|revision:...``; keys that do not apply are left out."""
        pairs = ((f.name, getattr(self, f.name)) for f in fields(self))
        return "|".join(f"{name}:{value}" for name, value in pairs if value is not None)

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Inverse of ``str``; unknown keys (of a newer version) are dropped, and text without a
        ``judge:`` pair is taken as the judge's name.

        Raises MedalError for a seed that is no whole number.
        """
        known = {f.name for f in fields(cls)}
        pairs: dict[str, Any] = dict(part.split(":", 1) for part in text.split("|") if ":" in part)
        kept = {k: v for k, v in pairs.items() if k in known}
        if "seed" in kept:
            kept["seed"] = _seed(kept["seed"])
        return cls(**({"judge": text.replace("|", " ")} | kept))


def _seed(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise MedalError(f"signature: the seed is a whole number, not {text!r}") from error


def content_hash(value: object) -> str:
    """First 12 hex digits of the SHA-256 of ``value`` as canonical JSON (bytes as they are)."""
    if not isinstance(value, bytes):
        value = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode()
    return hashlib.sha256(value).hexdigest()[:12]


def require_comparable(signatures: list[Signature]) -> None:
    """Raise MedalError when rows of one table differ in data or dimension."""
    for key in _COMPARABLE:
        values = {str(getattr(s, key)) for s in signatures}
        if len(values) > 1:
            raise MedalError(
                f"one table cannot hold rows whose {key} differs: {', '.join(sorted(values))}",
                hint="score the same file with every judge, or make one table each",
            )
