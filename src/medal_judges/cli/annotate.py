"""``medal annotate export`` and ``import``: dialogues to people, and their answers back."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medal_judges.cli import options as opt
from medal_judges.cli.help_text import PlainTyper
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.reading.options import ReadOptions

if TYPE_CHECKING:
    from medal_judges.data_prep.annotation.project import Project
    from medal_judges.data_prep.annotation.questions import RawAnswer

app = PlainTyper(help="Annotation by people.", no_args_is_help=True)


class Form(str, Enum):
    """In which forms the dialogues are exported; typer takes no list of literals."""

    LABEL_STUDIO = "label-studio"
    XLSX = "xlsx"
    CSV = "csv"


@app.command(
    "export",
    example="medal annotate export selection.jsonl --annotator ann --annotator ben --out package",
)
@reads_chats(labels=True)
@opt.writes("source", "rubric", "guidelines", folder=True)
def export_project(
    chats: ReadOptions,
    source: Annotated[str, typer.Argument(metavar="IN", help="Dialogues: a file, or a spec.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")],
    annotator: Annotated[
        list[str] | None,
        typer.Option(
            "--annotator",
            metavar="NAME[:LANG,...]",
            help="Who annotates, and which languages (all when none). Repeat for each person; "
            "without any, there is one file for everybody.",
        ),
    ] = None,
    per_dialogue: Annotated[
        int, typer.Option("--per-dialogue", min=1, help="Annotators for each dialogue.")
    ] = 2,
    annotators: Annotated[
        list[str] | None,
        typer.Option(
            "--annotators",
            metavar="LANG=N",
            help="Another number for the dialogues of a language; may be repeated.",
        ),
    ] = None,
    form: Annotated[
        list[Form] | None,
        typer.Option("--form", help="May be repeated; label-studio and xlsx when not given."),
    ] = None,
    human_likeness: Annotated[
        bool, typer.Option("--human-likeness", help="Also ask how human the user reads.")
    ] = False,
    rubric: Annotated[str, typer.Option("--rubric", help="Shipped name or YAML file.")] = "medal",
    guidelines: Annotated[
        str, typer.Option("--guidelines", help="How to decide: YAML, or a name in configs/.")
    ] = "annotation/guidelines",
    seed: opt.Seed = 0,
    offline: opt.Offline = False,
) -> None:
    """Make an annotation package: guidelines, Label Studio project, spreadsheets.

    Annotators see neither models nor labels nor ids. Everyone gets their own share in their own
    order.
    """
    from medal_judges.data_prep.annotation.project import export, new_project
    from medal_judges.data_prep.annotation.questions import dimensions_to_ask, load_guidelines
    from medal_judges.data_prep.sources.registry import load_spec

    asked = dimensions_to_ask(rubric, human_likeness=human_likeness)
    reading = reading_report(chats)
    rows = load_spec(source, offline=offline or None, reading=reading, options=chats)
    show_reading(reading)
    people, numbers = annotator or [], annotators or []
    project = new_project(rows, asked, people, per_dialogue, numbers, seed)
    forms = [each.value for each in form or (Form.LABEL_STUDIO, Form.XLSX)]
    written = export(project, load_guidelines(guidelines), out, forms)
    for name, keys in project.assignments.items():
        typer.echo(f"{name}: {len(keys)} dialogues")
    typer.echo("for annotators:\n" + "\n".join(f"  {path}" for path in written))
    typer.echo(f"keep (names models and labels): {out}/project.json, {out}/rows.jsonl")
    typer.echo(f"then: medal annotate import {out} ANSWERS... --out annotated.jsonl")


@app.command("import", example="medal annotate import package answers/*.json --out labelled.jsonl")
@opt.writes("answers")
def import_answers(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder that medal annotate export made.")
    ],
    answers: Annotated[
        list[Path],
        typer.Argument(
            metavar="ANSWERS", help="Label Studio exports (.json), filled .xlsx or .csv."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="File to write (.jsonl or .jsonl.gz).")],
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="THEIRS=NAME",
            help="Who an account or a name in the files is; may be repeated.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Write nothing unless every answer is valid.")
    ] = False,
) -> None:
    """Take annotators' answers back: rows with one label per annotator.

    Valid answers are taken and the rest is listed; with --strict nothing is written then.
    """
    from medal_judges.data_prep.annotation.answers import AnnotationError, check, merge
    from medal_judges.data_prep.annotation.project import PROJECT_FILE, ROWS_FILE, load_project
    from medal_judges.errors import MedalError
    from medal_judges.storage.files import require_other_file
    from medal_judges.storage.jsonl import write_records

    require_other_file(out, [*answers, folder / PROJECT_FILE, folder / ROWS_FILE])
    project = load_project(folder)
    checked, problems = check(_answers(answers, project, _names(name or [])), project)
    if problems and strict:
        raise AnnotationError(problems)
    if problems:
        lines = [f"{len(problems)} left out:", *map(str, problems)]
        typer.echo("\n  ".join(lines), err=True)
    if not checked:
        raise MedalError("there is no valid answer", hint="give the files that annotators filled")
    count = write_records(out, merge(checked, project))
    people = len({one.annotator for one in checked})
    typer.echo(f"{count} of {len(project.rows)} dialogues, {people} annotators, written to {out}")


def _answers(paths: list[Path], project: Project, names: dict[str, str]) -> list[RawAnswer]:
    from dataclasses import replace

    from medal_judges.data_prep.annotation.label_studio import ACCOUNT, read_label_studio
    from medal_judges.data_prep.annotation.spreadsheet import read_spreadsheet
    from medal_judges.errors import DataError

    answers: list[RawAnswer] = []
    for path in paths:
        if not path.is_file():
            raise DataError(path, None, "no such file")
        ending = path.suffix.lower()
        if ending == ".json":
            answers += read_label_studio(path)
        elif ending in (".xlsx", ".csv"):
            answers += read_spreadsheet(path, [d.name for d in project.dimensions])
        else:
            raise DataError(path, None, "expected a file .json, .xlsx or .csv")
    return [
        replace(one, annotator=names.get(one.annotator.removeprefix(ACCOUNT), one.annotator))
        for one in answers
    ]


def _names(texts: list[str]) -> dict[str, str]:
    from medal_judges.errors import ConfigError

    names = {}
    for text in texts:
        theirs, _, name = text.partition("=")
        if not (theirs and name):
            raise ConfigError(f"--name {text!r} is not of the form THEIRS=NAME")
        names[theirs.removeprefix("account-")] = name
    return names
