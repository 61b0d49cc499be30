"""The settings that every trained family has in common."""

from __future__ import annotations

from typing import ClassVar

from medal_judges.config import Config


class TrainedConfig(Config):
    """Base class of the settings of a trained judge. judge.json stores them under the family's
    name.

    ``by_steps``: whether the family is a network that JudgeTrainer trains in steps of gradient
    descent. All processes of a launcher such as torchrun then take part, and the training config's
    ``args`` apply. Otherwise the main process fits the judge at once.
    """

    by_steps: ClassVar[bool] = False
    family: str

    def distribution_dimensions(self) -> set[str]:
        """Returns the dimensions whose target is a probability for each level of the scale. The
        target of the other dimensions is a number."""
        return set()
