"""What a network reads of a dialogue."""

from __future__ import annotations

from typing import NamedTuple


class RenderedDialogue(NamedTuple):
    """The input of a network for one dialogue: the ``text`` of the turns that fit into the window,
    and its token ``ids``. ``dropped`` counts the turns that do not fit. ``cut`` counts the turns of
    which only a part fits."""

    text: str
    ids: list[int]
    dropped: int = 0
    cut: int = 0
