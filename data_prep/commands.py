"""``medal data ...``: list, show, fetch and audit sources, plant issues."""

from __future__ import annotations

from typing import Annotated

import typer

from medal_judges.data_prep.plant_command import plant

app = typer.Typer(help="Sources of labelled dialogues.", no_args_is_help=True)
app.command("plant")(plant)
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network.")]


@app.command("list")
def list_sources() -> None:
    """All sources: what they hold, their licence, and whether they are on this machine."""
    from rich.console import Console
    from rich.table import Table

    from medal_judges.data_prep.sources.registry import SOURCES, find_local

    table = Table("name", "parts", "languages", "what", "licence", "here")
    for source in SOURCES.values():
        parts = ", ".join(f"{p.name}" for p in source.parts) or (source.package or "")
        if source.parts:
            here = ", ".join(p.name for p in source.parts if find_local(p)) or "no"
        else:
            here = "yes" if source.name == "chitchat" and _has_chitchat() else "no"
        languages = " ".join(source.languages)
        table.add_row(source.name, parts, languages, source.title, source.licence, here)
    Console().print(table)


def _has_chitchat() -> bool:
    from importlib.util import find_spec

    return find_spec("chitchat_dataset") is not None


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Source, spec such as fed:turn, or a JSONL file.")],
    n: Annotated[int, typer.Option("--n", min=0, help="How many dialogues to print.")] = 2,
    offline: Offline = False,
) -> None:
    """Facts on a source, its counts, and its first dialogues."""
    from rich.console import Console

    from medal_judges.data_prep.sources.registry import get_source, load_spec, parse_spec

    console, spec = Console(), parse_spec(name)
    if not spec.is_file:
        source = get_source(spec.name)
        console.print(f"[bold]{source.title}[/bold]\n{source.citation}\nlicence: {source.licence}")
        for note in source.notes:
            console.print(f"note: {note}")
        for part in source.parts:
            console.print(f"{part.name}: {part.url or part.why}", highlight=False)
    rows = load_spec(name, offline=offline or None)
    console.print(_counts(rows))
    for row in rows[:n]:
        console.print(
            f"\n[bold]{row.id}[/bold] {row.dialogue.lang} {dict(row.labels)}", highlight=False
        )
        for turn in row.dialogue.turns:
            console.print(f"  {turn.role}: {turn.content}", highlight=False, markup=False)


def _counts(rows: list[object]) -> str:
    from collections import Counter

    splits = Counter(str(getattr(row, "split", None)) for row in rows)
    return f"{len(rows)} rows; " + ", ".join(f"{k} {v}" for k, v in sorted(splits.items()))


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Source, or source:part.")], offline: Offline = False
) -> None:
    """Download a source's public files into the cache, checked by SHA-256."""
    from medal_judges.data_prep.sources.cache import fetch as fetch_part
    from medal_judges.data_prep.sources.registry import get_source, parse_spec
    from medal_judges.errors import SourceError

    spec = parse_spec(name)
    if spec.is_file:
        raise SourceError(f"{name} is a file, there is nothing to fetch")
    source = get_source(spec.name)
    if not source.parts:
        raise SourceError(f"{source.name} is no file but the {source.package}")
    for part in source.parts:
        if spec.part in (None, part.name):
            typer.echo(fetch_part(part, offline=offline or None))


@app.command("audit")
def audit_source(
    name: Annotated[str, typer.Argument(help="Source, spec or JSONL file.")],
    offline: Offline = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count bad lines, go on.")] = False,
) -> None:
    """What to know before using a set: clipped turns, duplicates, odd roles, broken text."""
    from rich.console import Console
    from rich.table import Table

    from medal_judges.data_prep.audit import audit
    from medal_judges.data_prep.sources.registry import load_spec
    from medal_judges.jsonl import Skipped

    skipped = Skipped() if skip_bad else None
    found = audit(load_spec(name, offline=offline or None, skipped=skipped))
    console = Console()
    table = Table("language", "dialogues", "turns", "edges in 'user: '", "words inside", "clipped")
    for lang, one in sorted(found.languages.items()):
        verdict = {True: "YES", False: "no", None: "cannot tell"}[one.clipped]
        shares = (_percent(one.edge_share), _percent(one.inner_share))
        table.add_row(lang, str(one.dialogues), str(one.turns), *shares, verdict)
    console.print(table)
    table = Table("finding", "rows", "examples")
    for problem, count in found.problems.most_common():
        table.add_row(problem, str(count), ", ".join(found.examples[problem]))
    console.print(table)
    if skipped is not None:
        console.print(f"{skipped.count} bad lines left out", *skipped.messages, sep="\n  ")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"
