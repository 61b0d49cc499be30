"""``medal compare``: which of several systems is better."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.errors import ConfigError
from medal_judges.reading.options import ReadOptions

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE...", help="Scores, or chats to be scored; one file a system."
    ),
]
By = Annotated[
    str | None,
    typer.Option("--by", help="Column that names the system: chatbot, or one of --keep."),
]
ScoringJudge = Annotated[
    str | None,
    typer.Option(
        "--judge",
        help="Scores chats: shipped name, YAML file, folder or hub id; boxed unless given.",
    ),
]
Human = Annotated[
    list[str] | None,
    typer.Option(
        "--human",
        metavar="[NAME=]FILE",
        help="Labels by people, which correct the judge; may be repeated.",
    ),
]
Chats = Annotated[
    list[str] | None, typer.Option("--chats", help="Dialogues that belong to the scores, by id.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder to write: page, CSV, JSON, PNG and resumed scores."),
]
PairBy = Annotated[
    Literal["auto", "id", "opening", "none"],
    typer.Option("--pair-by", help="What makes two dialogues one context."),
]
Context = Annotated[
    str | None, typer.Option("--context", help="Column that names the context, such as scene.")
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", help="Column whose rows belong together, such as user.")
]
Difference = Annotated[
    float | None,
    typer.Option("--difference", min=0, help="Say how many more dialogues would show it."),
]
Rubric = Annotated[
    str | None,
    typer.Option("--rubric", help="Shipped name or YAML file: which end of a dimension is good."),
]


@reads_chats(labels=True)
@opt.writes("files", "human", "chats", folder=True)
def compare(
    forms: ReadOptions,
    files: Files,
    by: By = None,
    judge: ScoringJudge = None,
    human: Human = None,
    chats: Chats = None,
    out: Out = None,
    dimension: opt.Dimensions = None,
    pair_by: PairBy = "auto",
    context: Context = None,
    cluster: Cluster = None,
    difference: Difference = None,
    rubric: Rubric = None,
    weights: opt.Weights = None,
    device: opt.Device = None,
    dtype: opt.Dtype = None,
) -> None:
    """Compare systems by a judge's scores: differences, intervals, ranks, and what the dialogues at
    hand could show. Paired where systems met the same contexts. With --human the judge is corrected
    by labels of some dialogues, so that a judge that favours one system misleads nobody.

    With --out: compare.html, compare.json, systems.csv, differences.csv, figures/.
    """
    from medal_judges.eval.comparison.compare import CompareOptions
    from medal_judges.eval.comparison.compare import compare as compared
    from medal_judges.eval.comparison.report import print_comparison, write_comparison
    from medal_judges.eval.comparison.rows import named_sources
    from medal_judges.inference.judge_choice import choose_judge
    from medal_judges.reading.dialogues import dialogues_of, labelled_of
    from medal_judges.report.progress import ProgressBar
    from medal_judges.shipped import BOXED
    from medal_judges.storage.judgements import holds_judgements

    if difference == 0:
        raise ConfigError("--difference is above 0: every number of dialogues shows one of 0")
    sources = {source.name: source.path for source in named_sources(files)}
    if judge is None and not all(map(holds_judgements, sources.values())):
        judge = BOXED
    loaded = None if judge is None else choose_judge(judge, device=device, dtype=dtype).load()
    options = CompareOptions(
        by, dimension or (), pair_by, context, cluster, difference, weights or "none", rubric
    )
    reading = reading_report(forms, None if out is None else out / "skipped.jsonl")
    with ProgressBar("judging", visible=judge is not None) as bar:
        found = compared(
            sources,
            options,
            judge=loaded,
            human=human,
            chats=chats or (),
            out=out,
            read=partial(dialogues_of, options=forms, reading=reading),
            read_labels=partial(labelled_of, options=forms, reading=reading),
            progress=bar.advance,
        )
    show_reading(reading)
    print_comparison(found)
    if out is not None:
        typer.echo(write_comparison(found, out))
