"""Docstrings of this package as Markdown: examples become code. mkdocstrings loads it."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>> (?:.*\n?)(?:\1\S.*\n?| *\.\.\. ?.*\n?)*", re.MULTILINE)
_BLOCK = re.compile(r"::\s*$", re.MULTILINE)


def as_markdown(text: str) -> str:
    """``text`` with its ``>>>`` examples, up to the next empty line, in fences."""
    fenced = _EXAMPLE.sub(
        lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text + "\n"
    )
    return _BLOCK.sub(":", fenced.rstrip())


class AsMarkdown(griffe.Extension):
    """Rewrites each docstring when its object is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
