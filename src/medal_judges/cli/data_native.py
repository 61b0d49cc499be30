"""``medal data translate`` and ``medal data compare-native`` (MEDAL, appendix C.5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from medal_judges.data_prep.native.comparison import Comparer
    from medal_judges.data_prep.native.pairs import Paired
    from medal_judges.data_prep.native.translate_run import TranslateReport
    from medal_judges.data_prep.native.translation import Translator
    from medal_judges.data_prep.native.turn_language import TurnLanguage
    from medal_judges.models.llm.protocol import ChatRequest, LanguageModel

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="Replace a setting.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Begin OUT anew.")]
Dry = Annotated[
    bool, typer.Option("--dry-run", help="Requests, tokens and dollars at most; sends nothing.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, help="US dollars; stops before more.")
]


def translate(
    source: Annotated[Path, typer.Argument(metavar="IN", help="JSONL of dialogues.")],
    to: Annotated[str, typer.Option("--to", help="Languages, such as zh,de,fr,pt,es.")],
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option("--out", help="JSONL to write.")] = Path("translated.jsonl"),
    config: Annotated[str, typer.Option("--config", help="YAML file.")] = "native/translate",
    chatbot: Annotated[str, typer.Option("--chatbot", help="Only dialogues of this one.")] = "",
    user: Annotated[str, typer.Option("--user", help="Only dialogues of this user model.")] = "",
    overwrite: Overwrite = False,
    dry_run: Dry = False,
    max_cost: MaxCost = None,
) -> None:
    """Translate the English dialogues of a file; the same command again goes on after a stop.

    Turns and roles stay as they are; what fails is listed in OUT.failed.jsonl with its reason. A
    turn in another language than asked for fails too, with the extra lang.
    """
    from medal_judges.config import load_config
    from medal_judges.data_prep.native.config import TranslateConfig
    from medal_judges.data_prep.native.translate_run import (
        TranslateReport,
        tasks_of,
        translate_to_file,
    )
    from medal_judges.data_prep.native.translation import Translator
    from medal_judges.files import only_run, require_other_file
    from medal_judges.jsonl import read_labelled

    require_other_file(out, [source])
    settings = load_config(TranslateConfig, config, overrides or [], folder="native")
    translator = Translator(settings, _model(settings.llm, max_cost, dry_run))
    languages = [code.strip() for code in to.split(",") if code.strip()]
    report = TranslateReport()
    rows = (
        row
        for row in read_labelled(source)
        if _speaks(row.dialogue.models, "assistant", chatbot)
        and _speaks(row.dialogue.models, "user", user)
    )
    tasks = tasks_of(rows, languages, report)
    if dry_run:
        waiting = list(tasks)
        _estimate(translator.llm, [r for t in waiting for r in translator.requests(t)], waiting)
        return
    translator.language = _turn_language(languages) if settings.check_language else None
    with only_run(out), _bar("translating", None) as advance:
        translate_to_file(tasks, translator, out, report, overwrite=overwrite, progress=advance)
    _show_translated(report, translator, out)


def _turn_language(languages: Sequence[str]) -> TurnLanguage | None:
    """The check of what is written; says so on stderr where there is none."""
    from medal_judges.data_prep.native.turn_language import TurnLanguage
    from medal_judges.errors import MissingExtraError

    try:
        found = TurnLanguage(languages)
    except MissingExtraError as error:
        typer.echo(f"the languages of the translations are NOT checked: {error}", err=True)
        return None
    if found.unknown:
        unknown = ", ".join(found.unknown)
        typer.echo(f"NOT checked, for the library does not know them: {unknown}", err=True)
    return found


def _speaks(models: Any, role: str, name: str) -> bool:
    return not name or models.get(role) == name


def _show_translated(report: TranslateReport, translator: Translator, out: Path) -> None:
    from medal_judges.data_prep.native.translate_run import failed_path

    earlier = f", {report.earlier} stood there before" if report.earlier else ""
    typer.echo(f"{report.written} dialogues written to {out}{earlier}")
    if report.passed_over:
        typer.echo(f"{report.passed_over} rows are not in English and were passed over")
    for reason, count in report.failures.most_common():
        typer.echo(f"{count} failed: {reason}", err=True)
    if report.failures:
        typer.echo(f"what failed is in {failed_path(out)}", err=True)
    typer.echo(str(translator.spending), err=True)


def compare_native(
    native: Annotated[Path, typer.Argument(metavar="NATIVE", help="JSONL of native dialogues.")],
    translated: Annotated[
        Path, typer.Argument(metavar="TRANSLATED", help="JSONL of medal data translate.")
    ],
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")] = Path("native"),
    config: Annotated[str, typer.Option("--config", help="YAML file.")] = "native/compare",
    overwrite: Overwrite = False,
    dry_run: Dry = False,
    max_cost: MaxCost = None,
) -> None:
    """Ask a judge which is better, native or translated, in both orders; goes on after a stop.

    OUT holds verdicts.jsonl, results.json, results.csv and report.html.
    """
    from medal_judges.config import load_config
    from medal_judges.data_prep.native.compare_run import compare_to_file
    from medal_judges.data_prep.native.comparison import Comparer
    from medal_judges.data_prep.native.config import CompareConfig
    from medal_judges.data_prep.native.pairs import paired
    from medal_judges.data_prep.native.rates import rates
    from medal_judges.data_prep.native.results import print_rates, write_results
    from medal_judges.files import only_run, require_other_file
    from medal_judges.jsonl import read_labelled

    require_other_file(out / "verdicts.jsonl", [native, translated], option="OUT/verdicts.jsonl:")
    settings = load_config(CompareConfig, config, overrides or [], folder="native")
    found = paired(read_labelled(native), read_labelled(translated))
    comparer = Comparer(settings, _model(settings.llm, max_cost, dry_run))
    if dry_run:
        asked = [r for pair in found.pairs for r in comparer.requests(pair)]
        _estimate(comparer.llm, asked, found.pairs)
        return
    verdicts_file = out / "verdicts.jsonl"
    if overwrite:
        verdicts_file.unlink(missing_ok=True)
    total = len(found.pairs) * len(settings.criteria)
    with only_run(verdicts_file), _bar("comparing", total) as advance:
        verdicts = compare_to_file(found.pairs, comparer, verdicts_file, progress=advance)
    figures = rates(verdicts)
    print_rates(figures)
    typer.echo(str(comparer.spending), err=True)
    typer.echo(write_results(figures, _facts(found, comparer, native, translated), out))


def _facts(
    found: Paired, comparer: Comparer, native: Path, translated: Path
) -> list[tuple[str, str]]:
    by = sorted({str(p.translated.extra.get("translated_by", "not stated")) for p in found.pairs})
    config = comparer.config
    return [
        ("Native", native.name),
        ("Translated", translated.name),
        ("Pairs", f"{len(found.pairs)} in all languages"),
        ("Without a partner", f"{found.native_only} native, {found.translated_only} translated"),
        ("Judge", str(comparer.signature())),
        ("Translated by", "; ".join(by)),
        *((f"Question on {name}", question) for name, question in config.criteria.items()),
        ("Seed", str(config.seed)),
    ]


def _model(llm: str | dict[str, Any], max_cost: float | None, dry_run: bool) -> LanguageModel:
    from medal_judges.data_prep.native.config import with_limit
    from medal_judges.models.llm.counting import CountingModel
    from medal_judges.models.llm.loading import load_llm

    model = load_llm(with_limit(llm, max_cost))
    return CountingModel(model) if dry_run else model


def _estimate(llm: Any, requests: Sequence[ChatRequest], items: Sequence[object]) -> None:
    """What the first try of everything takes; answers that are kept already are not counted."""
    from medal_judges.inference.dry_run import DryRun

    llm.chat(requests)
    typer.echo(DryRun(len(items), llm.estimate()).text())


def _bar(what: str, total: int | None) -> Any:
    """A progress bar on stderr whose value advances by a count; nothing where that is a file."""
    from contextlib import contextmanager

    from rich.console import Console
    from rich.progress import Progress

    @contextmanager
    def shown() -> Any:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(what, total=total)
            yield lambda count: progress.advance(task, count)

    return shown()
