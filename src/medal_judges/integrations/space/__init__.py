"""A Space of the Hugging Face Hub: the folder that is uploaded, as it is."""

from __future__ import annotations

from importlib.resources import files


def folder() -> str:
    """The folder: app.py, requirements.txt and the Space's README.md."""
    return str(files(__name__))
