"""Export: the annotation package, and beside it what is kept to take the answers back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from medal_judges.data_prep.annotation.assignment import shuffled
from medal_judges.data_prep.annotation.label_studio import config_xml, tasks
from medal_judges.data_prep.annotation.project import PROJECT_FILE, Project
from medal_judges.data_prep.annotation.questions import (
    AnnotationQuestion,
    Guidelines,
    instructions,
    markdown,
    questions,
)
from medal_judges.data_prep.annotation.spreadsheet import write_csv, write_xlsx
from medal_judges.errors import MedalError
from medal_judges.files import atomic_write

PACKAGE = "package"
EVERYBODY = "dialogues"  # file name where nothing is assigned


def export(
    project: Project,
    guidelines: Guidelines,
    folder: Path,
    forms: Sequence[str],
) -> list[Path]:
    """Write the project (to keep) and ``package/`` (for annotators); the files of the package.

    ``forms`` are of label-studio, xlsx and csv.
    Nothing in the package names a chatbot, an id or a label. Raises MedalError where the folder
    holds a project already: its answers would no longer fit; ConfigError as ``questions`` does, and
    MissingExtraError for xlsx without openpyxl.
    """
    if (folder / PROJECT_FILE).exists():
        raise MedalError(
            f"{folder} holds an annotation project already", hint="give another folder to --out"
        )
    asked = questions(project.dimensions, guidelines)
    out = folder / PACKAGE
    written = [atomic_write(out / "guidelines.md", markdown(guidelines, asked))]
    if "label-studio" in forms:
        written += _label_studio(project, guidelines, asked, out / "label_studio")
    for annotator, keys in _shares(project).items():
        rows = [(key, project.rows[key]) for key in keys]
        sheet = out / "sheets" / (annotator or EVERYBODY)
        if "xlsx" in forms:
            path = sheet.with_name(f"{sheet.name}.xlsx")
            written.append(write_xlsx(path, rows, asked, guidelines, annotator))
        if "csv" in forms:
            path = sheet.with_name(f"{sheet.name}.csv")
            written.append(write_csv(path, rows, asked, annotator))
    project.save(folder)
    return written


def _label_studio(
    project: Project, guidelines: Guidelines, asked: Sequence[AnnotationQuestion], folder: Path
) -> list[Path]:
    written = [
        atomic_write(folder / "config.xml", config_xml(asked, guidelines.asks)),
        atomic_write(folder / "instructions.html", instructions(guidelines, asked)),
    ]
    for annotator, keys in _shares(project).items():
        name = f"tasks-{annotator}.json" if annotator else "tasks.json"
        listed = tasks([(key, project.rows[key]) for key in keys], annotator)
        text = json.dumps(listed, ensure_ascii=False, indent=1) + "\n"
        written.append(atomic_write(folder / name, text))
    return written


def _shares(project: Project) -> dict[str, Sequence[str]]:
    """Keys by annotator; under the empty name, shuffled, where nothing is assigned: the order of
    the rows could tell chatbots apart."""
    if project.assignments:
        return dict(project.assignments)
    return {"": shuffled(list(project.rows), project.seed, "")}
