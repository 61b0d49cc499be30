"""``medal data ...``: list, show, fetch and audit sources, plant issues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from medal_judges.cli import options as opt
from medal_judges.cli.data_compare_native import compare_native
from medal_judges.cli.data_followups import followups
from medal_judges.cli.data_plant import plant
from medal_judges.cli.data_seeds import seeds
from medal_judges.cli.data_stats import stats
from medal_judges.cli.data_translate import translate
from medal_judges.cli.data_write import write
from medal_judges.cli.help_text import PlainTyper
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.data_prep.sources.audit import audit
from medal_judges.data_prep.sources.cache import fetch as fetch_part
from medal_judges.data_prep.sources.cache import sha256
from medal_judges.data_prep.sources.source import Source, SourceFile
from medal_judges.errors import SourceError
from medal_judges.reading.options import ReadOptions
from medal_judges.reading.released import RELEASED_FORM
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.console import wide_console

app = PlainTyper(
    help="Sources of labelled dialogues; seeds, injected issues, translations.",
    no_args_is_help=True,
)
app.command("plant", example="medal data plant chitchat:test --per-issue 40 --out injected.jsonl")(
    plant
)
app.command("followups", example="medal data followups --config embedded --out pool.yaml")(
    followups
)
app.command("seeds", example="medal data seeds --n 50 --lang en --lang de --out contexts.jsonl")(
    seeds
)
app.command("translate", example="medal data translate dialogues.jsonl --to de --to zh")(translate)
app.command("compare-native", example="medal data compare-native dialogues.jsonl translated.jsonl")(
    compare_native
)
app.command("stats", example="medal data stats chitchat:test --out stats")(stats)
app.command("write", example="medal data write chitchat:test --n 200 --out chats.jsonl")(write)


@app.command("list", example="medal data list")
def list_sources() -> None:
    """All sources and whether they are on this machine; `medal data show NAME` has the rest."""
    from medal_judges.data_prep.sources.registry import SOURCES

    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("parts here (missing)", min_width=20)
    table.add_column("what", ratio=1)
    for source in SOURCES.values():
        table.add_row(source.name, _parts_here(source), source.title)
    wide_console(piped=80).print(table)


def _parts_here(source: Source) -> str:
    """``dialogue turn``, a part that is not on this machine in brackets."""
    from medal_judges.data_prep.sources.registry import find_local

    if source.parts:
        names = (p.name if find_local(p) else f"({p.name})" for p in source.parts)
        return " ".join(names)
    package = str(source.package)
    known = "/" not in package and find_spec(package.replace("-", "_")) is not None
    return "package" if known else "(package)" if "/" not in package else "(Hub)"


@app.command(example="medal data show chitchat")
@reads_chats(labels=True)
def show(
    chats: ReadOptions,
    name: Annotated[str, typer.Argument(help="Source, spec such as fed:turn, or a file.")],
    n: Annotated[int, typer.Option("--n", min=0, help="How many dialogues to print.")] = 2,
    offline: opt.Offline = False,
) -> None:
    """Facts on a source, its counts, and its first dialogues."""
    from medal_judges.data_prep.sources.registry import get_source, load_spec, parse_spec

    console, spec = wide_console(), parse_spec(name)
    if not spec.is_file:
        source = get_source(spec.name)
        console.print(f"{source.title}\n{source.citation}", highlight=False)
        console.print(f"licence: {source.licence}\nlanguages: {' '.join(source.languages)}")
        for note in source.notes:
            console.print(f"note: {note}")
        for part in source.parts:
            where = part.url or part.why
            console.print(f"{part.name}: {where}", highlight=False, soft_wrap=True)
            console.print(f"  {_file_here(part)}", highlight=False, soft_wrap=True)
    reading = reading_report(chats)
    rows = load_spec(name, offline=offline or None, reading=reading, options=chats)
    show_reading(reading)
    console.print(_counts(rows))
    forms = Counter(str(row.extra["form"]) for row in rows if row.extra.get("form"))
    if forms:  # rows that may have either: MEDAL's
        console.print(_forms(forms))
    for row in rows[:n]:
        console.print(f"\n{row.id} {row.dialogue.lang} {_label_text(row)}")
        for turn in row.dialogue.turns:
            console.print(f"  {turn.role}: {turn.content}", highlight=False)


def _file_here(part: SourceFile) -> str:
    """Which file of the part is on this machine, and whether it is the one this version knows."""
    from medal_judges.data_prep.sources.registry import find_local

    path = find_local(part)
    if path is None:
        return "not on this machine"
    known = part.line_sha256 if path.name == part.line_file else part.sha256
    if known is None:
        return f"{path} (no checksum known)"
    same = sha256(path) == known
    return f"{path} ({'checksum as known' if same else 'NOT the file this version knows'})"


def _counts(rows: list[LabelledDialogue]) -> str:
    splits = Counter(row.split or "no split" for row in rows)
    shares = ", ".join(f"{name} {count}" for name, count in sorted(splits.items()))
    return f"{len(rows)} rows; {shares}" if rows else "no rows"


def _forms(forms: Mapping[str, int]) -> str:
    """``form: line 20``, and what else the rows were read from."""
    said = {RELEASED_FORM: "MEDAL's released form", "line": "the line format"}
    counts = (f"{said.get(form, form)} {count}" for form, count in forms.items())
    return f"form of the rows: {', '.join(counts) or 'no rows'}"


def _label_text(row: LabelledDialogue) -> str:
    """``overall 3 4 –, depth 1``: one answer per annotator, a dash for none."""
    answers = {
        name: " ".join("–" if v is None else f"{v:g}" for v in values)
        for name, values in row.labels.items()
    }
    return ", ".join(f"{name} {given}" for name, given in answers.items())


@app.command(example="medal data fetch fed")
def fetch(
    name: Annotated[str, typer.Argument(help="Source, or source:part.")],
    offline: opt.Offline = False,
) -> None:
    """Download a source's public files into the cache, checked by SHA-256."""
    from medal_judges.data_prep.sources.registry import get_source, parse_spec

    spec = parse_spec(name)
    if spec.is_file:
        raise SourceError(f"{name} is a file, there is nothing to fetch")
    source = get_source(spec.name)
    if not source.parts:
        raise SourceError(f"{source.name} is no file to fetch but the {_package(source)}")
    for part in source.parts:
        if spec.part in (None, part.name):
            typer.echo(fetch_part(part, offline=offline or None))


