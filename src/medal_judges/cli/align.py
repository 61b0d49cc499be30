"""``medal align``: makes a judge agree with people's labels, and shows whether it does."""

from __future__ import annotations

from pathlib import Path

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import DEVICE, MAX_COST, OVERRIDES, option
from medal_judges.reading.dialogues import ReadingReport, ReadOptions


@with_options(locks="folder")
def align(
    *,
    judge: str = option(
        argument=True, help="Shipped name (medal judges), YAML file, folder or Hub id."
    ),
    settings: tuple[str, ...] = OVERRIDES,
    labels: str = option(
        help="A file, or a source, of 20 chats or more with people's labels."
    ),
    out: Path = option(
        help="Folder to write: the aligned judge and the measured gain."
    ),
    max_cost: float | None = MAX_COST,
    keep_anyway: bool = option(
        False, help="Write the judge also if the gain may be chance."
    ),
    device: str | None = DEVICE,
    reading: ReadOptions,
) -> None:
    """Make a judge agree with people's labels. The gain is measured on chats that were not used for
    fitting.

    Writes the judge, its card and align.json. If the gain may be chance, no judge is written and
    the exit status is 6.

    Example: medal align boxed --labels mine.csv --out aligned
    """
    from medal_judges.data_prep.sources.registry import load_rows
    from medal_judges.eval.align.run import align as run
    from medal_judges.inference.judge_choice import choose_judge

    report = ReadingReport(strict=True)
    rows = load_rows(labels, reading=report, options=reading)
    report.show()
    choice = choose_judge(judge, settings, device=device).with_spending(max_cost)
    names = dict.fromkeys(
        label.dimension for label in reading.column_map.labels.values()
    )
    result = run(
        choice.source,
        rows,
        out,
        dimensions=tuple(names),
        keep_anyway=keep_anyway,
        **choice.options,
    )
    result.printout(out).show()
    if result.judge is None:
        raise typer.Exit(6)
