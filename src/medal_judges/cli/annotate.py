"""``medal annotate``: exports packages for annotators and imports their answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote

import typer

from medal_judges.cli import PlainTyper
from medal_judges.cli.options import with_options
from medal_judges.config import SEED, option
from medal_judges.data_prep.annotation.project import Form
from medal_judges.reading.dialogues import ReadOptions, start_report

app = PlainTyper(
    help="Export packages for annotators, import their answers.", no_args_is_help=True
)


@app.command("export")
@with_options(locks="folder")
def export_project(
    *,
    source: str = option(
        argument=True,
        help="A file of chats, or a source such as fed:dialogue.",
    ),
    out: Path = option(help="Folder to write: the packages and project.json."),
    annotator: tuple[str, ...] = option(
        (),
        metavar="NAME[:LANG,...]",
        help="An annotator and their languages. May be repeated.  [default: one file for all]",
    ),
    per_dialogue: int = option(
        2,
        ge=1,
        help="Annotators per chat, or all who read its language if these are fewer.",
    ),
    form: tuple[Form, ...] = option(
        ("label-studio", "xlsx"), help="label-studio or xlsx. May be repeated."
    ),
    human_likeness: bool = option(False, help="Ask also how human the user sounds."),
    rubric: str = option("medal", help="Shipped name, or YAML file, of what is rated."),
    guidelines: str = option(
        "annotation/guidelines", help="YAML file, or the name of one in configs/."
    ),
    setting: str = option("open-domain", help="open-domain (chit-chat) or support."),
    seed: int = SEED,
    reading: ReadOptions,
) -> None:
    """Write what annotators need: guidelines, a Label Studio project, spreadsheets. Annotators see
    no models, labels or ids. Each annotator gets their own share of the chats, in a different
    order.

    Example: medal annotate export selection.jsonl --annotator ann --annotator ben --out package
    """
    from medal_judges.data_prep.annotation.project import new_project, write_project
    from medal_judges.data_prep.annotation.questions import (
        dimensions_to_ask,
        load_guidelines,
    )
    from medal_judges.data_prep.sources.registry import load_rows

    dimensions = dimensions_to_ask(rubric, human_likeness=human_likeness)
    report = start_report(reading)
    rows = load_rows(source, reading=report, options=reading)
    report.show()
    report.require_dialogues()
    project = new_project(rows, dimensions, annotator, per_dialogue, seed)
    written = write_project(project, load_guidelines(guidelines, setting), out, form)
    for name, keys in project.assignments.items():
        typer.echo(f"{name}: {len(keys)} dialogues")
    typer.echo(f"guidelines for the setting {setting}")
    typer.echo("for annotators:\n" + "\n".join(f"  {path}" for path in written))
    typer.echo(
        f"do not show annotators (models, labels): {out}/project.json, {out}/rows.jsonl"
    )
    folder = quote(str(out))
    typer.echo(f"next: medal annotate import {folder} ANSWERS... --out annotated.jsonl")


@app.command("import")
@with_options(locks="file")
def import_answers(
    folder: Path = option(
        argument=True, metavar="FOLDER", help="Folder that medal annotate export wrote."
    ),
    files: tuple[Path, ...] = option(
        argument=True,
        metavar="ANSWERS",
        help="What annotators filled: Label Studio exports (.json) or .xlsx.",
    ),
    out: Path = option(help="File to write: .jsonl or .jsonl.gz."),
    name: tuple[str, ...] = option(
        (),
        metavar="THEIRS=NAME",
        help="Annotator NAME behind the account THEIRS. May be repeated.",
    ),
    strict: bool = option(False, help="Write nothing unless every answer is valid."),
) -> None:
    """Read the answers of annotators into a file of chats with one label per annotator. Invalid
    answers are listed and left out. With --strict they stop the import.

    Example: medal annotate import package answers/*.json --out labelled.jsonl
    """
    from medal_judges.data_prep.annotation.answers import (
        merge_ratings,
        parse_annotations,
    )
    from medal_judges.data_prep.annotation.label_studio import (
        ACCOUNT,
        read_label_studio,
    )
    from medal_judges.data_prep.annotation.project import (
        PROJECT_FILE,
        ROWS_FILE,
        load_project,
    )
    from medal_judges.data_prep.annotation.questions import Annotation
    from medal_judges.data_prep.annotation.spreadsheet import read_spreadsheet
    from medal_judges.errors import ConfigError, MedalError
    from medal_judges.storage.files import protect_inputs, require_safe_out
    from medal_judges.storage.jsonl import write_records

    with protect_inputs(folder / PROJECT_FILE, folder / ROWS_FILE):
        require_safe_out(out)
    project = load_project(folder)
    names = {}
    for text in name:
        theirs, _, annotator = text.partition("=")
        if not theirs or not annotator:
            raise ConfigError(f"--name {text!r} is not of the form THEIRS=NAME")
        names[theirs.removeprefix(ACCOUNT)] = annotator
    answers: list[Annotation] = []
    for path in files:
        if path.suffix.lower() == ".json":
            answers += read_label_studio(path)
        else:
            answers += read_spreadsheet(path, [d.name for d in project.dimensions])
    for index, answer in enumerate(answers):
        annotator = names.get(answer.annotator.removeprefix(ACCOUNT), answer.annotator)
        answers[index] = replace(answer, annotator=annotator)
    checked, problems = parse_annotations(answers, project)
    problem_list = "\n    ".join(
        [f"{len(problems)} problems in the answers:", *problems]
    )
    if problems and strict:
        raise MedalError(problem_list, hint="Correct the files, or leave --strict out")
    if problems:
        typer.echo(problem_list, err=True)
    if not checked:
        raise MedalError(
            "the files hold no valid answer. Give the files that annotators filled"
        )
    count = write_records(out, merge_ratings(checked, project))
    people = len({answer.annotator for answer in checked})
    typer.echo(
        f"{count} of {len(project.rows)} dialogues, {people} annotators, written to {out}"
    )
