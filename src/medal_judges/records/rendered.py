"""RenderedDialogue: a dialogue as the input of a neural network."""

from __future__ import annotations

from typing import NamedTuple


class RenderedDialogue(NamedTuple):
    """A dialogue as the input of a neural network.

    Attributes:
        text: The turns, or the parts of turns, that fit into the context window, as one string.
        ids: Token ids of ``text`` [tokens].
        dropped: Number of turns that are not in ``text`` at all.
        cut: Number of turns of which only a part is in ``text``.
    """

    text: str
    ids: list[int]
    dropped: int = 0
    cut: int = 0
