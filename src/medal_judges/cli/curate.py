"""``medal curate``: choose the dialogues that people annotate."""

from __future__ import annotations

import typer

from medal_judges.cli.options import with_options
from medal_judges.data_prep.curation import report
from medal_judges.data_prep.curation.pool import CurateOptions
from medal_judges.errors import ConfigError, MedalError
from medal_judges.reading.dialogues import start_report
from medal_judges.report.console import Printout
from medal_judges.storage.files import write_json
from medal_judges.storage.jsonl import write_records

SELECTION = "selection.jsonl"


@with_options(locks="folder")
def curate(options: CurateOptions) -> None:
    """Select chats for annotation, the same number in each language, and report how balanced the
    selection is.

    Writes selection.jsonl, left_out.jsonl and curation.json. Each selected chat has a weight: the
    number of chats that it represents.

    Example: medal curate labelled/labelled.jsonl --n 100 --out curated
    """
    out = options.out
    if (out / SELECTION).exists() and not options.overwrite:
        raise ConfigError(
            f"{out / SELECTION} already exists. Type --overwrite, or another --out"
        )
    reading = start_report(options.reading, out)
    try:
        curation = report.curate(options, reading)
    except MedalError:
        reading.require_dialogues()  # no row at all because all are bad
        raise
    write_records(out / "left_out.jsonl", curation.left_out)
    write_json(out / "curation.json", curation.to_record())
    # Last: if it exists, all is done, and the same command is refused.
    count = write_records(out / SELECTION, report.load_selected_rows(curation))
    table = report.size_table(curation)
    Printout([table], report.describe_left_out(curation)).show()
    reading.show()
    typer.echo(f"{count} dialogues written to {out / SELECTION}")
