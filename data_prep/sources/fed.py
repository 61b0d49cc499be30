"""FED: 125 chats with Meena, Mitsuku or a person, rated as a whole and at three replies each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from medal_judges.data_prep.sources.public_form import marked_turns, rated
from medal_judges.data_prep.sources.source import Source, SourceFile
from medal_judges.records.dialogue import Role
from medal_judges.records.labelled import LabelledDialogue, Level
from medal_judges.records.rating import Scale

_MARKS: dict[str, Role] = {"User:": "user", "System:": "assistant"}
_BINARY = ("consistent", "understandable")  # 0 or 1; overall 0 to 4; the rest 0 to 2


def read_fed(path: Path, *, level: Level) -> Iterator[LabelledDialogue]:
    """Yields the rows of fed_data.json at one level. An entry without ``response`` is a whole
    dialogue; in others the judged reply is the last turn."""
    group = row = 0
    for entry in json.loads(path.read_text(encoding="utf-8")):
        is_turn = "response" in entry
        if is_turn == (level == "turn"):
            text = entry["context"] + ("\n" + entry["response"] if is_turn else "")
            ratings = {k.lower().replace(" ", "_"): v for k, v in entry["annotations"].items()}
            yield rated(
                f"fed-{'turn' if is_turn else 'dial'}-{row:04d}",
                marked_turns(text, _MARKS),
                ratings,
                {name: _scale(name) for name in ratings},
                source="fed",
                group=f"fed-{group:04d}",
                model=entry["system"],
                level=level,
                split="test",
            )
            row += 1
        group += not is_turn  # the replies of a chat come before its whole-dialogue entry


def _scale(name: str) -> Scale:
    return 0.0, {"overall": 4.0}.get(name, 1.0 if name in _BINARY else 2.0)


_URL = "https://raw.githubusercontent.com/maximedb/full/main/data/fed_data.json"
_SHA = "7f6b1773a3436f98e4d873e3ba798e203fecb286043ae8cdf2c0fc417960933a"

FED = Source(
    name="fed",
    title="FED: chats with Meena, Mitsuku or a person, 5 raters",
    licence="MIT for the copy in maximedb/full; FED itself states none there",
    citation="Mehri and Eskenazi, SIGDIAL 2020: Unsupervised Evaluation of Interactive Dialog "
    "with DialoGPT",
    languages=("en",),
    parts=(
        SourceFile(
            "dialogue",
            "dialogue",
            "fed_dialogue.jsonl.gz",
            "4f27d15a92b862e6dae907978510f364c77714a7b0b4217150bd810810299ab4",
            _URL,
            "fed_data.json",
            _SHA,
            partial(read_fed, level="dialogue"),
        ),
        SourceFile(
            "turn",
            "turn",
            "fed_turn.jsonl.gz",
            "3d2d9a8650aa4c68504d71808cd6d2b690d5d102cd1b1aaf13f39767e1cc7b7e",
            _URL,
            "fed_data.json",
            _SHA,
            partial(read_fed, level="turn"),
        ),
    ),
)
