"""The reasoning that some models write before their answer, and where it ends."""

from __future__ import annotations

import re

_NAME = r"(?:think(?:ing)?|thought|reasoning)"
_OPEN = re.compile(rf"\s*[<\[]({_NAME})[>\]]", re.IGNORECASE)
_CLOSE = re.compile(rf"[<\[]/({_NAME})[>\]]", re.IGNORECASE)
# The tag of a block whose beginning stood in the prompt, as chat templates write it: on its own.
_CLOSE_ALONE = re.compile(rf"^[ \t]{{0,4}}</{_NAME}>[ \t]{{0,4}}$", re.IGNORECASE | re.MULTILINE)


def after_thinking(text: str) -> tuple[str, int] | None:
    """What stands behind the reasoning and where it begins; None where reasoning has no end.

    Only reasoning at the very beginning is cut, up to its first closing tag. Where the prompt
    itself opened it, the one closing tag of the text ends it, if it stands on a line of its own: a
    tag inside a sentence or a comment is a quotation.
    """
    end = 0
    while (opened := _OPEN.match(text, end)) is not None:
        closed = _CLOSE.search(text, opened.end())
        if closed is None:
            return None
        end = closed.end()
    if end == 0:
        tags = [m.span() for m, _ in zip(_CLOSE.finditer(text), range(2), strict=False)]
        alone = _CLOSE_ALONE.search(text)
        if len(tags) == 1 and alone is not None:
            end = alone.end()
    return text[end:], end


def mentions_thinking(text: str) -> bool:
    """Whether a closing tag stands in ``text``: then nobody can say where the answer begins."""
    return _CLOSE.search(text) is not None
