"""DSTC11 track 4, a set of the Hub, read by its documentation and by public code that reads it: its
files were never here. A row in another form is an error."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from medal_judges.data_prep.sources.hub_sets import hub_folder
from medal_judges.data_prep.sources.public import alternating, rated
from medal_judges.data_prep.sources.source import source
from medal_judges.errors import DataError, SourceError
from medal_judges.records.labelled import LabelledDialogue, Level, Scale
from medal_judges.storage.files import read_json

REPOSITORY = "mario-rc/dstc11.t4"
_LEVELS: dict[str, Level] = {"fed-turn": "turn", "persona-see": "dialogue"}
# Language, the language of its file beside English, and the column of its texts.
_LANGUAGES = (
    ("en", "es", "SEG"),
    ("es", "es", "TRANSLATION"),
    ("zh", "zh", "TRANSLATION"),
)
_FED_SCALES: dict[str, Scale] = {"overall": (0.0, 4.0), "understandable": (0.0, 1.0)}


@source("dstc11")
def read_dstc11() -> Iterator[LabelledDialogue]:
    """DSTC11 track 4: FED-Turn (level ``turn``) and Persona-SEE (level ``dialogue``) in English,
    Spanish and Chinese; the last two are translations with the ratings of the English dialogues.

    ``metadata/dev/**/NAME_eval.json`` has the ratings, in the order of the dialogues of
    ``task1/dev/en_LANG/NAME_multilingual_en_LANG.csv``, which has the turns (UID, SEG,
    TRANSLATION). Entries without ratings or response have no turns there. Speakers alternate, and
    the last turn is the chatbot's. The group is the entry's ``dialogue_id`` if it has one.
    """
    patterns = ["DSTC_11_Track_4/task1/dev/**", "DSTC_11_Track_4/metadata/dev/**"]
    folder = Path(hub_folder(REPOSITORY, patterns)) / "DSTC_11_Track_4"
    for name, level in _LEVELS.items():
        for lang, file_language, column in _LANGUAGES:
            path = (
                folder
                / f"task1/dev/en_{file_language}/{name}_multilingual_en_{file_language}.csv"
            )
            files = [*folder.glob(f"metadata/dev/**/{name}_eval.json")]
            if len(files) != 1 or not path.is_file():
                raise SourceError(
                    f"{REPOSITORY}: expected {path} and one metadata/dev/**/{name}_eval.json",
                    hint=f"if the data set is one archive, unpack it in {folder.parent}",
                )
            for uid, entry, rows in _entries(path, files[0]):
                ratings = {}
                for question, answers in entry["annotations"].items():
                    ratings["_".join(question.lower().split())] = answers
                scales: dict[str, Scale | None] = dict.fromkeys(ratings)
                if level == "turn":  # the scales of Persona-SEE are not documented
                    scales = {key: _FED_SCALES.get(key, (0.0, 2.0)) for key in ratings}
                yield rated(
                    f"dstc11-{uid}-{lang}",
                    alternating([row[column].strip() for row in rows], "assistant"),
                    ratings,
                    scales,
                    source="dstc11",
                    group=f"dstc11-{entry.get('dialogue_id', uid)}",
                    lang=lang,
                    split="test",
                    level=level,
                    model=entry.get("model"),
                )


def _entries(
    path: Path, ratings: Path
) -> Iterator[tuple[str, dict[str, Any], list[dict[str, str]]]]:
    """Yields the id of a dialogue, its entry in the file of ``ratings``, and its rows in the CSV
    file ``path``. Raises DataError if their last turns differ."""
    entries = []
    for entry in read_json(ratings):
        has_turns = entry.get("response") or entry.get("dialog")
        if entry.get("annotations") and has_turns:
            entries.append(entry)
    with open(path, encoding="utf-8-sig", newline="") as stream:
        dialogues = groupby(
            csv.DictReader(stream), lambda row: row["UID"].rpartition("-")[0]
        )
        for entry, (uid, group) in zip(entries, dialogues, strict=True):
            rows = list(group)
            last = entry.get("response") or entry["dialog"][-1]["text"]
            if rows[-1]["SEG"].strip() not in last:
                problem = (
                    f"{uid} does not end with the last turn of its entry: {last!r}"
                )
                raise DataError(str(path), None, problem)
            yield uid, entry, rows
