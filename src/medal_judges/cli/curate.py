"""``medal curate``: choose the dialogues that people annotate."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from medal_judges.cli.options import from_options, writes
from medal_judges.config import Config, option
from medal_judges.reading.options import ReadOptions

SELECTION = "selection.jsonl"


class CurateOptions(Config):
    files: tuple[str, ...] = option(
        argument=True, metavar="IN...", help="Labelled dialogues: files, or medal."
    )
    out: Path = option(help="Folder to write: the selection and its report.")
    n: int = option(100, ge=1, help="Dialogues per language.")
    policy: Literal["balanced", "random"] = option("balanced", help="How dialogues are chosen.")
    lang: tuple[str, ...] = option((), help="ISO 639-1 code; may be repeated. Default: all.")
    aggregate: Literal["majority", "any", "all"] = option(
        "majority", help="How many of several answers make an issue present."
    )
    keywords: str = option("curate/foreign_language", help="YAML of the foreign-language filter.")
    keep_foreign: bool = option(False, help="Do not filter by the judge's comments.")
    max_per_context: int | None = option(
        None, ge=1, help="With --policy balanced. Default: no limit."
    )
    rubric: str = option("medal", help="Shipped name or YAML file: issues and overall.")
    seed: int = option(0, ge=0, help="Seed of every random draw.")
    overwrite: bool = option(False, help="Start again from the beginning; replaces OUT.")
    reading: ReadOptions = ReadOptions()


@writes("files", folder=True)
@from_options
def curate(options: CurateOptions) -> None:
    """Select n dialogues per language for annotation, and report the balance reached.

    Writes selection.jsonl (with the weight of each dialogue), left_out.jsonl, curation.json,
    counts.csv and curation.html.
    """
    from medal_judges.data_prep.curation.foreign import load_foreign
    from medal_judges.data_prep.curation.pool import CurationPlan, label_rules, read_pool
    from medal_judges.data_prep.curation.report import (
        curate,
        print_report,
        selected_rows,
        write_report,
    )
    from medal_judges.data_prep.sources.registry import files_of
    from medal_judges.errors import ConfigError, MedalError
    from medal_judges.reading.report import reading_report
    from medal_judges.storage.files import require_other_file
    from medal_judges.storage.jsonl import write_records

    out, files = options.out, options.files
    plan = CurationPlan(
        label_rules(options.rubric, options.aggregate),
        n=options.n,
        policy=options.policy,
        seed=options.seed,
        foreign=None if options.keep_foreign else load_foreign(options.keywords),
        per_context=options.max_per_context,
        langs=options.lang,
    )
    inputs = [path for text in files for path in files_of(text)]
    for name in (SELECTION, "left_out.jsonl", "skipped.jsonl"):
        require_other_file(out / name, inputs, option=f"--out: its {name}")
    if (out / SELECTION).exists() and not options.overwrite:
        raise ConfigError(f"{out / SELECTION} exists already", hint="--overwrite, or another --out")
    reading = reading_report(options.reading, out / "skipped.jsonl")
    try:
        pool = read_pool(files, plan, options=options.reading, report=reading)
    except MedalError:
        reading.require_rest()  # no row at all because all are bad
        raise
    curation = curate(pool, plan)
    write_records(out / "left_out.jsonl", pool.left_out)
    write_report(curation, out)
    # Last: if it exists, all is done, and the same command is refused.
    count = write_records(out / SELECTION, selected_rows(files, curation, options=options.reading))
    print_report(curation)
    reading.show()
    typer.echo(f"{count} dialogues written to {out / SELECTION}; report: {out / 'curation.html'}")
