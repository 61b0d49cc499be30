"""The options of ``medal train``; light, so that its help loads no torch."""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from medal_judges.config import Config, option
from medal_judges.errors import ConfigError


class TrainOptions(Config):
    """Options of ``medal train``."""

    overrides: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="FIELD=VALUE",
        help="Override a setting of the YAML file: a=1, or a.b=1 inside a group.",
    )
    config: str = option(
        "configs/train/quickstart.yaml", help="YAML file, or the name of one in configs/train/."
    )
    out: Path | None = option(None, help="Folder to write; by default the config's output_dir.")
    resume: bool = option(False, help="Fail if there is no checkpoint to resume from.")
    overwrite: bool = option(
        False, help="Start again from the beginning; replaces OUT. Without it a run is resumed."
    )
    push: str | None = option(None, metavar="ORG/NAME", help="Push the judge when it is trained.")
    public: bool = option(False, help="With --push: public.")
    revision: str | None = option(None, help="With --push: a tag.")

    @model_validator(mode="after")
    def _check(self) -> TrainOptions:
        if self.push is None and (self.public or self.revision is not None):
            option_of_push = "--public" if self.public else "--revision"
            raise ConfigError(f"{option_of_push} is for --push", hint="--push ORG/NAME")
        return self
