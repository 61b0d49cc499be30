"""USR: human and model replies to Topical-Chat and Persona-Chat contexts, rated by three people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from medal_judges.data_prep.sources.public_form import alternating, lines_of, rated
from medal_judges.data_prep.sources.source import Source, SourceFile
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Scale

_SCALES: dict[str, Scale] = {
    "understandability": (0.0, 1.0),
    "naturalness": (1.0, 3.0),
    "coherence": (1.0, 3.0),
    "engagingness": (1.0, 3.0),
    "groundedness": (0.0, 1.0),
    "overall": (1.0, 5.0),
}


def read_topical_chat(path: Path) -> Iterator[LabelledDialogue]:
    """Yields the rows of UniEval's topical_chat.json: six replies per context, mean scores."""
    contexts: dict[str, int] = {}
    for number, entry in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        context = contexts.setdefault(entry["source"], len(contexts))
        knowledge = entry["context"].strip()
        yield rated(
            f"topical-chat-{number:04d}",
            alternating([*lines_of(entry["source"]), entry["system_output"]], "assistant"),
            {name: [float(score)] for name, score in entry["scores"].items()},
            _SCALES,
            source="topical_chat_usr",
            group=f"topical-chat-ctx-{context:04d}",
            model=entry["system_id"],
            level="turn",
            split="test",
            aggregated=True,
            extra={"knowledge": knowledge} if knowledge not in ("", "_nofact") else {},
        )


USR = Source(
    name="usr",
    title="USR: replies to Topical-Chat and Persona-Chat contexts, 3 raters",
    licence="MIT for UniEval's copy, GPL-3.0 for xDial-Eval's; USR states none there",
    citation="Mehri and Eskenazi, ACL 2020: USR: An Unsupervised and Reference Free Evaluation "
    "Metric for Dialog Generation",
    languages=("en",),
    parts=(
        SourceFile(
            "topical",
            "turn",
            "topical_chat_usr.jsonl.gz",
            "8d0ba431ae40b4ac3ecd9e05add9be7fc77456c85e878f50970a89836a009be0",
            "https://raw.githubusercontent.com/maszhongming/UniEval/main/reproduce/data/dialogue/"
            "topical_chat.json",
            "unieval_topical_chat.json",
            "f6361daa6fe162f636d2071a60322a784acd770be0bf3a6920ac949d751b978a",
            read_topical_chat,
        ),
        SourceFile(
            "persona",
            "turn",
            "persona_usr.jsonl.gz",
            "72b7d4ad03a416f96007cc40acebf22d4d5d61e2d64b1474ab1714616576f611",
            why="xDial-Eval's copy states no question that the rating answers",
        ),
    ),
)
