"""``medal followup-usage``: which follow-ups DIET's selection chose, from files of scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medal_judges.errors import MedalError
from medal_judges.eval.benchmark.followup_usage import follow_up_usage
from medal_judges.records.judgement import Judgement
from medal_judges.report.console import print_tables
from medal_judges.storage.judgement_files import read_judgements


def followup_usage(
    scores: Annotated[
        list[str], typer.Argument(help="Files of `medal score`, each as FILE or SET=FILE.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write: the same as CSV.")
    ] = None,
) -> None:
    """Count which follow-ups were selected, by set and judge (DIET, Figure 3)."""

    answers: list[tuple[str, str, list[Judgement]]] = []
    for text in scores:
        name, _, path = text.rpartition("=")
        judgements = list(read_judgements(Path(path)))
        by_judge = dict.fromkeys(j.judge for j in judgements)
        answers += [
            (name or Path(path).name, judge, [j for j in judgements if j.judge == judge])
            for judge in by_judge
        ]
    table = follow_up_usage(answers)
    if not table.rows:
        raise MedalError(
            "no row of these files has a selection of follow-ups",
            hint="scores of a judge with select, such as configs/judges/diet.yaml",
        )
    print_tables([table], [table.note])
    if out is not None:
        table.write_csv(out)
        typer.echo(f"{len(table.rows)} lines in {out}")
