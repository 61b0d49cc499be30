"""``medal align``: makes a judge agree with people's labels, and shows whether it does."""

from __future__ import annotations

from shlex import quote

import typer

from medal_judges.cli.options import from_options, writes
from medal_judges.errors import ConfigError
from medal_judges.eval.align.run import AlignOptions
from medal_judges.reading.dialogues import reading_report


@from_options
@writes(folder=True)
def align(options: AlignOptions) -> None:
    """Make a judge agree with people's labels. Nested cross-validation measures the gain; without a
    gain beyond chance, no judge is written (exit status 6). Writes OUT: the judge, its card and
    align.json.

    Example: medal align boxed --labels mine.csv --out aligned
    """
    from medal_judges.data_prep.sources.registry import load_spec
    from medal_judges.eval.align.run import align as run
    from medal_judges.inference.judge_choice import choose_judge
    from medal_judges.report.console import Printout

    out, labels = options.out, options.labels
    reading = reading_report(options.reading, out)
    rows = load_spec(labels, reading=reading, options=options.reading)
    if reading.count:
        raise ConfigError(
            f"{reading.count} rows are no labelled chats; the first: {reading.messages[0]}",
            hint=f"correct or delete them; {out}/skipped.jsonl lists all",
        )
    reading.show()
    choice = choose_judge(options.judge, options.settings, device=options.device)
    if options.max_cost is not None:
        choice = choice.spending(options.max_cost)
    names = dict.fromkeys(
        label.dimension for label in options.reading.column_map.labels.values()
    )
    result = run(
        choice.source,
        rows,
        out,
        dimensions=tuple(names),
        keep_anyway=options.keep_anyway,
        **choice.options,
    )
    if options.as_json:
        typer.echo((out / "align.json").read_text(encoding="utf-8").rstrip())
    else:
        notes = [*result.sentences(), str(result.facts.get("notes", ""))]
        Printout(result.tables(), notes).show()
        if result.judge is not None:
            typer.echo(
                f"medal score CHATS --judge {quote(str(out))} --out scores.jsonl"
            )
    if result.judge is None:
        raise typer.Exit(6)
