"""Soda-Eval, a set of the Hub, read in the columns that its card states: its files were never
here. A row in another form is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medal_judges.data_prep.sources.medal import folder_records, hub_folder
from medal_judges.data_prep.sources.public import rated
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.dialogue import Role, Turn
from medal_judges.records.labelled import LabelledDialogue

SODA_EVAL = "Johndfm/soda_eval"
_SPLITS = {"train": "train", "val": "validation", "test": "test"}


def _issues(row: Mapping[str, Any]) -> dict[str, str]:
    """The comments of a row of Soda-Eval by type of issue."""
    issues = {}
    for issue in row["issues"] or ():
        name = "_".join(issue["type"].lower().split())
        issues[name] = issue["comment"] or ""
    return issues


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
        names = []
        texts = []
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
