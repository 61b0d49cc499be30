"""RenderedDialogue: a dialogue as the input of a neural network."""

from __future__ import annotations

from typing import NamedTuple


class RenderedDialogue(NamedTuple):
    """A dialogue as the input of a neural network.

    Attributes:
        text: The newest turns that fit into the context window, at least the last one, as one
            string.
        ids: Token ids of ``text`` [tokens]. If even the last turn is too long, only a part of them.
        dropped: Number of turns that are not in ``text``.
        cut: Number of turns of which only a part is in ``ids``.
    """

    text: str
    ids: list[int]
    dropped: int = 0
    cut: int = 0
