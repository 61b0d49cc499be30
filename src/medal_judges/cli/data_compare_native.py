"""``medal data compare-native``: native against translated dialogues (MEDAL, appendix C.5)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.config import load_config
from medal_judges.data_prep.native.comparison import CompareConfig, Comparer, compare_to_file
from medal_judges.data_prep.native.pairs import Paired, paired
from medal_judges.reading.dialogues import labelled_of
from medal_judges.reading.options import ReadOptions
from medal_judges.report.progress import ProgressBar
from medal_judges.storage.files import only_run, require_other_file


@reads_chats()
def compare_native(
    chats: ReadOptions,
    native: Annotated[Path, typer.Argument(metavar="NATIVE", help="File of native dialogues.")],
    translated: Annotated[
        Path, typer.Argument(metavar="TRANSLATED", help="File of medal data translate.")
    ],
    overrides: opt.Overrides = None,
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")] = Path("native"),
    config: Annotated[
        str, typer.Option("--config", help="YAML file, or the name of one in configs/native/.")
    ] = "native/compare",
    overwrite: opt.Overwrite = False,
    dry_run: opt.DryRun = False,
    max_cost: opt.MaxCost = None,
) -> None:
    """Ask a judge which is better, native or translated, in both orders; resumes after a stop.

    OUT holds verdicts.jsonl, results.json, results.csv and report.html.
    """
    from medal_judges.data_prep.native.rates import rates
    from medal_judges.data_prep.native.report import print_rates, write_report

    verdicts_file = out / "verdicts.jsonl"
    require_other_file(verdicts_file, [native, translated], option="OUT/verdicts.jsonl:")
    settings = load_config(CompareConfig, config, overrides or [], folder="native")
    reading = reading_report(chats, out / "skipped.jsonl", [native, translated])
    matched = paired(labelled_of(native, chats, reading), labelled_of(translated, chats, reading))
    show_reading(reading)
    comparer = Comparer(settings, settings.load_model(max_cost))
    if dry_run:
        requests = [r for pair in matched.pairs for r in comparer.requests(pair)]
        typer.echo(comparer.asker.estimate(requests, len(matched.pairs)).text())
        return
    if overwrite:
        verdicts_file.unlink(missing_ok=True)
    total = len(matched.pairs) * len(settings.criteria)
    with only_run(verdicts_file), ProgressBar("comparing", total, unit="verdicts") as bar:
        verdicts = compare_to_file(matched.pairs, comparer, verdicts_file, progress=bar.advance)
    figures = rates(verdicts)
    print_rates(figures)
    typer.echo(comparer.asker.spending, err=True)
    facts = {"Native": native.name, "Translated": translated.name} | _facts(matched, comparer)
    typer.echo(write_report(figures, facts, out))


def _facts(matched: Paired, comparer: Comparer) -> dict[str, str]:
    by = {str(pair.translated.extra.get("translated_by", "not stated")) for pair in matched.pairs}
    questions = comparer.config.criteria.items()
    return {
        "Pairs": f"{len(matched.pairs)} in all languages",
        "Without a partner": f"{matched.native_only} native, {matched.translated_only} translated",
        "Judge": str(comparer.signature()),
        "Translated by": "; ".join(sorted(by)),
        **{f"Question on {name}": question for name, question in questions},
        "Seed": str(comparer.config.seed),
    }
