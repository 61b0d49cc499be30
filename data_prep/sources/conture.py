"""ConTurE: 119 DSTC9 chats, each rated by several people as a whole, with a vote on every reply."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from medal_judges.data_prep.sources.public_form import exchanges, rated, text_defects
from medal_judges.data_prep.sources.source import Source, SourceFile
from medal_judges.records.dialogue import Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Scale

_NAMES = {
    "human (overall)": "overall",
    "topic depth": "topic_depth",
    "error recovery": "error_recovery",
}


def read_conture_dialogues(path: Path) -> Iterator[LabelledDialogue]:
    """Yields the dialogue-level rows of data/data.json.

    The public file has no splits and no chatbot names: ``split`` is by a hash of the dialogue
    (other than in the line format) and ``models`` is empty. The leak check still finds DSTC9 rows.
    """
    for entry in json.loads(path.read_text(encoding="utf-8")):
        number = entry["dialog_id"]
        turns, answers = _turns(entry["turns"]), entry["dialog_ratings"]
        ratings = {_NAMES.get(k, k): [rater.get(k) for rater in answers] for k in answers[0]}
        yield rated(
            f"conture-dial-{number:04d}",
            turns,
            ratings,
            {name: _scale(name) for name in ratings},
            source="conture",
            group=f"conture-{number:04d}",
            extra=text_defects(turns, "dialogue"),
        )


def read_conture_turns(path: Path) -> Iterator[LabelledDialogue]:
    """Yields one turn-level row for every reply, with its vote (0 dislike, 1, 2 like)."""
    for entry in json.loads(path.read_text(encoding="utf-8")):
        number = entry["dialog_id"]
        whole = _turns(entry["turns"])
        for i, turn in enumerate(entry["turns"]):
            turns = whole[: 2 * i + 2]
            yield rated(
                f"conture-turn-{number:04d}-{i:02d}",
                turns,
                {"overall": [turn["overall impression"]]},
                {"overall": (0.0, 2.0)},
                source="conture",
                group=f"conture-{number:04d}",
                level="turn",
                aggregated=True,
                extra=text_defects(turns, "turn"),
            )


def _turns(pairs: Iterable[Mapping[str, str]]) -> list[Turn]:
    marks = ("User:", "Chatbot:")
    return exchanges(
        (pair["user"].removeprefix(marks[0]), pair["chatbot"].removeprefix(marks[1]))
        for pair in pairs
    )


def _scale(name: str) -> Scale:
    return {"overall": (1.0, 5.0), "consistent": (0.0, 1.0)}.get(name, (1.0, 3.0))


_URL = "https://raw.githubusercontent.com/alexa/conture/main/data/data.json"
_SHA = "694e47de0abcffab6a4032171f2d493a5bf7d7b5d45876e1685c2819622853b8"

CONTURE = Source(
    name="conture",
    title="ConTurE: 119 DSTC9 chats, 2 or 3 raters; every reply voted on",
    licence="CC BY 4.0",
    citation="Ghazarian et al., Findings of ACL 2022: What is wrong with you? Leveraging User "
    "Sentiment for Automatic Dialog Evaluation",
    languages=("en",),
    parts=(
        SourceFile(
            "dialogue",
            "dialogue",
            "conture_dialogue.jsonl.gz",
            "d4287aabb9b9a8f2cc54da5372e7d5cc45067f304e453a3afafcf4be252ae364",
            _URL,
            "conture_data.json",
            _SHA,
            read_conture_dialogues,
        ),
        SourceFile(
            "turn",
            "turn",
            "conture_turn.jsonl.gz",
            "1b87301af56db1e6734386316da1b38eadab4a2cd8a9da97fe51083fb9fa793b",
            _URL,
            "conture_data.json",
            _SHA,
            read_conture_turns,
        ),
    ),
    notes=("ConTurE dialogues are DSTC9 dialogues: never train on one and test on the other.",),
)
