"""Settings of ``medal trial``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from medal_judges.config import Config
from medal_judges.data_prep.perturbation.edit import LANGUAGES

# The score should stay, not rise, not obey an instruction, fall.
Group = Literal["same", "no_gain", "attack", "must_fall"]
# none: too few pairs
Verdict = Literal["green", "red", "none"]
GROUPS: Mapping[Group, str] = {
    "same": "Irrelevant changes",
    "no_gain": "Cheap gains",
    "attack": "Attacks",
    "must_fall": "Faults",
}


class TrialConfig(Config):
    """Settings of a trial, which tests how edits of dialogues change judges' scores.

    Attributes:
        seed: The seed of every random choice.
        dialogues: The number of dialogues to draw from the user's file. Without a file, from the
            data set ``chitchat:test``.
        languages: Languages of the shipped conversations, which are used only without a file.
        max_turns: The maximum number of turns of a dialogue from ``chitchat:test``.
        per_check: The maximum number of dialogues to edit for one check.
        checks: Names of checks (edits whose effect on the score is tested), such as ``lower_case``,
            or of their groups, such as ``attack`` (empty: all).
        texts: A YAML file of further texts to insert, in the form of configs/trial/texts.yaml.
    """

    seed: int = Field(default=0, ge=0)
    dialogues: int = Field(default=24, ge=0)
    languages: tuple[str, ...] = LANGUAGES
    max_turns: int = Field(default=24, ge=1)
    per_check: int = Field(default=40, ge=1)
    checks: tuple[str, ...] = ()
    texts: str | None = None

    def selects(self, check: str, group: str) -> bool:
        """Returns whether the trial includes a check (an edit whose effect on the score is tested).
        If the setting ``checks`` is empty, it includes all.

        Args:
            check: The name of the check, such as ``lower_case``.
            group: The name of its group, such as ``attack``.
        """
        return not self.checks or check in self.checks or group in self.checks
