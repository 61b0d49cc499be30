"""The options of ``medal train``; light, so that its help loads no torch."""

from __future__ import annotations

from pathlib import Path

from medal_judges.config import Config, option


class TrainOptions(Config):
    """Options of ``medal train``."""

    overrides: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="FIELD=VALUE",
        help="Override a setting of the YAML file: a=1, or a.b=1 inside a group.",
    )
    config: str = option(
        "configs/train/quickstart.yaml",
        help="YAML file, or the name of one in configs/train/.",
    )
    out: Path | None = option(
        None, help="Folder to write; by default the config's output_dir."
    )
    overwrite: bool = option(
        False,
        help="Start again from the beginning; replaces OUT. Without it a run is resumed.",
    )
