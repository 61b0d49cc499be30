"""Export: the annotation package, and beside it what is kept to take the answers back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from medal_judges.data_prep.annotation.assignment import shuffled
from medal_judges.data_prep.annotation.label_studio import config_xml, tasks
from medal_judges.data_prep.annotation.project import PROJECT_FILE, Project
from medal_judges.data_prep.annotation.questions import Guidelines, document, questions
from medal_judges.data_prep.annotation.spreadsheet import write_csv, write_xlsx
from medal_judges.errors import MedalError
from medal_judges.files import atomic_write

PACKAGE = "package"
EVERYBODY = "dialogues"  # file name where nothing is assigned


def export(
    project: Project, guidelines: Guidelines, folder: Path, forms: Sequence[str]
) -> list[Path]:
    """Write the project (to keep) and ``package/`` (for annotators) in ``forms``, which are of
    label-studio, xlsx and csv; the files of the package.

    Nothing in the package names a chatbot, an id or a label. Raises MedalError where the folder
    holds a project already: its answers would no longer fit; ConfigError as ``questions`` does, and
    MissingExtraError for xlsx without openpyxl.
    """
    if (folder / PROJECT_FILE).exists():
        raise MedalError(
            f"{folder} holds an annotation project already", hint="give another folder to --out"
        )
    asked = questions(project.dimensions, guidelines)
    out, studio = folder / PACKAGE, folder / PACKAGE / "label_studio"
    texts = {out / "guidelines.md": document("guidelines.md", guidelines, asked)}
    if "label-studio" in forms:
        texts[studio / "config.xml"] = config_xml(asked, guidelines.asks)
        instructions = "instructions.html"
        texts[studio / instructions] = document(instructions, guidelines, asked)
    sheets = []
    # Where nothing is assigned all rows are shuffled: their order could tell chatbots apart.
    everything = {"": shuffled(list(project.rows), project.seed, "")}
    for annotator, keys in (project.assignments or everything).items():
        rows = [(key, project.rows[key]) for key in keys]
        if "label-studio" in forms:
            name = f"tasks-{annotator}.json" if annotator else "tasks.json"
            listed = tasks(rows, annotator)
            texts[studio / name] = json.dumps(listed, ensure_ascii=False, indent=1) + "\n"
        sheet = annotator or EVERYBODY
        if "xlsx" in forms:
            path = out / "sheets" / f"{sheet}.xlsx"
            sheets.append(write_xlsx(path, rows, asked, guidelines, annotator))
        if "csv" in forms:
            sheets.append(write_csv(out / "sheets" / f"{sheet}.csv", rows, asked, annotator))
    written = [atomic_write(path, text) for path, text in texts.items()]
    project.save(folder)
    return written + sheets
