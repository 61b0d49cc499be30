"""Project: the package that annotators get, and what is kept to take their answers back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medal_judges.data_prep.annotation.assignment import (
    PerDialogue,
    assign,
    parse_annotators,
    parse_numbers,
    shuffled,
)
from medal_judges.data_prep.annotation.label_studio import config_xml, tasks
from medal_judges.data_prep.annotation.questions import Guidelines, document, questions
from medal_judges.data_prep.annotation.spreadsheet import write_csv, write_xlsx
from medal_judges.errors import ConfigError, DataError, MedalError
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_write
from medal_judges.storage.jsonl import write_records

PROJECT_FILE, ROWS_FILE = "project.json", "rows.jsonl"
PACKAGE = "package"
EVERYBODY = "dialogues"  # file name where nothing is assigned
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Project:
    """Rows by the key that annotators see instead of the id, which may name the chatbot.

    ``assignments`` maps an annotator to their keys in order; empty where anybody may answer
    anything.
    """

    rows: Mapping[str, LabelledDialogue]
    dimensions: Sequence[Dimension]
    assignments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seed: int = 0

    def save(self, folder: Path) -> None:
        """Write project.json and rows.jsonl. Neither is for annotators."""
        write_records(folder / ROWS_FILE, self.rows.values())
        record = {
            "format": _FORMAT,
            "seed": self.seed,
            "dimensions": [d.to_record() for d in self.dimensions],
            "assignments": {name: list(keys) for name, keys in self.assignments.items()},
        }
        text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
        atomic_write(folder / PROJECT_FILE, text)


def key_of(id: str) -> str:
    """The name of a dialogue for annotators: says nothing, and no spreadsheet takes it for a
    number."""
    return f"d{content_hash(['annotation', id])}"


def keyed(rows: Sequence[LabelledDialogue]) -> dict[str, LabelledDialogue]:
    """Rows by key. Raises MedalError for no rows at all, or for rows that judge a single turn."""
    if not rows:
        raise MedalError("there is no dialogue to annotate")
    if turns := [row.id for row in rows if row.level == "turn"]:
        raise MedalError(
            f"{len(turns)} rows judge one turn, not a dialogue, such as {turns[0]!r}",
            hint="annotation is of whole dialogues: give rows of level dialogue",
        )
    by_key = {key_of(row.id): row for row in rows}
    assert len(by_key) == len(rows), "two ids with one key"
    return by_key


def new_project(
    rows: Sequence[LabelledDialogue],
    dimensions: Sequence[Dimension],
    annotators: Sequence[str] = (),
    per_dialogue: int = 2,
    numbers: Sequence[str] = (),
    seed: int = 0,
) -> Project:
    """The project of ``rows``, assigned to ``annotators`` (``NAME`` or ``NAME:LANG,LANG``) if any.

    ``per_dialogue`` of them read each dialogue, other ``numbers`` (``LANG=N``) by language. Raises
    ConfigError for texts of another form and where too few read a language.
    """
    by_key = keyed(rows)
    wanted = PerDialogue(per_dialogue, parse_numbers(numbers))
    people = parse_annotators(annotators)
    if wanted.by_lang and not people:
        raise ConfigError(
            "--annotators says how many read each dialogue, but nobody is named",
            hint="--annotator ana:en,de --annotator ben:en",
        )
    langs = {key: row.dialogue.lang for key, row in by_key.items()}
    assignments = assign(langs, people, wanted, seed) if people else {}
    return Project(by_key, dimensions, assignments, seed)


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


def load_project(folder: Path) -> Project:
    """The project that ``medal annotate export`` wrote into ``folder``. Raises MedalError."""
    path = folder / PROJECT_FILE
    if not path.is_file():
        raise DataError(
            path, None, "no such file", hint="give the folder that medal annotate export wrote"
        )
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] > _FORMAT:
            raise DataError(path, None, "made by a newer version of medal-judges")
        return Project(
            rows={key_of(row.id): row for row in read_labelled(folder / ROWS_FILE)},
            dimensions=[Dimension(**entry) for entry in record["dimensions"]],
            assignments=record["assignments"],
            seed=record["seed"],
        )
    except (ValueError, KeyError, TypeError, RecursionError, ConfigError) as error:
        raise DataError(path, None, f"not as medal annotate export wrote it: {error}") from error
