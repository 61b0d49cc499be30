"""Hugging Face Evaluate: two modules for ``evaluate.load``, one folder each, as its loader
expects."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal


def metric(name: Literal["medal_judge", "medal_metaeval"]) -> str:
    """Returns the folder of a module, for ``evaluate.load``."""
    return str(files(__name__) / name)
