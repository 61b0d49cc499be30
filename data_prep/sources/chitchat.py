"""Chit-chat: 7,168 conversations of students with each other, from the package chitchat-dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from medal_judges.data_prep.sources.source import hash_split
from medal_judges.models.embedded import embedded_files
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue


def read_chitchat(path: Path | None = None) -> Iterator[LabelledDialogue]:
    """Yields every conversation with two speakers, in file order.

    Consecutive messages of one sender become one turn. The second speaker, also a person, is the
    assistant. ``ratings`` (1 to 10, by one of the two) become labels. Splits are 80% train, 10%
    validation and 10% test, by a hash of the id. Skips 3,150 conversations without an answer.
    """
    data = json.loads((path or embedded_files("chitchat")[0]).read_text(encoding="utf-8"))
    for id, conversation in data.items():
        messages = [m for block in conversation["messages"] for m in block]
        runs = [(who, list(run)) for who, run in groupby(messages, key=lambda m: m["sender"])]
        if len(runs) < 2:
            continue
        turns = tuple(
            Turn(
                "user" if who == runs[0][0] else "assistant",
                "\n".join(m["text"].strip() for m in run),
            )
            for who, run in runs
        )
        ratings = conversation.get("ratings") or {}
        names = ("witty", "upbeat", "interesting")
        labels = {name: (float(ratings[name]),) for name in names if ratings.get(name)}
        yield LabelledDialogue(
            dialogue=Dialogue(
                id=f"chitchat-{id}",
                turns=turns,
                lang="en",
                source="chitchat",
                models={"user": "person", "assistant": "person"},
                context={"scene": conversation["prompt"]} if conversation.get("prompt") else {},
            ),
            labels=labels,
            scales={name: (1.0, 10.0) for name in labels},
            split=hash_split(id, seed=0),
            group=f"chitchat-{id}",
        )
