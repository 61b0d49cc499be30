"""Settings of ``medal trial``, and the command's options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from medal_judges.config import DEVICE, MAX_COST, Config, option
from medal_judges.data_prep.perturbation.edit import LANGUAGES
from medal_judges.reading.dialogues import ReadOptionsWithoutLabels

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


class TrialOptions(Config):
    """Options of ``medal trial``."""

    judges: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="[JUDGE [FIELD=VALUE]...]...",
        help="Shipped names, YAML files, folders or hub ids; default: boxed. FIELD=VALUE is a "
        "setting of the trial (dialogues=12, seed=1, checks=[attack]), or else of the judge "
        "before it.",
    )
    out: Path = option(help="Folder to write.")
    data: str | None = option(
        None,
        help="File of chats, or a spec such as fed:dialogue; default: the shipped dialogues.",
    )
    config: str = option(
        "default", help="YAML file, or the name of one in configs/trial/."
    )
    device: str | None = DEVICE
    max_cost: float | None = MAX_COST
    save: bool = option(
        False,
        help="Also write trial.json into each judge's folder, for its model card.",
    )
    reading: ReadOptionsWithoutLabels = ReadOptionsWithoutLabels()


class TrialConfig(Config):
    """The size of a trial.

    ``dialogues``: number of dialogues from the file, or from the chitchat package, beside the eight
    shipped conversations in each of ``languages``. ``per_check``: maximum pairs of each check.
    ``checks``: names of checks or groups (empty: all). ``texts``: a further file like
    configs/trial/texts.yaml.
    """

    seed: int = Field(default=0, ge=0)
    dialogues: int = Field(default=24, ge=0)
    languages: tuple[str, ...] = LANGUAGES
    max_turns: int = Field(default=24, ge=1)
    per_check: int = Field(default=40, ge=1)
    checks: tuple[str, ...] = ()
    texts: str | None = None

    def wants(self, check: str, group: str) -> bool:
        """Returns whether ``checks`` selects this check."""
        return not self.checks or check in self.checks or group in self.checks
