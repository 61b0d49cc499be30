"""The settings that every trained family has in common."""

from __future__ import annotations

from typing import ClassVar

from medal_judges.config import Config


class TrainedConfig(Config):
    """Base of the settings of a trained judge, which judge.json stores under the family's name.

    ``by_steps`` says whether JudgeTrainer trains it: all processes of a launcher take part, and
    ``args`` of a run apply. Other families are fitted at once, by the main process.
    """

    by_steps: ClassVar[bool] = False
    family: str

    def level_dimensions(self) -> set[str]:
        """Returns the dimensions whose targets are a probability for each level of the scale. The
        target of any other dimension is a number."""
        return set()
