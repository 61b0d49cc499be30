"""``medal annotate export`` and ``import``: dialogues to people, and their answers back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from medal_judges.data_prep.annotation.answers import Answer, Problem
    from medal_judges.data_prep.annotation.assignment import PerDialogue
    from medal_judges.data_prep.annotation.project import Project
    from medal_judges.labelled import LabelledDialogue

app = typer.Typer(help="Annotation by people.", no_args_is_help=True)


@app.command("export")
def export_project(
    source: Annotated[str, typer.Argument(metavar="IN", help="Dialogues: JSONL, or a spec.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to make.")],
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
        list[str] | None,
        typer.Option("--form", help="label-studio, xlsx or csv; the first two when not given."),
    ] = None,
    human_likeness: Annotated[
        bool, typer.Option("--human-likeness", help="Ask how human the user reads, too.")
    ] = False,
    rubric: Annotated[str, typer.Option("--rubric", help="What is asked.")] = "medal",
    guidelines: Annotated[
        str, typer.Option("--guidelines", help="How to decide: YAML, or a name in configs/.")
    ] = "annotation/guidelines",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of shares and orders.")] = 0,
    offline: Annotated[bool, typer.Option("--offline", help="Never use the network.")] = False,
) -> None:
    """Make a folder to hand out: guidelines, Label Studio project, spreadsheets.

    Annotators see neither models nor labels nor ids. Each gets an own share in an own order.
    """
    from medal_judges.data_prep.annotation.assignment import PerDialogue, parse_numbers
    from medal_judges.data_prep.annotation.export import FORMS, export
    from medal_judges.data_prep.annotation.questions import load_guidelines
    from medal_judges.data_prep.sources.registry import load_spec
    from medal_judges.errors import ConfigError

    forms = form or list(FORMS[:2])
    if unknown := [name for name in forms if name not in FORMS]:
        raise ConfigError(f"--form {unknown[0]!r} is none of {', '.join(FORMS)}")
    rows = load_spec(source, offline=offline or None)
    wanted = PerDialogue(per_dialogue, parse_numbers(annotators or []))
    project = _project(rows, rubric, human_likeness, annotator or [], wanted, seed)
    written = export(project, load_guidelines(guidelines), out, forms)
    for name, keys in project.assignments.items():
        typer.echo(f"{name}: {len(keys)} dialogues")
    typer.echo("hand out:\n" + "\n".join(f"  {path}" for path in written))
    typer.echo(f"keep (names models and labels): {out}/project.json, {out}/rows.jsonl")
    typer.echo(f"then: medal annotate import {out} ANSWERS... --out annotated.jsonl")


def _project(
    rows: list[LabelledDialogue],
    rubric: str,
    human_likeness: bool,
    annotators: list[str],
    wanted: PerDialogue,
    seed: int,
) -> Project:
    from medal_judges.data_prep.annotation.assignment import assign, parse_annotators
    from medal_judges.data_prep.annotation.project import Project, keyed
    from medal_judges.data_prep.annotation.questions import dimensions_to_ask
    from medal_judges.errors import ConfigError

    by_key = keyed(rows)
    people = parse_annotators(annotators)
    langs = {key: row.dialogue.lang for key, row in by_key.items()}
    if wanted.by_lang and not people:
        raise ConfigError(
            "--annotators says how many read each dialogue, but nobody is named",
            hint="--annotator ana:en,de --annotator ben:en",
        )
    assignments = assign(langs, people, wanted, seed) if people else {}
    asked = dimensions_to_ask(rubric, human_likeness=human_likeness)
    return Project(by_key, asked, assignments, seed)


@app.command("import")
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
            "--name", metavar="THEIRS=NAME", help="Who an account or a name in the files is."
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Take what is right, list the rest.")
    ] = False,
) -> None:
    """Take annotators' answers back: rows with one label per annotator.

    Every problem is listed at once; nothing is written unless there is none, or --skip-bad.
    """
    from medal_judges.data_prep.annotation.answers import AnnotationError, check
    from medal_judges.data_prep.annotation.merge import merge
    from medal_judges.data_prep.annotation.project import PROJECT_FILE, ROWS_FILE, load_project
    from medal_judges.errors import MedalError
    from medal_judges.files import require_other_file
    from medal_judges.jsonl import write_records

    require_other_file(out, [*answers, folder / PROJECT_FILE, folder / ROWS_FILE])
    project = load_project(folder)
    checked, problems = check(_answers(answers, project, _names(name or [])), project)
    if problems and not skip_bad:
        raise AnnotationError(problems)
    _list(problems)
    if not checked:
        raise MedalError("there is no answer to take", hint="give the files that annotators filled")
    count = write_records(out, merge(checked, project))
    people = len({one.annotator for one in checked})
    typer.echo(f"{count} of {len(project.rows)} dialogues, {people} annotators, written to {out}")


def _answers(paths: list[Path], project: Project, names: dict[str, str]) -> list[Answer]:
    from dataclasses import replace

    from medal_judges.data_prep.annotation.label_studio_answers import ACCOUNT, read_label_studio
    from medal_judges.data_prep.annotation.spreadsheet_answers import read_spreadsheet
    from medal_judges.errors import DataError

    found: list[Answer] = []
    for path in paths:
        if not path.is_file():
            raise DataError(path, None, "no such file")
        ending = path.suffix.lower()
        if ending == ".json":
            found += read_label_studio(path)
        elif ending in (".xlsx", ".csv"):
            found += read_spreadsheet(path, [d.name for d in project.dimensions])
        else:
            raise DataError(path, None, "expected a file .json, .xlsx or .csv")
    return [
        replace(one, annotator=names.get(one.annotator.removeprefix(ACCOUNT), one.annotator))
        for one in found
    ]


def _names(texts: list[str]) -> dict[str, str]:
    from medal_judges.errors import ConfigError

    found = {}
    for text in texts:
        theirs, sign, name = text.partition("=")
        if not (theirs and sign and name):
            raise ConfigError(f"--name {text!r} is not of the form THEIRS=NAME")
        found[theirs.removeprefix("account-")] = name
    return found


def _list(problems: list[Problem]) -> None:
    if problems:
        lines = [f"{len(problems)} left out:", *map(str, problems)]
        typer.echo("\n  ".join(lines), err=True)
