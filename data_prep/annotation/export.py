"""Export: a folder to hand out to annotators, and what is kept to take their answers back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medal_judges.data_prep.annotation import guidelines as document
from medal_judges.data_prep.annotation.assignment import shuffled
from medal_judges.data_prep.annotation.label_studio import config_xml, tasks, tasks_json
from medal_judges.data_prep.annotation.project import PROJECT_FILE, Project
from medal_judges.data_prep.annotation.questions import Guidelines, Question, questions
from medal_judges.data_prep.annotation.spreadsheet import write_csv, write_xlsx
from medal_judges.errors import MedalError

FORMS = ("label-studio", "xlsx", "csv")
HAND_OUT = "hand_out"
EVERYBODY = "dialogues"  # file name where nothing is assigned


def export(
    project: Project, guidelines: Guidelines, folder: Path, forms: Sequence[str] = FORMS[:2]
) -> list[Path]:
    """Write the project (to keep) and ``hand_out/`` (to give away); the files handed out.

    ``forms`` are of ``FORMS``. Nothing under ``hand_out/`` names a chatbot, an id or a label.
    Raises MedalError where the folder holds a project already: its answers would no longer fit;
    ConfigError as ``questions`` does, and MissingExtraError for xlsx without openpyxl.
    """
    if (folder / PROJECT_FILE).exists():
        raise MedalError(
            f"{folder} holds an annotation project already", hint="give another folder to --out"
        )
    asked = questions(list(project.dimensions), guidelines)
    out = folder / HAND_OUT
    out.mkdir(parents=True, exist_ok=True)
    written = [_write(out / "guidelines.md", document.markdown(guidelines, asked))]
    if "label-studio" in forms:
        written += _label_studio(project, guidelines, asked, out / "label_studio")
    for annotator, keys in _shares(project).items():
        rows = [(key, project.rows[key]) for key in keys]
        name = annotator or EVERYBODY
        if "xlsx" in forms:
            written.append(out / "sheets" / f"{name}.xlsx")
            write_xlsx(written[-1], rows, asked, guidelines, annotator)
        if "csv" in forms:
            written.append(out / "sheets" / f"{name}.csv")
            write_csv(written[-1], rows, asked, annotator)
    project.save(folder)
    return written


def _label_studio(
    project: Project, guidelines: Guidelines, asked: Sequence[Question], folder: Path
) -> list[Path]:
    folder.mkdir(exist_ok=True)
    written = [
        _write(folder / "config.xml", config_xml(asked, guidelines.asks)),
        _write(folder / "instructions.html", document.instructions(guidelines, asked)),
    ]
    for annotator, keys in _shares(project).items():
        name = f"tasks-{annotator}.json" if annotator else "tasks.json"
        found = tasks([(key, project.rows[key]) for key in keys], annotator)
        written.append(_write(folder / name, tasks_json(found)))
    return written


def _shares(project: Project) -> dict[str, Sequence[str]]:
    """Keys by annotator; under the empty name, shuffled, where nothing is assigned: the order of
    the rows could tell chatbots apart."""
    if project.assignments:
        return dict(project.assignments)
    return {"": shuffled(list(project.rows), project.seed, "")}


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="\n")
    return path
