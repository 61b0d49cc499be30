"""README.md of a saved judge: what it is, from the facts of its run only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medal_judges.models.judge import Judge
from medal_judges.training.config import TrainConfig


def write_card(
    folder: Path,
    judge: Judge,
    config: TrainConfig,
    data: Sequence[Mapping[str, Any]],
    figures: Mapping[str, float],
) -> None:
    """Write the card; ``figures`` are validation's, at the weights that were saved."""
    text = "\n\n".join(
        [
            "---\nlibrary_name: medal_judges\npipeline_tag: text-classification\n---",
            f"# {config.name}",
            "A judge of open-domain dialogue made with `medal_judges`. It scores the assistant's "
            "side of a dialogue.",
            "## Dimensions\n\n" + _dimensions(judge),
            "## Use\n\n" + _snippet(folder),
            "## Data\n\n" + _data(data),
            "## Validation\n\n" + _figures(figures),
            "## What it cannot do\n\nIt has been validated on the rows above and on nothing else: "
            "other languages, other kinds of dialogue and other raters need a benchmark of their "
            "own (`medal benchmark`). A score of one dialogue is an estimate, not a verdict.",
            f"## Signature\n\n`{judge.signature()}`",
        ]
    )
    (folder / "README.md").write_text(text + "\n", encoding="utf-8")


def _dimensions(judge: Judge) -> str:
    head = "| dimension | kind | scale | good end | definition |\n|---|---|---|---|---|"
    rows = (
        f"| {d.name} | {d.kind} | {d.low:g} to {d.high:g} | {d.good} | {d.definition} |"
        for d in judge.dimensions
    )
    return "\n".join([head, *rows])


def _snippet(folder: Path) -> str:
    return f"""```python
from medal_judges import Dialogue, Judge, Turn

judge = Judge.from_pretrained("{folder.name}")  # the folder of this judge, or its hub id
turns = (Turn("user", "Hi, how was your day?"), Turn("assistant", "Good, thanks! Yours?"))
for judgement in judge.score([Dialogue("1", turns)]):
    print(judgement.scores)
```"""


def _data(data: Sequence[Mapping[str, Any]]) -> str:
    head = "| part | source | rows | revision |\n|---|---|---|---|"
    rows = (f"| {d['part']} | {d['source']} | {d['rows']} | {d['hash']} |" for d in data)
    return "\n".join([head, *rows])


def _figures(figures: Mapping[str, float]) -> str:
    if not figures:
        return "None: the run had no validation rows."
    head = "| figure | value |\n|---|---|"
    return "\n".join([head, *(f"| {name} | {value:.4f} |" for name, value in figures.items())])
