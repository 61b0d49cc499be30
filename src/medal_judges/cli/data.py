"""``medal data``: sources of dialogues, injected issues, statistics, seeds, follow-up pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Literal

import typer
import yaml
from rich import box
from rich.table import Table

from medal_judges.cli import PlainTyper
from medal_judges.cli.data_translate import translate
from medal_judges.cli.options import from_options, writes
from medal_judges.config import OVERRIDES, SEED, Config, load_config, option
from medal_judges.data_prep.seeds.contexts import SeedsConfig, draws_for, in_languages
from medal_judges.errors import MedalError, SourceError
from medal_judges.reading.dialogues import (
    ReadOptions,
    ReadOptionsWithoutLabels,
    reading_report,
)
from medal_judges.records.dialogue import language
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.console import wide_console
from medal_judges.storage.files import atomic_write
from medal_judges.storage.jsonl import write_records

app = PlainTyper(
    help="Get and prepare data: sources, seeds, injected issues, translations.",
    no_args_is_help=True,
)
app.command("translate")(translate)


class SourceOptions(Config):
    name: str = option(argument=True, help="Source, spec such as fed:turn, or a file.")


class ReadSourceOptions(SourceOptions):
    reading: ReadOptions = ReadOptions()


class ShowOptions(Config):
    name: str = option(argument=True, help="Source, spec such as fed:turn, or a file.")
    reading: ReadOptions = ReadOptions()
    n: int = option(2, ge=0, help="How many dialogues to print.")


class LengthOptions(Config):
    min_turns: int = option(1, ge=1, help="Skip dialogues with fewer turns.")
    max_turns: int | None = option(None, ge=1, help="Skip dialogues with more turns.")

    def fits(self, row: LabelledDialogue) -> bool:
        turns = len(row.dialogue.turns)
        return self.min_turns <= turns <= (self.max_turns or turns)


class WriteOptions(LengthOptions):
    source: str = option(
        argument=True,
        metavar="IN",
        help="A spec such as chitchat:test.",
    )
    out: Path = option(help="File to write (.jsonl or .jsonl.gz).")
    n: int | None = option(
        None, ge=1, help="How many dialogues to write; default: all."
    )


class PlantOptions(LengthOptions):
    source: str = option(
        argument=True,
        metavar="IN",
        help="Clean dialogues: a file or a spec such as chitchat:test.",
    )
    out: Path = option(help="File to write (.jsonl or .jsonl.gz).")
    issues: tuple[str, ...] = option(
        (), help="Only this issue; may be repeated. Default: all."
    )
    strength: tuple[int, ...] = option(
        (), help="1 subtle, 2 clear, 3 gross; may be repeated."
    )
    per_issue: int | None = option(None, ge=1, help="Pairs per issue; default: all.")
    split: Literal["train", "val", "test"] = option(
        "train", help="Part of the sentence tables."
    )
    seed: int = SEED
    reading: ReadOptionsWithoutLabels = ReadOptionsWithoutLabels()


class StatsOptions(Config):
    sources: tuple[str, ...] = option(
        argument=True, metavar="SET...", help="Files, or specs such as fed or xdial."
    )
    out: Path = option(help="Folder to write: stats.html, tables, figures.")
    no_lemmas: bool = option(
        False, help="Lexical diversity over words instead of lemmas."
    )
    reading: ReadOptions = ReadOptions()


_SIX = ("zh", "en", "de", "fr", "pt", "es")


class SeedsOptions(Config):
    out: Path = option(help="File to write (.jsonl or .jsonl.gz).")
    lang: tuple[str, ...] = option(
        (), help="ISO 639-1 code; may be repeated. Default: MEDAL's six languages."
    )
    n: int = option(
        400, ge=1, help="Number of contexts; each is written in every language."
    )
    scenes: str = option("embedded", help="embedded, or ATOMIC10X.jsonl (.gz).")
    personas: str = option(
        "embedded", help="embedded, or PersonaHub's persona.jsonl (.gz)."
    )
    seed: int = SEED


class FollowUpsOptions(Config):
    overrides: tuple[str, ...] = OVERRIDES
    out: Path = option(help="File to write: the pool, as YAML.")
    config: str = option(
        "embedded",
        help="YAML file, or the name of one in configs/followup_generation/.",
    )


@app.command("list")
def list_sources() -> None:
    """List all sources and whether they are on this machine.

    Example: medal data list
    """
    from medal_judges.data_prep.sources.registry import SOURCES, find_local

    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("parts here (missing)", min_width=20)
    table.add_column("description", ratio=1)
    for source in SOURCES.values():
        parts = []
        for part in source.parts:
            parts.append(part.name if find_local(part) else f"({part.name})")
        if not source.parts:
            parts = [_package_state(str(source.package))]
        table.add_row(source.name, " ".join(parts), source.title)
    wide_console(piped=80).print(table)


def _package_state(package: str) -> str:
    """Returns where a source without parts comes from: the Hub, or a package that may be here."""
    if "/" in package:
        return "(Hub)"
    if find_spec(package.replace("-", "_")) is None:
        return "(package)"
    return "package"


@app.command()
@from_options
def show(options: ShowOptions) -> None:
    """Show facts about a source, counts, and its first dialogues.

    Example: medal data show chitchat
    """
    from medal_judges.data_prep.sources.registry import (
        find_local,
        get_source,
        load_spec,
        parse_spec,
    )

    console = wide_console()
    spec = parse_spec(options.name)
    if not spec.is_file:
        source = get_source(spec.name)
        console.print(f"{source.title}\n{source.citation}", highlight=False)
        console.print(
            f"licence: {source.licence}\nlanguages: {' '.join(source.languages)}"
        )
        for note in source.notes:
            console.print(f"note: {note}")
        for part in source.parts:
            local = find_local(part) or "not on this machine"
            text = f"{part.name}: {part.url or part.why}\n  {local}"
            console.print(text, highlight=False, soft_wrap=True)
    reading = reading_report(options.reading)
    rows = load_spec(
        options.name,
        reading=reading,
        options=options.reading,
    )
    reading.show()
    splits = Counter(row.split or "no split" for row in rows)
    shares = ", ".join(f"{name} {count}" for name, count in sorted(splits.items()))
    console.print(f"{len(rows)} rows; {shares}" if rows else "no rows")
    console.print(_forms_line(reading.forms))
    for row in rows[: options.n]:
        labels = []
        for name, values in row.labels.items():
            texts = ["–" if value is None else f"{value:g}" for value in values]
            labels.append(f"{name} {' '.join(texts)}")
        console.print(f"\n{row.id} {row.dialogue.lang} {', '.join(labels)}")
        for turn in row.dialogue.turns:
            console.print(f"  {turn.role}: {turn.content}", highlight=False)


def _forms_line(forms: Mapping[str, int]) -> str:
    counts = ", ".join(f"{form} {count}" for form, count in forms.items())
    return f"form of the rows: {counts or 'no rows'}"


@app.command()
@from_options
def fetch(options: SourceOptions) -> None:
    """Download a source's public files into the cache and check their SHA-256.

    Example: medal data fetch fed
    """
    from medal_judges.data_prep.sources.registry import get_source, parse_spec
    from medal_judges.data_prep.sources.source import fetch as fetch_part

    spec = parse_spec(options.name)
    if spec.is_file:
        raise SourceError(f"{options.name} is a file; there is nothing to fetch")
    source = get_source(spec.name)
    if not source.parts:
        name = str(source.package)
        origin = (
            f"the {name}" if "/" in name else f"the package {name}: pip install {name}"
        )
        raise SourceError(f"{source.name} has no download; it comes from {origin}")
    for part in source.parts:
        if spec.part in (None, part.name):
            typer.echo(fetch_part(part))


@app.command("audit")
@from_options
def audit_source(options: ReadSourceOptions) -> None:
    """Find clipped turns, duplicates, odd roles and broken text in a set.

    Example: medal data audit chats.jsonl
    """
    from medal_judges.data_prep.sources.audit import audit
    from medal_judges.data_prep.sources.registry import load_spec

    reading = reading_report(options.reading)
    rows = load_spec(
        options.name,
        reading=reading,
        options=options.reading,
    )
    languages, problems = audit(rows)
    console = wide_console()
    console.print(_forms_line(reading.forms))
    table = Table(
        "language",
        "dialogues",
        "turns",
        "edges u s e r",
        "expected",
        "clipped",
    )
    for lang, counts in sorted(languages.items()):
        verdict = {True: "YES", False: "no", None: "unknown"}[counts.clipped]
        edges, hits, expected = counts.edges()
        cells = (
            counts.dialogues,
            counts.turns,
            f"{hits} of {edges}",
            f"{expected:.0f}",
            verdict,
        )
        table.add_row(lang, *map(str, cells))
    console.print(table)
    console.print("clipped: turns lost a final u, s, e or r (strip('user: '))")
    table = Table("finding", "rows")
    table.add_column("examples", overflow="fold")
    for problem, ids in sorted(problems.items(), key=lambda problem: -len(problem[1])):
        table.add_row(problem, str(len(ids)), ", ".join(ids[:3]))
    console.print(table)
    reading.show()
    reading.require_rest()


@app.command()
@from_options
@writes()
def write(options: WriteOptions) -> None:
    """Write the dialogues of a source, with their labels, to a JSONL file.

    Example: medal data write chitchat:test --n 200 --out chats.jsonl
    """
    from medal_judges.data_prep.sources.registry import stream_spec

    rows = filter(options.fits, stream_spec(options.source))
    written = write_records(options.out, islice(rows, options.n))
    typer.echo(f"{written} dialogues written to {options.out}")


@app.command()
@from_options
@writes()
def plant(options: PlantOptions) -> None:
    """Write clean dialogues, dialogues with an injected issue, and matched controls, all labelled.
    Use one split of your conversations per run, and the same --split.

    Example: medal data plant chitchat:test --per-issue 40 --out injected.jsonl
    """
    from medal_judges.data_prep.perturbation.injection import (
        ISSUES,
        InjectionCounts,
        injected_set,
    )
    from medal_judges.data_prep.sources.registry import load_spec

    out = options.out
    reading = reading_report(options.reading, beside=out)
    counts = InjectionCounts()
    rows = injected_set(
        filter(
            options.fits,
            load_spec(options.source, reading=reading, options=options.reading),
        ),
        seed=options.seed,
        per_issue=options.per_issue,
        issues=options.issues or ISSUES,
        strengths=options.strength or (1, 2, 3),
        split=options.split,
        counts=counts,
    )
    count = write_records(out, rows)
    reading.show()
    typer.echo("\n".join(counts.lines()), err=True)
    typer.echo(f"{count} dialogues written to {out}")


@app.command()
@from_options
@writes(folder=True)
def stats(options: StatsOptions) -> None:
    """Describe dialogues as in MEDAL's Table 2 and Figures 2, 9 and 10; labels are optional.

    Several sets count as one. Tables go to the terminal, the page and CSV files to --out.

    Example: medal data stats chitchat:test --out stats
    """
    from medal_judges.data_prep.corpus_stats.report import statistics_page
    from medal_judges.data_prep.corpus_stats.statistics import corpus_statistics
    from medal_judges.data_prep.sources.registry import parse_spec, stream_spec
    from medal_judges.report.page import publish

    reading = reading_report(options.reading, options.out)
    for text in options.sources:
        parse_spec(text)  # reports a misspelt name before the first set is read

    def rows() -> Iterator[LabelledDialogue]:
        for text in options.sources:
            yield from stream_spec(
                text,
                reading=reading,
                options=options.reading,
            )

    name = ", ".join(Path(text).name for text in options.sources)
    figures = corpus_statistics(rows(), name, lemmas=not options.no_lemmas)
    if reading.count:
        reading.require_rest()
    page = statistics_page(figures)
    publish(page, None)
    reading.show()
    typer.echo(f"wrote {page.write(options.out)}")


@app.command()
@from_options
@writes()
def seeds(options: SeedsOptions) -> None:
    """Draw scenes, personas, genders and feelings for simulated users, the same in all languages.
    With the same seed, a larger --n only adds contexts at the end.

    Example: medal data seeds --n 50 --lang en --lang de --out contexts.jsonl
    """
    config = SeedsConfig(
        n=options.n,
        scenes=options.scenes,
        personas=options.personas,
    )
    languages = list(dict.fromkeys(options.lang or _SIX))
    for code in languages:
        language(code)  # an unknown one is refused before anything is drawn
    draws = draws_for(config, options.seed)
    contexts = in_languages(draws, languages, options.seed)
    write_records(options.out, contexts)
    typer.echo(f"{len(contexts)} contexts written to {options.out}")


@app.command()
@from_options
@writes()
def followups(options: FollowUpsOptions) -> None:
    """Generate follow-ups with language models (DIET's meta-prompt); review the file before use.
    Settings to change are for example llms=[ORG/NAME] and signs=[negative,positive]. The same
    command resumes after a stop.

    Example: medal data followups --config embedded --out pool.yaml
    """
    from medal_judges.data_prep.followups import PoolGeneration, propose_pool
    from medal_judges.data_prep.jobs import beside

    out = options.out
    config = load_config(
        PoolGeneration, options.config, options.overrides, folder="followup_generation"
    )
    if out.exists():
        raise MedalError(
            f"{out} exists already", hint="give another --out: pools are reviewed"
        )
    pool = propose_pool(out.stem, config, out)
    if pool is None:
        raise MedalError(
            "no answer contained a list of utterances",
            hint="a larger model, more samples, or a lower temperature",
        )
    record = pool.model_dump(exclude_defaults=True, mode="json")
    atomic_write(
        out,
        yaml.safe_dump(
            record,
            sort_keys=False,
            allow_unicode=True,
            width=100,
        ),
    )
    beside(out, "answers").unlink(missing_ok=True)
    typer.echo(
        f"{len(pool.follow_ups)} follow-ups in {out}: review it and remove what no user would say"
    )