def _package(source: Source) -> str:
    name = str(source.package)
    return name if "/" in name else f"package {name}: pip install {name}"


@app.command("audit", example="medal data audit chats.jsonl")
@reads_chats(labels=True)
def audit_source(
    chats: ReadOptions,
    name: Annotated[str, typer.Argument(help="Source, spec or file.")],
    offline: opt.Offline = False,
) -> None:
    """What to know before using a set: clipped turns, duplicates, odd roles, broken text."""
    from medal_judges.data_prep.sources.registry import load_spec

    reading = reading_report(chats)
    rows = load_spec(name, offline=offline or None, reading=reading, options=chats)
    audited = audit(rows)
    console = wide_console()
    console.print(_forms(reading.forms or audited.forms))
    table = Table("language", "dialogues", "turns", "edges u s e r", "expected", "clipped")
    for lang, one in sorted(audited.languages.items()):
        verdict = {True: "YES", False: "no", None: "cannot tell"}[one.clipped]
        edges = f"{one.hits} of {one.edges}"
        row = (str(one.dialogues), str(one.turns), edges, f"{one.expected:.0f}", verdict)
        table.add_row(lang, *row)
    console.print(table)
    console.print(
        "clipped: turns that end in a letter hardly ever end in u, s, e or r, as after the "
        "published code's strip('user: '); about expected minus found edges lost letters."
    )
    table = Table("finding", "rows")
    table.add_column("examples", overflow="fold")
    for problem, count in audited.problems.most_common():
        table.add_row(problem, str(count), ", ".join(audited.examples[problem]))
    console.print(table)
    show_reading(reading)
    reading.require_rest()
