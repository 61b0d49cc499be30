"""Hugging Face Evaluate: two modules for ``evaluate.load``, a folder each, as its loader wants."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal


def metric(name: Literal["medal_judge", "medal_metaeval"]) -> str:
    """The folder of a module, for ``evaluate.load``."""
    return str(files(__name__) / name)
