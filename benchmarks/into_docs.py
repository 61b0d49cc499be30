"""Tables of documents, written by the scripts that make them: no figure there is typed."""

from __future__ import annotations

import sys
from pathlib import Path

# these scripts are run as files
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import doc_tables


def keep(name: str | None, text: str) -> None:
    """Keep the tables of ``text`` as docs/results/data/NAME.csv (doc_tables.keep says how several
    are named) and write the documents' tables again; print ``text`` where no name is given."""
    if name is None:
        print(text)
        return
    doc_tables.keep(name, text)
    doc_tables.rewrite_pages()
