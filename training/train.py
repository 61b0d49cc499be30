"""Trains a judge, as ``medal train`` does. For launchers.

    accelerate launch --config_file configs/accelerate/gpu8.yaml training/train.py \\
        --config modernbert_medal_regression

Settings: configs/train/. Without a launcher: python training/train.py --config NAME.
"""

from __future__ import annotations

import sys

import typer

from medal_judges.cli.train import train
from medal_judges.errors import MedalError
from medal_judges.report.console import hide_library_noise

if __name__ == "__main__":
    hide_library_noise()
    try:
        typer.run(train)
    except MedalError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
