"""The settings that every trained family has in common."""

from __future__ import annotations

from typing import ClassVar

from medal_judges.config import Config


class TrainedConfig(Config):
    """Base class of the settings of a trained judge. They are saved in judge.json.

    Attributes:
        family: The kind of judge, such as ``encoder``.
        by_steps: Whether a judge is trained by many steps of gradient descent, with transformers'
            TrainingArguments. If false, it is fitted at once, as a ridge regression is.
    """

    by_steps: ClassVar[bool] = False
    family: str

    def distribution_dimensions(self) -> set[str]:
        """Returns the names of the dimensions whose training target is a probability for each
        rating. The target of other dimensions is one number."""
        return set()
