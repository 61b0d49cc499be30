"""``medal data translate``: English dialogues in other languages (MEDAL, appendix C.5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.config import load_config
from medal_judges.data_prep.native.translate_run import (
    TranslateReport,
    failed_path,
    translate_to_file,
    translations_of,
)
from medal_judges.data_prep.native.translation import TranslateConfig, Translator, TurnLanguage
from medal_judges.errors import MissingExtraError
from medal_judges.reading.dialogues import labelled_of
from medal_judges.reading.options import ReadOptions
from medal_judges.reading.report import list_beside
from medal_judges.report.progress import ProgressBar
from medal_judges.storage.files import only_run, require_other_file


@reads_chats()
def translate(
    chats: ReadOptions,
    source: Annotated[str, typer.Argument(metavar="IN", help="A file of dialogues.")],
    to: Annotated[
        list[str], typer.Option("--to", help="Language, such as zh; repeat it for each.")
    ],
    overrides: opt.Overrides = None,
    out: Annotated[Path, typer.Option("--out", help="File to write (.jsonl or .jsonl.gz).")] = Path(
        "translated.jsonl"
    ),
    config: Annotated[
        str, typer.Option("--config", help="YAML file, or the name of one in configs/native/.")
    ] = "native/translate",
    chatbot: Annotated[
        str | None, typer.Option("--chatbot", help="Only dialogues of this one.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", help="Only dialogues of this user model.")
    ] = None,
    overwrite: opt.Overwrite = False,
    dry_run: opt.DryRun = False,
    max_cost: opt.MaxCost = None,
) -> None:
    """Translate the English dialogues of a file; the same command resumes after a stop.

    Turns and roles stay as they are; what fails is listed in OUT.failed.jsonl with its reason. A
    turn in another language than asked for fails too, with the extra lang.
    """
    require_other_file(out, [source])
    settings = load_config(TranslateConfig, config, overrides or [], folder="native")
    translator = Translator(settings, settings.load_model(max_cost))
    report = TranslateReport()
    reading = reading_report(chats, None if dry_run else list_beside(out), [source])
    rows = (
        row
        for row in labelled_of(source, chats, reading)
        if chatbot in (None, row.dialogue.chatbot)
        and user in (None, row.dialogue.models.get("user"))
    )
    translations = translations_of(rows, to, report)
    if dry_run:
        listed = list(translations)
        requests = [r for each in listed for r in translator.requests(each)]
        typer.echo(translator.asker.estimate(requests, len(listed)).text())
        return
    translator.language = _turn_language(to) if settings.check_language else None
    with only_run(out), ProgressBar("translating") as bar:
        translate_to_file(
            translations, translator, out, report, overwrite=overwrite, progress=bar.advance
        )
    show_reading(reading)
    _show(report, translator, out)


def _turn_language(languages: Sequence[str]) -> TurnLanguage | None:
    """The language check of translations; says on standard error where there is none."""
    try:
        check = TurnLanguage(languages)
    except MissingExtraError as error:
        typer.echo(f"the languages of the translations are NOT checked: {error}", err=True)
        return None
    if check.unknown:
        unknown = ", ".join(check.unknown)
        typer.echo(f"NOT checked, since the library does not know them: {unknown}", err=True)
    return check


def _show(report: TranslateReport, translator: Translator, out: Path) -> None:
    earlier = f", {report.earlier} were there before" if report.earlier else ""
    typer.echo(f"{report.written} dialogues written to {out}{earlier}")
    if report.skipped:
        typer.echo(f"{report.skipped} rows are not in English and were skipped")
    for reason, count in report.failures.most_common():
        typer.echo(f"{count} failed: {reason}", err=True)
    if report.failures:
        typer.echo(f"the failures are in {failed_path(out)}", err=True)
    typer.echo(translator.asker.spending, err=True)
