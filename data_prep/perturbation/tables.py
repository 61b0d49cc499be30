"""The sentences that get planted: YAML tables in configs/perturbation/, split in three.

A judge must not win by knowing the table by heart, so every table is dealt out over train, val and
test: no entry, in no language, stands in two splits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

import yaml

from medal_judges.config import config_text
from medal_judges.errors import ConfigError

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
LANGUAGES = ("en", "zh", "de", "fr", "pt", "es")
# Dealt by position, five at a time. All languages of an entry share its position, so that a
# multilingual judge does not meet a test sentence in translation. New entries go at the end.
_DEAL: tuple[Split, ...] = ("train", "val", "train", "test", "train")
_SLOT = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")


def entries(table: str, lang: str, split: Split) -> tuple[Any, ...]:
    """Entries of ``table`` in ``lang`` that belong to ``split``; empty for an unknown language.

    An entry is a text, a list of texts or a mapping of texts, as the table has it.
    Raises ConfigError for an unknown split.
    """
    if split not in SPLITS:
        raise ConfigError(f"split must be one of {', '.join(SPLITS)}, not {split!r}")
    return _dealt(table).get((lang, split), ())


@lru_cache(maxsize=8)
def shared(table: str) -> Mapping[str, Any]:
    """A table without labels that all splits share (syllables, small changes)."""
    data = yaml.safe_load(config_text(f"perturbation/{table}"))
    return dict(data)


def variants(text: str) -> tuple[str, str]:
    """Both readings of a text with ``[sound|faulty]`` slots: (all sound, all faulty)."""
    return _SLOT.sub(r"\1", text), _SLOT.sub(r"\2", text)


@lru_cache(maxsize=32)
def _dealt(table: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    dealt: dict[tuple[str, str], list[Any]] = {}
    for position, entry in enumerate(yaml.safe_load(config_text(f"perturbation/{table}"))):
        for lang, value in entry.items():
            dealt.setdefault((lang, _DEAL[position % len(_DEAL)]), []).append(value)
    return {key: tuple(values) for key, values in dealt.items()}
