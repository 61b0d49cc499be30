"""``medal data stats``: lengths, lexical diversity, issues and scores of a set of dialogues."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.reading.options import ReadOptions


@reads_chats(labels=True)
@opt.writes("sources", folder=True)
def stats(
    chats: ReadOptions,
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SET...", help="Files, or specs such as fed or xdial."),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder to write: stats.html, tables, figures.")
    ],
    no_lemmas: Annotated[
        bool, typer.Option("--no-lemmas", help="Lexical diversity over the words as they are.")
    ] = False,
    weights: opt.Weights = None,
    offline: opt.Offline = False,
) -> None:
    """Describe dialogues as in MEDAL's Table 2 and Figures 2, 9 and 10; labels are optional.

    All sets given are one set. Tables go to the terminal, the page and CSV files to --out.
    """
    from medal_judges.data_prep.corpus_stats.findings import Findings
    from medal_judges.data_prep.corpus_stats.report import print_report, write_report
    from medal_judges.data_prep.corpus_stats.survey import survey
    from medal_judges.data_prep.sources.registry import parse_spec, stream_spec

    reading = reading_report(chats, out / "skipped.jsonl", sources)
    for text in sources:
        parse_spec(text)  # a misspelt name is refused before the first set is read
    rows = chain.from_iterable(
        stream_spec(text, offline=offline or None, reading=reading, options=chats)
        for text in sources
    )
    name = ", ".join(Path(text).name for text in sources)
    surveyed = survey(rows, lemmas=not no_lemmas, weights=weights or "none")
    reading.require_rest()
    findings = Findings(surveyed, name)
    print_report(findings)
    show_reading(reading)
    typer.echo(f"wrote {write_report(findings, out)}")
