"""How far a reader can trust the scores of a page: the judge's agreement with people, what it does
not check, what the middle of its scale means, and the lines that are missing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature
from medal_judges.report.page import Block, Fold, Section
from medal_judges.report.table import Figured, Table
from medal_judges.stats.intervals import BESIDE, WHOM
from medal_judges.training.agreement import read_agreement

_BLIND = (
    "A score says how such a chat reads to people on average. Unless a dimension asks for it, a "
    "judge does not check facts, safety, manners or privacy: a chat that is wrong, harmful or rude "
    "can score as well as a good one. Read chats before you act on them."
)
_UNKNOWN = (
    "{}: its agreement with people is not known here. Measure it on chats that people rated: medal "
    "benchmark, or medal report --human."
)


def skipped_lines(scores: str | Path) -> int:
    """The number of input lines that medal score listed as unreadable beside ``scores``."""
    stem = Path(scores).name.removesuffix(".gz").rpartition(".")[0]
    listed = Path(scores).with_name(f"{stem}.skipped.jsonl")
    return len(listed.read_bytes().splitlines()) if listed.is_file() else 0


def trust_section(
    signatures: Iterable[str], dimensions: Iterable[Dimension] = (), skipped: int = 0
) -> Section:
    """The section for the judges of ``signatures``; ``skipped`` input lines were unreadable."""
    blocks: list[Block] = [_BLIND]
    if graded := [d for d in dimensions if d.kind != "binary"]:
        name, low, high = graded[0].name, graded[0].low, graded[0].high
        blocks.append(
            f"{(low + high) / 2:g} is the middle of the scale of {name} ({low:g} to {high:g}), not "
            "a pass mark: compare scores with each other, or label some chats (medal report "
            "--human) to learn what people would say."
        )
    if skipped:
        blocks.append(f"Unreadable lines of the input, which no figure counts: {skipped:,}.")
    for judge in dict.fromkeys(Signature.parse(text).judge for text in signatures):
        folder = files("medal_judges.models") / judge  # of a judge in the package
        measured = judge.isidentifier() and (folder / "agreement.json").is_file()
        rows = [
            (
                f"{row.source} ({row.part})",
                row.dimension,
                row.estimate,
                Figured(row.estimate.beside, bare=True),
                row.n,
            )
            for row in (read_agreement(Path(str(folder))) if measured else ())
            if row.value is not None and row.lang in ("all", "en")
        ]
        heads = ("Rated chats", "Dimension", "Spearman's ρ", BESIDE["these"], "n")
        note = f"1: the order of people; 0: chance. 95% intervals are for {WHOM['these']}."
        table = Table(f"{judge}: agreement with people", heads, rows, note)
        blocks.append(table if rows else _UNKNOWN.format(judge))
        if measured:
            config = json.loads((folder / "train_config.json").read_text(encoding="utf-8"))
            if notes := list(config.get("card_notes", [])):
                title = "What these figures hide" if rows else f"What the card of {judge} says"
                blocks.append(Fold(title, notes))
    return Section("trust", "How far to trust these scores", blocks, lead="", link="Trust")
