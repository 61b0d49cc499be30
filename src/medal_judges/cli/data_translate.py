"""``medal data translate`` (MEDAL, appendix C.5)."""

from __future__ import annotations

from pathlib import Path

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import MAX_COST, OVERRIDES, OVERWRITE, load_config, option
from medal_judges.reading.dialogues import (
    ReadOptionsWithoutLabels,
    start_report,
    stream_labelled,
)
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import output_lock


@with_options()
def translate(
    *,
    source: str = option(
        argument=True,
        help="A file of English dialogues.",
    ),
    overrides: tuple[str, ...] = OVERRIDES,
    to: tuple[str, ...] = option(
        help="Language to translate to, such as zh. May be repeated."
    ),
    out: Path = option(
        Path("translated.jsonl"), help="File to write: .jsonl or .jsonl.gz."
    ),
    config: str = option(
        "native/translate", help="YAML file, or the name of one in configs/native/."
    ),
    overwrite: bool = OVERWRITE,
    max_cost: float | None = MAX_COST,
    reading: ReadOptionsWithoutLabels,
) -> None:
    """Translate the English dialogues of a file. The number of turns and their roles stay the same.

    The same command resumes after a stop. It needs the file OUT.answers.jsonl for that.
    OUT.failed.jsonl lists failures with their reasons.

    Example: medal data translate dialogues.jsonl --to de --to zh
    """
    from medal_judges.data_prep.jobs import path_beside
    from medal_judges.data_prep.translation import (
        TranslateConfig,
        Translation,
        TranslationRunner,
        require_target_languages,
    )
    from medal_judges.data_prep.translation import translate_to_file as run

    require_target_languages(to)
    settings = load_config(TranslateConfig, config, overrides, folder="native")
    runner = TranslationRunner(settings, max_cost=max_cost)
    report = start_report(reading, beside=out)
    skipped = 0
    translations = []
    for row in stream_labelled(source, reading, report):
        if row.dialogue.lang == "en":
            translations += [Translation(row, lang) for lang in to]
        else:
            skipped += 1
    with output_lock(out), ProgressBar("translating", len(translations)) as bar:
        failures = run(
            runner,
            translations,
            out,
            overwrite=overwrite,
            progress=lambda count: bar.advance(finished=count),
        )
    report.show()
    typer.echo(
        f"{len(translations) - failures.total()} dialogues in {out}, {runner.earlier} of them "
        "resumed"
    )
    if skipped:
        typer.echo(f"{skipped} rows are not in English and were skipped")
    for reason, count in failures.most_common():
        typer.echo(f"{count} failed: {reason}", err=True)
    if failures:
        typer.echo(f"the failures are in {path_beside(out, 'failed')}", err=True)
    typer.echo(runner.spending_text, err=True)
