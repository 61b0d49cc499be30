"""The settings that every trained family has in common."""

from __future__ import annotations

from medal_judges.config import Config


class TrainedConfig(Config):
    """Base of the settings of a trained judge, which judge.json stores under the family's name.

    ``base_revision`` is the commit or tag of a base on the Hub.
    """

    family: str

    def level_dimensions(self) -> set[str]:
        """Returns the dimensions whose targets are a probability for each level of the scale; for
        all others a target is a number."""
        return set()
