"""Sets of the Hub other than MEDAL's, each read in the columns that its documentation states.

Their files were never here: the columns are those of the data set cards, and of public code that
reads the files (DSTC11's JSON files). A row in another form is an error.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from medal_judges.data_prep.sources.medal import folder_records, hub_folder
from medal_judges.data_prep.sources.public import alternating, rated
from medal_judges.errors import DataError, SourceError
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.dialogue import Role, Turn
from medal_judges.records.labelled import LabelledDialogue, Level, Scale

SODA_EVAL, DSTC11 = "Johndfm/soda_eval", "mario-rc/dstc11.t4"
_DSTC11_LEVELS: dict[str, Level] = {"fed-turn": "turn", "persona-see": "dialogue"}
# Language, the language of its file beside English, and the column of its texts.
_DSTC11_LANGUAGES = (
    ("en", "es", "SEG"),
    ("es", "es", "TRANSLATION"),
    ("zh", "zh", "TRANSLATION"),
)
_FED_SCALES: dict[str, Scale] = {"overall": (0.0, 4.0), "understandable": (0.0, 1.0)}
_SPLITS = {"train": "train", "val": "validation", "test": "test"}


def _slug(name: str) -> str:
    return "_".join(name.lower().split())


def _issues(row: Mapping[str, Any]) -> dict[str, str]:
    """The comments of a row of Soda-Eval by type of issue."""
    return {_slug(issue["type"]): issue["comment"] or "" for issue in row["issues"] or ()}


def read_soda_eval(
    offline: bool | None = None, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """Soda-Eval: a row for each turn of a dialogue of SODA, with GPT-4's score from 1 to 5
    (``overall``), and 1 or 0 for each type of issue that any row of the set has.

    ``dialog_history`` has a line ``NAME: text`` for each turn, ``response`` is one more. Who says
    the response is the assistant in the whole dialogue.
    """
    folder = hub_folder(SODA_EVAL, offline)
    types: set[str] = set()
    for row in folder_records(folder):
        types.update(_issues(row))
    for row in folder_records(folder):
        history = [line for line in row["dialog_history"].split("\n") if line.strip()]
        names, texts = [], []
        for line in (*history, row["response"]):
            name, _, text = line.partition(":")
            names.append(name.strip())
            texts.append(text.strip())
        roles: list[Role] = ["assistant" if name == names[-1] else "user" for name in names]
        issues = _issues(row)
        group = f"soda-eval-{row['dialog_id']}"
        yield rated(
            f"{group}-{len(history)}",
            map(Turn, roles, texts),
            {"overall": [row["score"]]} | {name: [int(name in issues)] for name in sorted(types)},
            {"overall": (1.0, 5.0)} | dict.fromkeys(types, (0.0, 1.0)),
            source="soda_eval",
            group=group,
            split=_SPLITS[row["split"]],
            level="turn",
            extra={"labels_by": "GPT-4", "comments": {"overall": row["overall_comment"]} | issues},
        )


def read_dstc11(
    offline: bool | None = None, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """DSTC11 track 4: FED-Turn (level ``turn``) and Persona-SEE (level ``dialogue``) in English,
    Spanish and Chinese; the last two are translations with the ratings of the English dialogues.

    ``metadata/dev/**/NAME_eval.json`` has the ratings, in the order of the dialogues of
    ``task1/dev/en_LANG/NAME_multilingual_en_LANG.csv``, which has the turns (UID, SEG,
    TRANSLATION). Entries without ratings or response have no turns there. Speakers alternate, and
    the last turn is the chatbot's.
    """
    patterns = ["DSTC_11_Track_4/task1/dev/**", "DSTC_11_Track_4/metadata/dev/**"]
    folder = Path(hub_folder(DSTC11, offline, patterns)) / "DSTC_11_Track_4"
    for name, level in _DSTC11_LEVELS.items():
        for lang, other, column in _DSTC11_LANGUAGES:
            path = folder / f"task1/dev/en_{other}/{name}_multilingual_en_{other}.csv"
            files = [*folder.glob(f"metadata/dev/**/{name}_eval.json")]
            if len(files) != 1 or not path.is_file():
                raise SourceError(
                    f"{DSTC11}: expected {path} and one metadata/dev/**/{name}_eval.json",
                    hint=f"if the data set is one archive, unpack it in {folder.parent}",
                )
            for uid, entry, rows in _dstc11_entries(path, files[0]):
                ratings = {_slug(key): values for key, values in entry["annotations"].items()}
                scales: dict[str, Scale | None] = dict.fromkeys(ratings)
                if level == "turn":  # the scales of Persona-SEE are not documented
                    scales = {key: _FED_SCALES.get(key, (0.0, 2.0)) for key in ratings}
                yield rated(
                    f"dstc11-{uid}-{lang}",
                    alternating([row[column].strip() for row in rows], "assistant"),
                    ratings,
                    scales,
                    source="dstc11",
                    group=f"dstc11-{uid}",
                    lang=lang,
                    split="test",
                    level=level,
                    model=entry.get("model"),
                )


def _dstc11_entries(
    path: Path, ratings: Path
) -> Iterator[tuple[str, dict[str, Any], list[dict[str, str]]]]:
    """Yields the id of a dialogue, its entry in the file of ``ratings``, and its rows in the CSV
    file ``path``. Raises DataError if their last turns differ."""
    entries = []
    for entry in json.loads(ratings.read_text("utf-8")):
        if entry.get("annotations") and (entry.get("response") or entry.get("dialog")):
            entries.append(entry)
    with open(path, encoding="utf-8-sig", newline="") as stream:
        dialogues = groupby(csv.DictReader(stream), lambda row: row["UID"].rpartition("-")[0])
        for entry, (uid, group) in zip(entries, dialogues, strict=True):
            rows = list(group)
            last = entry.get("response") or entry["dialog"][-1]["text"]
            if rows[-1]["SEG"].strip() not in last:
                problem = f"{uid} does not end with the last turn of its entry: {last!r}"
                raise DataError(str(path), None, problem)
            yield uid, entry, rows
