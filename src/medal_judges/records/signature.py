"""Signature: everything that a score depends on, as in sacrebleu."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from medal_judges.errors import MedalError


@dataclass(frozen=True, slots=True)
class Signature:
    """The judge and settings that produced a score, stored with every score.

    A setting that does not apply is None. Signatures are published, so they hold no paths and no
    secrets.

    Attributes:
        judge: Name of the judge.
        revision: Hash of the judge's weights or settings.
        base: Model that the judge is built on, such as a Hub id.
        prompt: Hash of the prompts.
        rubric: Hash of the dimensions that the judge scores.
        dtype: Floating-point type of the weights, such as ``bf16``.
        truncation: What is left out of a long dialogue: ``oldest turns beyond 512 tokens``.
        data: Data set, in results of a benchmark.
        dimension: Scored dimension, in results of a benchmark.
        seed: Seed of the training or the sampling.
        version: Version of this package.

    Raises:
        MedalError: A value contains ``|`` or a line break.

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
        for name, value in asdict(self).items():
            if "|" in str(value) or "\n" in str(value):
                raise MedalError(
                    f"signature: {name} {str(value)!r} contains '|' or a line break. Rename it"
                )

    def __str__(self) -> str:
        """Returns the signature as a string, ``judge:NAME|revision:...``, without the settings that
        are None."""
        pairs = []
        for name, value in asdict(self).items():
            if value is not None:
                pairs.append(f"{name}:{value}")
        return "|".join(pairs)

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Returns the signature in the string ``text``, such as ``judge:length|seed:0``.

        Unknown keys are ignored. Without ``judge:``, the whole string is the judge's name.

        Raises:
            MedalError: The seed is not a whole number.
        """
        pairs: dict[str, Any] = dict(
            part.split(":", 1) for part in text.split("|") if ":" in part
        )
        values = {f.name: pairs[f.name] for f in fields(cls) if f.name in pairs}
        seed = values.get("seed", "0")
        if not seed.isdecimal():
            raise MedalError(
                f"signature: type a whole number for the seed, not {seed!r}"
            )
        if "seed" in values:
            values["seed"] = int(seed)
        return cls(**({"judge": text.replace("|", " ")} | values))


def content_hash(value: object) -> str:
    """Returns the first 12 hex digits of the SHA-256 hash of ``value``: of bytes as they are, of
    any other value as JSON."""
    if not isinstance(value, bytes):
        value = json.dumps(
            value, sort_keys=True, ensure_ascii=False, default=str
        ).encode()
    return hashlib.sha256(value).hexdigest()[:12]
