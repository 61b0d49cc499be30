"""``medal data translate`` (MEDAL, appendix C.5)."""

from __future__ import annotations

from pathlib import Path

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import (
    DRY_RUN,
    MAX_COST,
    OVERRIDES,
    OVERWRITE,
    load_config,
    option,
)
from medal_judges.errors import MissingExtraError
from medal_judges.reading.dialogues import (
    ReadOptionsWithoutLabels,
    labelled_of,
    reading_report,
)
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import only_run


@with_options()
def translate(
    *,
    source: str = option(
        argument=True,
        metavar="IN",
        help="A file of dialogues.",
    ),
    overrides: tuple[str, ...] = OVERRIDES,
    to: tuple[str, ...] = option(help="Language, such as zh; may be repeated."),
    out: Path = option(
        Path("translated.jsonl"), help="File to write (.jsonl or .jsonl.gz)."
    ),
    config: str = option(
        "native/translate", help="YAML file, or the name of one in configs/native/."
    ),
    overwrite: bool = OVERWRITE,
    dry_run: bool = DRY_RUN,
    max_cost: float | None = MAX_COST,
    reading: ReadOptionsWithoutLabels,
) -> None:
    """Translate the English dialogues of a file; the same command resumes after a stop. Turns and
    roles stay unchanged. OUT.failed.jsonl lists failures with their reasons; with the extra lang, a
    turn in the wrong language is a failure too. OUT.answers.jsonl is needed to resume.

    Example: medal data translate dialogues.jsonl --to de --to zh
    """
    from medal_judges.data_prep.jobs import beside
    from medal_judges.data_prep.translation import (
        TranslateConfig,
        Translation,
        TranslationRunner,
        require_targets,
    )
    from medal_judges.data_prep.translation import translate as run
    from medal_judges.reading.language_detection import LanguageIdentifier

    require_targets(to)
    settings = load_config(TranslateConfig, config, overrides, folder="native")
    runner = TranslationRunner(settings, max_cost=max_cost)
    skipped_file: Path | None = out
    if dry_run:
        skipped_file = None
    report = reading_report(reading, beside=skipped_file)
    check = None
    if not dry_run:
        try:
            check = LanguageIdentifier(purpose="the check of languages")
        except MissingExtraError as error:
            typer.echo(
                f"the languages of the translations are NOT checked: {error}", err=True
            )
    skipped = 0
    translations = []
    for row in labelled_of(source, reading, report):
        skipped += row.dialogue.lang != "en"
        if row.dialogue.lang == "en":
            translations += [Translation(row, lang, check) for lang in to]
    if dry_run:
        typer.echo(runner.estimate(translations))
        return
    with only_run(out), ProgressBar("translating", len(translations)) as bar:
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
        typer.echo(f"the failures are in {beside(out, 'failed')}", err=True)
    typer.echo(runner.spending, err=True)
