"""``medal data translate`` and ``medal data compare-native`` (MEDAL, appendix C.5)."""

from __future__ import annotations

from pathlib import Path

import typer

from medal_judges.cli.options import from_options
from medal_judges.config import (
    DRY_RUN,
    MAX_COST,
    OVERRIDES,
    OVERWRITE,
    Config,
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
from medal_judges.storage.files import only_run, require_other_file


class JobOptions(Config):
    overwrite: bool = OVERWRITE
    dry_run: bool = DRY_RUN
    max_cost: float | None = MAX_COST
    reading: ReadOptionsWithoutLabels = ReadOptionsWithoutLabels()


class TranslateOptions(JobOptions):
    source: str = option(
        argument=True,
        metavar="IN",
        help="A file of dialogues.",
    )
    overrides: tuple[str, ...] = OVERRIDES
    to: tuple[str, ...] = option(help="Language, such as zh; may be repeated.")
    out: Path = option(
        Path("translated.jsonl"), help="File to write (.jsonl or .jsonl.gz)."
    )
    config: str = option(
        "native/translate", help="YAML file, or the name of one in configs/native/."
    )


class CompareOptions(JobOptions):
    native: Path = option(
        argument=True,
        metavar="NATIVE",
        help="File of native dialogues.",
    )
    translated: Path = option(
        argument=True,
        metavar="TRANSLATED",
        help="File that medal data translate wrote.",
    )
    overrides: tuple[str, ...] = OVERRIDES
    out: Path = option(Path("native"), help="Folder to write.")
    config: str = option(
        "native/compare", help="YAML file, or the name of one in configs/native/."
    )


@from_options
def translate(options: TranslateOptions) -> None:
    """Translate the English dialogues of a file; the same command resumes after a stop. Turns and
    roles stay unchanged. OUT.failed.jsonl lists failures with their reasons; with the extra lang, a
    turn in the wrong language is a failure too. OUT.answers.jsonl is needed to resume."""
    from medal_judges.data_prep.jobs import JsonRunner, beside
    from medal_judges.data_prep.native import (
        TranslateConfig,
        Translation,
        require_targets,
    )
    from medal_judges.data_prep.native import translate as run
    from medal_judges.reading.language_detection import LanguageIdentifier

    out = options.out
    to = options.to
    require_targets(to)
    config = load_config(
        TranslateConfig, options.config, options.overrides, folder="native"
    )
    runner = JsonRunner(config, max_cost=options.max_cost)
    skipped_of = None if options.dry_run else out
    reading = reading_report(options.reading, beside=skipped_of)
    check = None
    if config.check_language and not options.dry_run:
        try:
            check = LanguageIdentifier(purpose="the check of languages")
        except MissingExtraError as error:
            typer.echo(
                f"the languages of the translations are NOT checked: {error}", err=True
            )
    skipped = 0
    translations = []
    for row in labelled_of(options.source, options.reading, reading):
        skipped += row.dialogue.lang != "en"
        if row.dialogue.lang == "en":
            translations += [Translation(row, lang, check) for lang in to]
    if options.dry_run:
        typer.echo(runner.estimate(translations, len(translations)))
        return
    with only_run(out), ProgressBar("translating", len(translations)) as bar:
        failures = run(
            runner,
            translations,
            out,
            overwrite=options.overwrite,
            progress=lambda count: bar.advance(finished=count),
        )
    reading.show()
    earlier = f", {runner.earlier} of them resumed" if runner.earlier else ""
    typer.echo(f"{len(translations) - failures.total()} dialogues in {out}{earlier}")
    if skipped:
        typer.echo(f"{skipped} rows are not in English and were skipped")
    for reason, count in failures.most_common():
        typer.echo(f"{count} failed: {reason}", err=True)
    if failures:
        typer.echo(f"the failures are in {beside(out, 'failed')}", err=True)
    typer.echo(runner.spending, err=True)


@from_options
def compare_native(options: CompareOptions) -> None:
    """Ask a judge whether the native or the translated dialogue is better, in both orders; resumes
    after a stop. Writes verdicts.jsonl, results.json, report.html, tables and figures to OUT."""
    from medal_judges.data_prep.native import (
        CompareConfig,
        compare,
        comparison,
        paired,
        rates,
        write_report,
    )

    out = options.out / "verdicts.jsonl"
    require_other_file(out, option="OUT/verdicts.jsonl:")
    config = load_config(
        CompareConfig, options.config, options.overrides, folder="native"
    )
    reading = reading_report(options.reading, options.out)
    native, translated = options.native, options.translated
    pairs, *alone = paired(
        labelled_of(native, options.reading, reading),
        labelled_of(translated, options.reading, reading),
    )
    reading.show()
    runner, questions = comparison(config, pairs, max_cost=options.max_cost)
    if options.dry_run:
        typer.echo(runner.estimate(questions, len(pairs)))
        return
    with only_run(out), ProgressBar("comparing", len(questions), unit="answers") as bar:
        verdicts = compare(
            runner,
            questions,
            out,
            overwrite=options.overwrite,
            progress=lambda count: bar.advance(finished=count),
        )
    typer.echo(runner.spending, err=True)
    by = {
        str(pair.translated.extra.get("translated_by", "not stated")) for pair in pairs
    }
    facts = {
        "Native": native.name,
        "Translated": translated.name,
        "Pairs": f"{len(pairs)} in all languages",
        "Without a partner": f"{alone[0]} native, {alone[1]} translated",
        "Judge": runner.by,
        "Translated by": "; ".join(sorted(by)),
        **{
            f"Question on {name}": question
            for name, question in config.criteria.items()
        },
        "Seed": str(config.seed),
    }
    typer.echo(write_report(rates(verdicts), facts, options.out))
