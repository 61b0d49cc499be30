"""``medal data plant``: plant issues into the dialogues of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.reading.options import ReadOptions
from medal_judges.reading.report import list_beside
from medal_judges.storage.files import require_other_file
from medal_judges.storage.jsonl import write_records


@reads_chats()
@opt.writes("source")
def plant(
    chats: ReadOptions,
    source: Annotated[
        str, typer.Argument(metavar="IN", help="Clean dialogues: a file, or a spec: chitchat:test.")
    ],
    out: Annotated[Path, typer.Option("--out", help="File to write (.jsonl or .jsonl.gz).")],
    issues: Annotated[
        list[str] | None,
        typer.Option("--issues", help="Only this issue; may be repeated. All eight otherwise."),
    ] = None,
    strength: Annotated[
        list[int] | None,
        typer.Option(
            "--strength", min=1, max=3, help="1 subtle, 2 plain, 3 gross; may be repeated."
        ),
    ] = None,
    per_issue: Annotated[
        int | None, typer.Option("--per-issue", min=1, help="Pairs per issue; all when not given.")
    ] = None,
    split: Annotated[
        Literal["train", "val", "test"],
        typer.Option("--split", help="Part of the sentence tables."),
    ] = "train",
    seed: opt.Seed = 0,
    min_turns: Annotated[int, typer.Option("--min-turns", min=1, help="Leave out shorter.")] = 1,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", min=1, help="Leave out longer.")
    ] = None,
) -> None:
    """Write dialogues as they are, with an issue injected, and its matched control, all labelled.

    Give one split of your conversations at a time, with the same --split.
    """
    from medal_judges.data_prep.perturbation.injection import (
        ISSUES,
        InjectionCounts,
        injected_set,
    )
    from medal_judges.data_prep.sources.registry import files_of, load_spec

    require_other_file(out, files_of(source))
    reading = reading_report(chats, list_beside(out), files_of(source))
    counts = InjectionCounts()
    rows = injected_set(
        (
            row
            for row in load_spec(source, reading=reading, options=chats)
            if min_turns <= len(row.dialogue.turns) <= (max_turns or len(row.dialogue.turns))
        ),
        seed=seed,
        per_issue=per_issue,
        issues=issues or ISSUES,
        strengths=strength or (1, 2, 3),
        split=split,
        counts=counts,
    )
    count = write_records(out, rows)
    show_reading(reading)
    typer.echo("\n".join(counts.lines()), err=True)
    typer.echo(f"{count} dialogues written to {out}")
