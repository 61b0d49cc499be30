"""``medal agreement``: how well annotators agree with one another."""

from __future__ import annotations

from pathlib import Path

from medal_judges import __version__
from medal_judges.cli.options import with_options
from medal_judges.config import option
from medal_judges.errors import MedalError
from medal_judges.reading.dialogues import ReadOptions, start_report
from medal_judges.report.page import print_and_write


@with_options(locks="folder")
def agreement(
    *,
    source: str = option(
        argument=True,
        help="A file of labelled chats, or a source such as fed:dialogue.",
    ),
    out: Path | None = option(None, help="Folder to write: page, tables, JSON."),
    dimension: tuple[str, ...] = option(
        (), help="Only this dimension. May be repeated."
    ),
    reading: ReadOptions,
) -> None:
    """Measure how well annotators agree on the same chats, per dimension and language.

    The measures are percent agreement, Krippendorff's alpha and Spearman's correlation. With --out,
    they are written as a page, JSON and tables.

    Example: medal agreement fed:dialogue --out agreement
    """
    from medal_judges.data_prep.sources.registry import load_rows
    from medal_judges.eval.agreement.agreement import agreement_page, measure_agreements
    from medal_judges.eval.benchmark.sets import data_hash
    from medal_judges.stats.equal import EQUAL_FACT
    from medal_judges.stats.intervals import METHOD, THESE

    report = start_report(reading, out)
    rows = load_rows(source, reading=report, options=reading)
    report.require_dialogues()
    labellers = set()
    for row in rows:
        if "labels_by" in row.extra:
            labellers.add(str(row.extra["labels_by"]))
    if not any(row.labels for row in rows):
        raise MedalError(
            f"{source}: no row has labels. Type --label COLUMN=DIMENSION:LOW..HIGH"
        )
    figures = measure_agreements(rows, dimension)
    report.show()
    facts = [
        ("Rows", str(len(rows))),
        ("Data", data_hash(rows)),
        ("Conversations", str(len({row.group for row in rows}))),
    ]
    if labellers:
        names = "; ".join(sorted(labellers))
        text = f"several answers of one labeller ({names}), not of several people"
        facts.append(("Answers", text))
    facts += [
        ("Intervals", METHOD),
        ("Intervals are for", THESE),
        EQUAL_FACT,
        ("medal-judges", __version__),
    ]
    title = f"Agreement: {Path(source).name}"
    print_and_write(agreement_page(figures, title, facts), out)
