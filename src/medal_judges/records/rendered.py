"""RenderedDialogue: a dialogue as the input of a neural network."""

from __future__ import annotations

from typing import NamedTuple


class RenderedDialogue(NamedTuple):
    """A dialogue as the input of a neural network.

    Attributes:
        text: The newest turns that fit into the context window, as one string. It has at least the
            last turn.
        ids: Token ids of ``text`` [tokens]. If the last turn alone is too long, some are left out.
        dropped: Number of turns that are not in ``text``.
        cut: Number of turns of which only a part is in ``ids``.
    """

    text: str
    ids: list[int]
    dropped: int = 0
    cut: int = 0
