"""``medal agreement``: how well annotators agree with one another."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from medal_judges import __version__
from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.errors import MedalError
from medal_judges.reading.options import ReadOptions
from medal_judges.records.labelled import LabelledDialogue


@reads_chats(labels=True)
@opt.writes("source", folder=True)
def agreement(
    chats: ReadOptions,
    source: Annotated[
        str, typer.Argument(metavar="FILE_OR_SPEC", help="Labelled file, or a spec: fed:dialogue.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write: the page, CSV and JSON.")
    ] = None,
    dimension: opt.Dimensions = None,
    weights: opt.Weights = None,
    offline: opt.Offline = False,
) -> None:
    """Percent agreement, Krippendorff's alpha and Spearman, per dimension and language.

    With --out: agreement.html, agreement.json, figures.csv, percent.csv, alpha.csv, spearman.csv.
    """
    from medal_judges.data_prep.sources.registry import load_spec
    from medal_judges.eval.agreement.agreement import agreements
    from medal_judges.eval.agreement.report import print_agreement, write_agreement
    from medal_judges.stats.weights import required_weights

    reading = reading_report(chats, None if out is None else out / "skipped.jsonl", [source])
    rows = load_spec(source, offline=offline or None, reading=reading, options=chats)
    reading.require_rest()
    if not any(row.labels for row in rows):
        raise MedalError(
            f"{source}: no row has labels",
            hint="labels come from: medal label, medal annotate import",
        )
    used, note = required_weights(rows, weights or "none", Path(source).name)
    figures = agreements(rows, dimension or (), weights=used)
    print_agreement(figures)
    if note:
        typer.echo(note)
    show_reading(reading)
    if out is not None:
        name = Path(source).name
        typer.echo(
            write_agreement(
                figures,
                f"Agreement: {name}",
                [*_facts(rows), *([("Weights", note)] if note else [])],
                out,
            )
        )


def _facts(rows: list[LabelledDialogue]) -> list[tuple[str, str]]:
    from medal_judges.eval.benchmark.run import data_hash
    from medal_judges.stats.intervals import METHOD

    facts = [("Rows", str(len(rows))), ("Data", data_hash(rows))]
    facts += [("Conversations", str(len({row.group for row in rows})))]
    if labellers := sorted(
        {str(row.extra["labels_by"]) for row in rows if "labels_by" in row.extra}
    ):
        what = f"several answers of one labeller ({'; '.join(labellers)}), not of several people"
        facts.append(("Answers", what))
    facts.append(("Intervals", METHOD))
    with suppress(PackageNotFoundError):  # alpha itself then says what to install
        facts.append(("Alpha", f"package krippendorff {version('krippendorff')}"))
    return [*facts, ("medal-judges", __version__)]
