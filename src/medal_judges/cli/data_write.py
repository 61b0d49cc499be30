"""``medal data write``: a source's rows as a JSONL file, the form that every command reads."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.storage.jsonl import write_records


@opt.writes("source")
def write(
    source: Annotated[str, typer.Argument(metavar="IN", help="A spec, such as chitchat:test.")],
    out: Annotated[Path, typer.Option("--out", help="File to write (.jsonl or .jsonl.gz).")],
    count: Annotated[
        int | None, typer.Option("--n", min=1, help="The first so many; all when not given.")
    ] = None,
    min_turns: Annotated[int, typer.Option("--min-turns", min=1, help="Leave out shorter.")] = 1,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", min=1, help="Leave out longer.")
    ] = None,
    offline: opt.Offline = False,
) -> None:
    """Write the dialogues of a source, with their labels, to a file."""
    from medal_judges.data_prep.sources.registry import stream_spec

    rows = (
        row
        for row in stream_spec(source, offline=offline or None)
        if min_turns <= len(row.dialogue.turns) <= (max_turns or len(row.dialogue.turns))
    )
    written = write_records(out, islice(rows, count))
    typer.echo(f"{written} dialogues written to {out}")
