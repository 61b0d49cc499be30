"""``medal data``: sources of dialogues, injected issues, statistics, seeds, follow-up pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml

from medal_judges.cli import PlainTyper
from medal_judges.cli.data_translate import translate
from medal_judges.cli.judges import print_table
from medal_judges.cli.options import with_options
from medal_judges.config import OVERRIDES, SEED, load_config, option
from medal_judges.errors import MedalError, printable
from medal_judges.reading.dialogues import (
    ReadOptions,
    ReadOptionsWithoutLabels,
    start_report,
)
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.files import atomic_write
from medal_judges.storage.jsonl import write_records

app = PlainTyper(
    help="Get and prepare chats: sources, seeds, planted issues, translations.",
    no_args_is_help=True,
)
app.command("translate")(translate)
_SIX = ("zh", "en", "de", "fr", "pt", "es")


_SET: str = option(
    argument=True,
    help="A file, or a source of medal data list (fed:turn, chitchat:test).",
)
_OUT: Path = option(help="File to write: .jsonl or .jsonl.gz.")


@app.command("list")
def list_sources() -> None:
    """List all sources (data sets of chats) and whether they are on this machine.

    Example: medal data list
    """
    from medal_judges.data_prep.sources.registry import SOURCES, find_local_file

    rows = []
    for source in SOURCES.values():
        parts = []
        for part in source.parts:
            parts.append(part.name if find_local_file(part) else f"({part.name})")
        rows.append((source.name, " ".join(parts), source.title))
    print_table(("name", "parts here (missing)", "description"), rows)


@app.command()
@with_options()
def show(
    *,
    source: str = _SET,
    n: int = option(2, ge=0, help="How many dialogues to print."),
    reading: ReadOptions,
) -> None:
    """Describe a source (a data set of chats), with its counts and its first chats.

    Example: medal data show chitchat
    """
    from medal_judges.data_prep.sources.registry import (
        find_local_file,
        get_source,
        load_rows,
        parse_spec,
    )

    spec = parse_spec(source)
    if not spec.names_file:
        found = get_source(spec.name)
        lines = [
            found.title,
            found.citation,
            f"licence: {found.licence}",
            f"languages: {' '.join(found.languages)}",
            *found.notes,
        ]
        for part in found.parts:
            lines += [
                f"{part.name}: {part.url or part.why}",
                f"  {find_local_file(part) or 'not on this machine'}",
            ]
        # Before the rows are read, because they may not be on this machine.
        typer.echo(printable("\n".join(lines)))
    report = start_report(reading)
    rows = load_rows(source, reading=report, options=reading)
    splits = Counter(row.split or "no split" for row in rows)
    lines = [f"{len(rows)} rows (split: count): {dict(splits)}"]
    for row in rows[:n]:
        lines += [f"\n{row.id} {row.dialogue.lang} {dict(row.labels)}"]
        for turn in row.dialogue.turns:
            lines += [f"  {turn.role}: {turn.content}"]
    typer.echo(printable("\n".join(lines)))
    report.show()


@app.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A source of medal data list, or a part of one: fed:turn.",
        ),
    ],
) -> None:
    """Download a source's public files into the cache and check that they are the expected ones.

    Example: medal data fetch fed
    """
    from medal_judges.data_prep.sources.registry import get_source, parse_spec
    from medal_judges.data_prep.sources.source import fetch_file

    spec = parse_spec(name)
    source = get_source(spec.name)
    if not source.parts:
        raise MedalError(
            f"{name} comes from {source.package}: install or download that"
        )
    for part in source.parts:
        if spec.part in (None, part.name):
            typer.echo(fetch_file(part))


@app.command()
@with_options(locks="file")
def write(
    *,
    source: str = _SET,
    out: Path = _OUT,
    n: int | None = option(None, ge=1, help="How many dialogues.  [default: all]"),
    min_turns: int = option(1, ge=1, help="Leave out dialogues with fewer turns."),
    max_turns: int | None = option(
        None, ge=1, help="Leave out dialogues with more turns."
    ),
) -> None:
    """Write the dialogues of a source, with their labels, to a JSONL file.

    Example: medal data write chitchat:test --n 200 --out chats.jsonl
    """
    from medal_judges.data_prep.sources.registry import stream_rows

    def fits(row: LabelledDialogue) -> bool:
        turns = len(row.dialogue.turns)
        return min_turns <= turns <= (max_turns or turns)

    rows = islice(filter(fits, stream_rows(source)), n)
    typer.echo(f"{write_records(out, rows)} dialogues written to {out}")


@app.command()
@with_options(locks="file")
def plant(
    *,
    source: str = _SET,
    out: Path = _OUT,
    per_issue: int | None = option(None, ge=1, help="Pairs per issue.  [default: all]"),
    issues: tuple[str, ...] = option((), help="Only this issue. May be repeated."),
    split: Literal["train", "val", "test"] = option(
        "train", help="Which part of the planted sentences to use."
    ),
    seed: int = SEED,
    reading: ReadOptionsWithoutLabels,
) -> None:
    """Put faults, such as repetition, into good chats, to test whether a judge notices them.

    Writes clean chats, chats with a fault, and for each of these a control with a harmless edit.
    All are labelled. Run it once for each split of your chats, with the --split of the same name.
    To choose chats by their number of turns, use medal data write before.

    Example: medal data plant chitchat:test --per-issue 40 --out injected.jsonl
    """
    from medal_judges.data_prep.perturbation.injection import (
        ISSUES,
        InjectionCounts,
        make_issue_rows,
    )
    from medal_judges.data_prep.sources.registry import load_rows

    report = start_report(reading, beside=out)
    counts = InjectionCounts()
    rows = make_issue_rows(
        load_rows(source, reading=report, options=reading),
        seed=seed,
        per_issue=per_issue,
        issues=issues or ISSUES,
        split=split,
        counts=counts,
    )
    count = write_records(out, rows)
    report.show()
    typer.echo("\n".join(counts.summary_lines()), err=True)
    typer.echo(f"{count} dialogues written to {out}")


@app.command()
@with_options(locks="folder")
def stats(
    *,
    sources: tuple[str, ...] = option(
        argument=True,
        help="Files of chats, or sources such as fed or xdial.",
    ),
    out: Path = option(help="Folder to write: stats.html, tables, figures."),
    no_lemmas: bool = option(
        False, help="Count words as they are written, not their base forms (lemmas)."
    ),
    reading: ReadOptions,
) -> None:
    """Describe chats: counts, lengths, vocabulary and, if there are any, labels, as in MEDAL's
    Table 2 and Figures 2, 9 and 10.

    Several files are described together, as one set. Writes a page, tables and pictures.

    Example: medal data stats chitchat:test --out stats
    """
    from medal_judges.data_prep.corpus_stats.report import statistics_page
    from medal_judges.data_prep.corpus_stats.statistics import compute_statistics
    from medal_judges.data_prep.sources.registry import parse_spec, stream_rows
    from medal_judges.report.page import print_and_write

    report = start_report(reading, out)
    for text in sources:
        parse_spec(text)  # reports a misspelt name before the first set is read

    def rows_of(source: str) -> Iterator[LabelledDialogue]:
        return stream_rows(source, reading=report, options=reading)

    rows = chain.from_iterable(map(rows_of, sources))
    name = ", ".join(Path(text).name for text in sources)
    statistics = compute_statistics(rows, name, lemmas=not no_lemmas)
    if report.count:
        report.require_dialogues()
    print_and_write(statistics_page(statistics), out)
    report.show()


@app.command()
@with_options(locks="file")
def seeds(
    *,
    out: Path = option(help="File to write: .jsonl or .jsonl.gz."),
    lang: tuple[str, ...] = option(_SIX, help="Language, such as en. May be repeated."),
    n: int = option(
        400, ge=1, help="Number of contexts. Each is written in every language."
    ),
    scenes: str = option(
        "embedded", help="embedded, or the file ATOMIC10X.jsonl (.gz)."
    ),
    personas: str = option(
        "embedded", help="embedded, or PersonaHub's file persona.jsonl (.gz)."
    ),
    seed: int = SEED,
) -> None:
    """Draw a context for each simulated user: a scene, a persona, a gender and a feeling. Each
    context is written in every language. With the same seed, a larger --n only adds contexts at the
    end.

    Example: medal data seeds --n 50 --lang en --lang de --out contexts.jsonl
    """
    from medal_judges.data_prep.seeds.contexts import (
        SeedsConfig,
        add_languages_and_countries,
        draw_contexts_from_config,
    )
    from medal_judges.records.dialogue import language

    settings = SeedsConfig(n=n, scenes=scenes, personas=personas)
    languages = list(dict.fromkeys(lang))
    for code in languages:
        language(code)  # an unknown one is refused before anything is drawn
    draws = draw_contexts_from_config(settings, seed)
    contexts = add_languages_and_countries(draws, languages, seed)
    write_records(out, contexts)
    typer.echo(
        f"{len(contexts)} contexts in {len(languages)} languages written to {out}"
    )


@app.command()
@with_options(locks="file")
def followups(
    *,
    overrides: tuple[str, ...] = OVERRIDES,
    out: Path = option(help="File to write: the follow-ups, as YAML."),
    config: str = option(
        "embedded",
        help="YAML file, or the name of one in configs/followup_generation/.",
    ),
) -> None:
    """Generate follow-ups with language models: what a satisfied or dissatisfied user might say
    next. The prompt is the meta-prompt of the DIET paper.

    Read and correct the file before use. The same command resumes after a stop.

    Settings to change are for example llms=[ORG/NAME] and signs=[negative,positive] (messages of
    dissatisfied and of satisfied users).

    Example: medal data followups --config embedded --out pool.yaml
    """
    from medal_judges.data_prep.followups import FollowUpsConfig, generate_follow_ups
    from medal_judges.data_prep.jobs import path_beside

    settings = load_config(
        FollowUpsConfig, config, overrides, folder="followup_generation"
    )
    if out.exists():
        raise MedalError(f"{out} already exists. Type another --out")
    pool = generate_follow_ups(out.stem, settings, out)
    if pool is None:
        raise MedalError("no answer contained a list of utterances. Use another model")
    record = pool.model_dump(exclude_defaults=True, mode="json")
    atomic_write(out, yaml.safe_dump(record, sort_keys=False, allow_unicode=True))
    path_beside(out, "answers").unlink(missing_ok=True)
    typer.echo(
        f"{len(pool.follow_ups)} follow-ups written to {out}. Read and correct them before use"
    )
