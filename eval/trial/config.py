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
    """The size of a trial.

    ``dialogues``: the number of dialogues from the user's file. Without a file, they come from the
    chitchat package, and eight shipped conversations in each of ``languages`` are added.
    ``per_check``: the maximum number of pairs in a check. ``checks``: names of checks or groups of
    checks (empty: all). ``texts``: a further file like configs/trial/texts.yaml.
    """

    seed: int = Field(default=0, ge=0)
    dialogues: int = Field(default=24, ge=0)
    languages: tuple[str, ...] = LANGUAGES
    max_turns: int = Field(default=24, ge=1)
    per_check: int = Field(default=40, ge=1)
    checks: tuple[str, ...] = ()
    texts: str | None = None

    def selects(self, check: str, group: str) -> bool:
        """Returns whether ``checks`` selects this ``check``, by its name or its ``group``."""
        return not self.checks or check in self.checks or group in self.checks
