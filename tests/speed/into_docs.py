"""Tables of documents, written by the scripts that make them: no figure there is typed."""

from __future__ import annotations

import re
from pathlib import Path


def rewrite(document: Path | None, marker: str, text: str) -> None:
    """Put ``text`` between ``<!-- marker -->`` and the next ``<!-- end -->`` of ``document``, or
    print it where none is named. Raises ValueError where the document lacks the marker."""
    if document is None:
        print(text)
        return
    begin = f"<!-- {marker} -->"
    whole = document.read_text("utf-8")
    if begin not in whole:
        raise ValueError(f"{document} has no {begin}")
    pattern = re.compile(re.escape(begin) + r".*?<!-- end -->", re.DOTALL)
    document.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n<!-- end -->", whole), "utf-8")
