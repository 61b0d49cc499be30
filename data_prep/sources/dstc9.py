"""DSTC9 interactive track: chats with eleven chatbots, one overall score a dialogue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from medal_judges.data_prep.sources.public_form import alternating, rated
from medal_judges.data_prep.sources.source import Source, SourceFile
from medal_judges.errors import SourceError
from medal_judges.records.labelled import LabelledDialogue


def read_dstc9(path: Path) -> Iterator[LabelledDialogue]:
    """Yields the rows of dstc9_data.json as DialEvalMetrics writes it: parallel lists ``contexts``
    (lists of lines), ``responses``, ``scores`` and ``models``. Speakers alternate. Splits are by a
    hash of the dialogue; ConTurE's rows are not marked.

    Written from that loader's code and tested on a fixture, not on the file itself.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if missing := {"contexts", "responses", "scores", "models"} - set(data):
        raise SourceError(f"{path}: not the form of DialEvalMetrics, it lacks {sorted(missing)}")
    columns = (data["contexts"], data["responses"], data["scores"], data["models"])
    for number, (context, response, score, model) in enumerate(zip(*columns, strict=True)):
        id = f"dstc9-{number:04d}"
        yield rated(
            id,
            alternating([*context, response], "assistant"),
            {"overall": [float(score)]},
            {"overall": (1.0, 5.0)},
            source="dstc9",
            group=id,
            model=model,
            aggregated=True,
        )


DSTC9 = Source(
    name="dstc9",
    title="DSTC9 interactive track: chats with eleven chatbots, mean overall of 2 or 3 raters",
    licence="none stated: for local testing only (the ConTurE part is CC BY 4.0)",
    citation="Gunasekara et al., 2020: Overview of the Ninth Dialog System Technology Challenge",
    languages=("en",),
    parts=(
        SourceFile(
            "dialogue",
            "dialogue",
            "dstc9.jsonl.gz",
            "e026e8c57b99d7c36ae216d81faa7312ff0f2d2d1629f10d70eb76febbf34eaf",
            None,
            "dstc9_data.json",
            None,
            read_dstc9,
            why="its authors share it by hand; follow data/dstc9_data of exe1023/DialEvalMetrics",
        ),
    ),
    notes=("Raters hardly agree: expect low ceilings.", "119 rows are ConTurE's (`overlaps`)."),
)
