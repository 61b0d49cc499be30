"""What a network reads of a dialogue."""

from __future__ import annotations

from typing import NamedTuple


class RenderedDialogue(NamedTuple):
    """The ``text`` of the turns that fit into a judge's window and its token ``ids``, and the
    numbers of turns that are ``dropped`` and of turns that are ``cut``."""

    text: str
    ids: list[int]
    dropped: int = 0
    cut: int = 0
