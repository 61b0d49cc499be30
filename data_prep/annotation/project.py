"""An annotation project: questions, assignment of dialogues, and the package for annotators.

MEDAL, sections 3.5 and 5.2. Annotators see a key instead of the id, which may name the chatbot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from medal_judges.data_prep.annotation.label_studio import config_xml, make_tasks
from medal_judges.data_prep.annotation.questions import (
    TEMPLATES,
    Guidelines,
    make_questions,
)
from medal_judges.data_prep.annotation.spreadsheet import write_xlsx
from medal_judges.errors import ConfigError, DataError, MedalError, RecordError
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import language_code
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.report.page import render_template
from medal_judges.storage.files import atomic_write, read_json, write_json
from medal_judges.storage.jsonl import write_records

Form = Literal["label-studio", "xlsx"]
PROJECT_FILE = "project.json"
ROWS_FILE = "rows.jsonl"
_NAME = re.compile(r"[\w.@+-]+")  # names become file names


@dataclass(frozen=True, slots=True)
class Project:
    """An annotation project: the dialogues to annotate, and who annotates which.

    Attributes:
        rows: Dialogue key -> dialogue. Annotators see the key (``d41b0c0ffee12``), not the id.
        dimensions: What the dialogues are rated on.
        assignments: Annotator -> keys of their dialogues, in the order to work through. If the
            mapping is empty, anybody may annotate any dialogue.
        seed: Seed of the random assignment and orders.
    """

    rows: Mapping[str, LabelledDialogue]
    dimensions: Sequence[Dimension]
    assignments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seed: int = 0


def parse_annotators(texts: Sequence[str]) -> dict[str, list[str]]:
    """Returns name -> languages for each annotator, such as ``{"ana": ["en", "pt"], "ben": []}``.
    An empty list means all languages.

    Args:
        texts: Annotators as typed, such as ``ana:en,pt`` or ``ben``.

    Raises:
        ConfigError: A text is malformed, or a name is repeated.
    """
    annotators: dict[str, list[str]] = {}
    for text in texts:
        name, _, langs = text.partition(":")
        if not _NAME.fullmatch(name) or set(name) == {"."}:
            raise ConfigError(
                f"annotator {text!r}: a name has letters, digits and . _ @ + - only",
                hint="Type --annotator ana, or with languages --annotator ana:en,pt",
            )
        if name.lower() in map(str.lower, annotators):  # some file systems ignore case
            raise ConfigError(
                f"annotator {name.lower()!r} is there twice. Leave one out"
            )
        try:
            annotators[name] = [language_code(p) for p in langs.split(",") if p.strip()]
        except RecordError as error:
            raise ConfigError(
                f"annotator {text!r}: type a language code such as 'en' after the colon"
            ) from error
    return annotators


def assign_dialogues(
    langs: Mapping[str, str],
    annotators: Mapping[str, Sequence[str]],
    per_dialogue: int,
    seed: int,
) -> dict[str, list[str]]:
    """Returns annotator -> keys of their dialogues, in the order to work through them.

    Everybody gets about the same number of dialogues, in a separate random order.

    Args:
        langs: Dialogue key -> language.
        annotators: Name -> languages that the annotator reads (empty: all).
        per_dialogue: The number of annotators for each dialogue.
        seed: Seed of the random assignment and orders.

    Raises:
        ConfigError: No annotator reads the language of a dialogue.
    """
    readers: dict[str, list[str]] = {lang: [] for lang in sorted(set(langs.values()))}
    for lang, names in readers.items():
        for name, languages in annotators.items():
            if not languages or lang in languages:
                names.append(name)
    if unread := [lang for lang, names in readers.items() if not names]:
        raise ConfigError(
            f"no annotator reads {', '.join(map(repr, unread))}",
            hint="Type --annotator NAME:LANG",
        )
    shares: dict[str, list[str]] = {name: [] for name in annotators}
    rng = np.random.default_rng(seed)
    for key in rng.permutation(sorted(langs)).tolist():
        names = rng.permutation(readers[langs[key]]).tolist()
        names.sort(key=lambda name: len(shares[name]))
        for name in names[:per_dialogue]:
            shares[name].append(key)
    return {name: _shuffle(keys, seed, name) for name, keys in shares.items()}


def _shuffle(keys: Sequence[str], seed: int, name: str) -> list[str]:
    """Returns ``keys`` in a random order that depends only on the keys, ``name`` and ``seed``.

    Args:
        name: The annotator, so that each gets another order. Empty for the order without
            annotators.
    """
    rng = np.random.default_rng([seed, int(content_hash(name), 16)])
    return [str(key) for key in rng.permutation(sorted(keys))]


def annotation_key(id: str) -> str:
    """Returns the key that annotators see in place of the dialogue's ``id``, which may name the
    chatbot. It is a hash such as ``d41b0c0ffee12``."""
    return f"d{content_hash(['annotation', id])}"


def new_project(
    rows: Sequence[LabelledDialogue],
    dimensions: Sequence[Dimension],
    annotators: Sequence[str] = (),
    per_dialogue: int = 2,
    seed: int = 0,
) -> Project:
    """Returns a project in which ``annotators`` rate the dialogues ``rows`` on ``dimensions``.

    Args:
        annotators: Names, with or without languages, such as ``ana`` or ``ana:en,pt``. If there are
            none, anybody may annotate any dialogue.
        per_dialogue: The number of annotators for each dialogue.
        seed: Seed of the random assignment and orders.

    Raises:
        ConfigError: An annotator is malformed or gets no dialogue, or no annotator reads the
            language of a dialogue.
        MedalError: There are no dialogues, or a row labels one turn, not the whole dialogue.
    """
    if not rows:
        raise MedalError("the files hold no dialogue. Give files of chats")
    if turns := [row.id for row in rows if row.level == "turn"]:
        raise MedalError(
            f"{len(turns)} rows judge one turn, not a dialogue, such as {turns[0]!r}",
            hint="Give rows of level dialogue: only whole dialogues are annotated",
        )
    by_key = {annotation_key(row.id): row for row in rows}
    people = parse_annotators(annotators)
    langs = {key: row.dialogue.lang for key, row in by_key.items()}
    assignments = assign_dialogues(langs, people, per_dialogue, seed) if people else {}
    idle = [name for name, keys in assignments.items() if not keys]
    if idle:
        names = ", ".join(sorted(set(langs.values())))
        raise ConfigError(
            f"no dialogue is left for {', '.join(idle)}",
            hint=f"The dialogues are in: {names}. A higher --per-dialogue gives more to everybody",
        )
    return Project(by_key, dimensions, assignments, seed)


def _require_no_project_files(folder: Path) -> None:
    # The package is written first: rows without it are somebody's.
    """Raises MedalError if ``folder`` has the file project.json of an annotation project, or a file
    rows.jsonl that no project wrote and that would be overwritten."""
    is_foreign = (folder / ROWS_FILE).exists() and not (folder / "package").exists()
    if is_foreign or (folder / PROJECT_FILE).exists():
        raise MedalError(
            f"{folder} holds an annotation project already, or another {ROWS_FILE}",
            hint="Type another --out",
        )


def write_project(
    project: Project,
    guidelines: Guidelines,
    folder: Path,
    forms: Sequence[Form],
) -> list[Path]:
    """Writes ``project`` into ``folder``, and returns the paths of the files for annotators.

    The files for annotators are in the subfolder ``package``, and name no chatbot, id or label. The
    files project.json and rows.jsonl in ``folder`` are not for annotators, because rows.jsonl names
    chatbots, ids and labels.

    Args:
        project: The dialogues, and who annotates which.
        guidelines: The instructions for annotators.
        folder: The folder to write.
        forms: How annotators work: ``label-studio`` (tasks to import there), ``xlsx``
            (spreadsheets) or both.

    Raises:
        MedalError: The folder already has a project, or a file rows.jsonl that no project wrote.
        ConfigError: The guidelines describe only some levels of a dimension.
        MissingExtraError: ``xlsx`` needs openpyxl, which is not installed.
    """
    _require_no_project_files(folder)
    out = folder / "package"
    asks = make_questions(project.dimensions, guidelines)
    studio = folder / "package" / "label_studio"

    def render_document(name: str) -> str:
        text = render_template(TEMPLATES, name, guidelines=guidelines, questions=asks)
        return text.strip() + "\n"

    texts = {out / "guidelines.md": render_document("guidelines.md")}
    if "label-studio" in forms:
        texts[studio / "config.xml"] = config_xml(asks, guidelines.asks)
        texts[studio / "instructions.html"] = render_document("instructions.html")
    sheets = []
    # Without assignments all rows are shuffled, because their order could reveal the chatbots.
    everything = {"": _shuffle(list(project.rows), project.seed, "")}
    for annotator, keys in (project.assignments or everything).items():
        rows = [(key, project.rows[key]) for key in keys]
        if "label-studio" in forms:
            name = f"tasks-{annotator}.json" if annotator else "tasks.json"
            content = json.dumps(
                make_tasks(rows, annotator), ensure_ascii=False, indent=1
            )
            texts[studio / name] = content + "\n"
        if "xlsx" in forms:
            path = out / "sheets" / f"{annotator or 'dialogues'}.xlsx"
            sheets.append(write_xlsx(path, rows, asks, annotator))
    written = [atomic_write(path, text) for path, text in texts.items()]
    write_records(folder / ROWS_FILE, project.rows.values())
    record = {
        "seed": project.seed,
        "dimensions": [d.to_record() for d in project.dimensions],
        "assignments": {name: list(keys) for name, keys in project.assignments.items()},
    }
    write_json(folder / PROJECT_FILE, record)
    return written + sheets


def load_project(folder: Path) -> Project:
    """Returns the project that ``medal annotate export`` wrote into ``folder``. Raises DataError if
    there is none, or its files are damaged."""
    path = folder / PROJECT_FILE
    hint = "Give the folder that medal annotate export wrote"
    if not path.is_file():
        raise DataError(path, None, "no such file", hint=hint)
    try:
        record = read_json(path)
        return Project(
            rows={
                annotation_key(row.id): row for row in read_labelled(folder / ROWS_FILE)
            },
            dimensions=[Dimension(**entry) for entry in record["dimensions"]],
            assignments=record["assignments"],
            seed=record["seed"],
        )
    except (ValueError, KeyError, TypeError, RecursionError, ConfigError) as error:
        raise DataError(path, None, f"damaged: {error}", hint=hint) from error
