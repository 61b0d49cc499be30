"""``medal init``: writes a small example project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medal_judges.config import CONFIGS
from medal_judges.errors import ConfigError
from medal_judges.storage.files import atomic_path


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder to write: a new name.")
    ],
) -> None:
    """Write a small project to start from: a rubric, labelled chats, configs for training and a
    benchmark, and a Makefile that runs them (two minutes on a laptop).

    Example: medal init mine
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigError(f"{folder} already exists. Type the name of a new folder")
    with atomic_path(folder) as partial:
        partial.mkdir()
        for file in (CONFIGS / "project").iterdir():
            if file.is_file():
                (partial / file.name).write_bytes(file.read_bytes())
    typer.echo(f"{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}")
    typer.echo(f"next: cd {folder}, then make (or the commands in README.md)")
