"""``medal curate``: choose the dialogues that people annotate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from medal_judges.cli.options import Languages, Overwrite, Seed, writes
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.reading.options import ReadOptions

if TYPE_CHECKING:
    from medal_judges.data_prep.curation.job import CurationPlan

SELECTION = "selection.jsonl"


@reads_chats(labels=True)
@writes("files", folder=True)
def curate(
    chats: ReadOptions,
    files: Annotated[
        list[str], typer.Argument(metavar="IN", help="Labelled dialogues: files, or medal.")
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder to write: the selection and its report.")
    ],
    n: Annotated[int, typer.Option("--n", min=1, help="Dialogues per language.")] = 100,
    policy: Annotated[
        Literal["balanced", "random"], typer.Option("--policy", help="How dialogues are chosen.")
    ] = "balanced",
    lang: Languages = None,
    aggregate: Annotated[
        Literal["majority", "any", "all"],
        typer.Option("--aggregate", help="How many of several answers make an issue present."),
    ] = "majority",
    keywords: Annotated[
        str, typer.Option("--keywords", help="YAML of the foreign-language filter.")
    ] = "curate/foreign_language",
    keep_foreign: Annotated[
        bool, typer.Option("--keep-foreign", help="Do not filter by the judge's comments.")
    ] = False,
    max_per_context: Annotated[
        int | None,
        typer.Option("--max-per-context", min=1, help="With --policy balanced; no limit if unset."),
    ] = None,
    rubric: Annotated[
        str, typer.Option("--rubric", help="Shipped name or YAML file: issues and overall.")
    ] = "medal",
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Select n dialogues per language for annotation, and report the balance reached.

    Writes selection.jsonl (with the weight of each dialogue), left_out.jsonl, curation.json,
    counts.csv and curation.html.
    """
    from medal_judges.data_prep.curation.candidate import label_reading
    from medal_judges.data_prep.curation.foreign import load_foreign
    from medal_judges.data_prep.curation.job import CurationPlan
    from medal_judges.errors import ConfigError

    foreign = None if keep_foreign else load_foreign(keywords)
    reading = label_reading(rubric, aggregate)
    plan = CurationPlan(reading, n, policy, seed, foreign, max_per_context, tuple(lang or ()))
    _require_unread(files, out)
    if (out / SELECTION).exists() and not overwrite:
        raise ConfigError(f"{out / SELECTION} exists already", hint="--overwrite, or another --out")
    _run(files, out, plan, chats)


def _run(files: list[str], out: Path, plan: CurationPlan, chats: ReadOptions) -> None:
    from medal_judges.data_prep.curation.job import curate as run
    from medal_judges.data_prep.curation.job import read_pool, selected_rows
    from medal_judges.data_prep.curation.report import print_report, write_report
    from medal_judges.errors import MedalError
    from medal_judges.storage.jsonl import write_records

    reading = reading_report(chats, out / "skipped.jsonl")
    try:
        pool = read_pool(files, plan, options=chats, reading=reading)
    except MedalError:
        reading.require_rest()  # no row at all because all are bad
        raise
    curation = run(pool, plan)
    write_records(out / "left_out.jsonl", curation.pool.left_out)
    write_report(curation, out)
    # Last: where it stands, all is done, and the same command is refused.
    count = write_records(out / SELECTION, selected_rows(files, curation, options=chats))
    print_report(curation)
    show_reading(reading)
    typer.echo(f"{count} dialogues written to {out / SELECTION}; report: {out / 'curation.html'}")


def _require_unread(files: list[str], out: Path) -> None:
    """Raise ConfigError where a file to be written is one of those that are read."""
    from medal_judges.data_prep.sources.registry import files_of
    from medal_judges.storage.files import require_other_file

    read = [path for text in files for path in files_of(text)]
    for name in (SELECTION, "left_out.jsonl", "skipped.jsonl"):
        require_other_file(out / name, read, option=f"--out: its {name}")
