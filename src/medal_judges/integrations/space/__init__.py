"""A Space of the Hugging Face Hub: a folder that can be uploaded unchanged."""

from __future__ import annotations

from importlib.resources import files


def folder() -> str:
    """Returns the folder with app.py, requirements.txt and the Space's README.md."""
    return str(files(__name__))
