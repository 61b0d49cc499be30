"""RenderedDialogue: a dialogue as the input of a neural network."""

from __future__ import annotations

from typing import NamedTuple


class RenderedDialogue(NamedTuple):
    """A dialogue as the input of a neural network: the ``text`` of the turns that fit into its
    context window, and the token ``ids`` of this text. ``dropped`` counts the turns that do not
    fit. ``cut`` counts the turns of which only a part fits."""

    text: str
    ids: list[int]
    dropped: int = 0
    cut: int = 0
