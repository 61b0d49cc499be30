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
from medal_judges.data_prep.sources.public import rated
from medal_judges.errors import DataError, SourceError
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.dialogue import Turn
from medal_judges.records.labelled import LabelledDialogue, Level, Scale

SODA_EVAL, DSTC11 = "Johndfm/soda_eval", "mario-rc/dstc11.t4"
_SPLITS = {"train": "train", "val": "validation", "test": "test"}


def _slug(name: str) -> str:
    return "_".join(name.lower().split())


def read_soda_eval(
    offline: bool | None = None, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """Soda-Eval: a row for each turn of a dialogue of SODA, with GPT-4's score from 1 to 5
    (``overall``), and 1 or 0 for each type of issue that any row of the set has.

    ``dialog_history`` has a line ``NAME: text`` for each turn, ``response`` is one more. Who says
    the response is the assistant in the whole dialogue.
    """

    def issues(row: Mapping[str, Any]) -> dict[str, str]:
        return {_slug(issue["type"]): issue["comment"] or "" for issue in row["issues"] or ()}

    folder = hub_folder(SODA_EVAL, offline)
    types = sorted({name for row in folder_records(folder) for name in issues(row)})
    for row in folder_records(folder):
        history = [line for line in row["dialog_history"].split("\n") if line.strip()]
        said = [line.partition(":")[::2] for line in (*history, row["response"])]
        judged, found, group = said[-1][0].strip(), issues(row), f"soda-eval-{row['dialog_id']}"
        yield rated(
            f"{group}-{len(history)}",
            (Turn("assistant" if n.strip() == judged else "user", t.strip()) for n, t in said),
            {"overall": [row["score"]]} | {name: [int(name in found)] for name in types},
            {"overall": (1.0, 5.0)} | dict.fromkeys(types, (0.0, 1.0)),
            source="soda_eval",
            group=group,
            split=_SPLITS[row["split"]],
            level="turn",
            extra={"labels_by": "GPT-4", "comments": {"overall": row["overall_comment"]} | found},
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
    own: dict[str, Scale] = {"overall": (0.0, 4.0), "understandable": (0.0, 1.0)}  # FED's
    levels: dict[str, Level] = {"fed-turn": "turn", "persona-see": "dialogue"}
    for name, lang in ((name, lang) for name in levels for lang in ("en", "es", "zh")):
        other = "es" if lang == "en" else lang
        path = folder / f"task1/dev/en_{other}/{name}_multilingual_en_{other}.csv"
        listed = [*folder.glob(f"metadata/dev/**/{name}_eval.json")]
        if len(listed) != 1 or not path.is_file():
            raise SourceError(
                f"{DSTC11}: expected {path} and one metadata/dev/**/{name}_eval.json",
                hint=f"if the data set is one archive, unpack it in {folder.parent}",
            )
        entries = [e for e in json.loads(listed[0].read_text("utf-8")) if e.get("annotations")]
        entries = [e for e in entries if e.get("response") or e.get("dialog")]
        with open(path, encoding="utf-8-sig", newline="") as stream:
            rows = [*csv.DictReader(stream)]
        chats = [(k, [*v]) for k, v in groupby(rows, lambda r: r["UID"].rpartition("-")[0])]
        for entry, (uid, chat) in zip(entries, chats, strict=True):
            last = entry.get("response") or entry["dialog"][-1]["text"]
            if chat[-1]["SEG"].strip() not in last:
                problem = f"{uid} does not end with the last turn of its entry: {last!r}"
                raise DataError(str(path), None, problem)
            ratings = {_slug(key): values for key, values in entry["annotations"].items()}
            text, is_fed = "SEG" if lang == "en" else "TRANSLATION", name == "fed-turn"
            # The scales of Persona-SEE are not documented.
            yield rated(
                f"dstc11-{uid}-{lang}",
                (
                    Turn("user" if i % 2 else "assistant", r[text].strip())
                    for i, r in zip(range(len(chat) - 1, -1, -1), chat, strict=True)
                ),
                ratings,
                {key: own.get(key, (0.0, 2.0)) if is_fed else None for key in ratings},
                source="dstc11",
                group=f"dstc11-{uid}",
                lang=lang,
                split="test",
                level=levels[name],
                model=entry.get("model"),
            )
