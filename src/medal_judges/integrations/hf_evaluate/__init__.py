"""Hugging Face Evaluate: a module for ``evaluate.load`` in a folder of its own, as its loader
expects."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal


def metric_path(name: Literal["medal_judge"]) -> str:
    """Returns the path of a metric's folder, as an argument for ``evaluate.load``.

    Args:
        name: The metric, ``medal_judge``.
    """
    return str(files(__name__) / name)
