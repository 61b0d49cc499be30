"""How far a reader can trust the scores of a page: the judge's agreement with people, what it does
not check, what the middle of its scale means, and the lines that are missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature
from medal_judges.report.page import Block, Fold, Section
from medal_judges.report.table import Figured, Row, Table
from medal_judges.stats.intervals import BESIDE, WHOM
from medal_judges.training.agreement import read_agreement

_BLIND = (
    "A score says how such a chat reads to people on average. Unless a dimension asks for it, a "
    "judge does not check facts, safety, manners or privacy: an answer that is wrong, changes a "
    "fact, leaks private data or insults can score as well as a good one, and a short answer that "
    "is right can score low. Read chats before you act on them."
)
_MIDDLE = (
    "{:g} is the middle of the scale of {} ({:g} to {:g}), not a pass mark: compare scores with "
    "each other, or label some chats (medal report --human) to learn what people would say."
)
_UNKNOWN = (
    "{}: its agreement with people is not known here. Measure it on chats that people rated: medal "
    "benchmark, or medal report --human."
)


def skipped_lines(scores: str | Path) -> int:
    """Returns the number of input lines that medal score listed as unreadable beside ``scores``."""
    stem = Path(scores).name.removesuffix(".gz").rpartition(".")[0]
    path = Path(scores).with_name(f"{stem}.skipped.jsonl")
    if not path.is_file():
        return 0
    return len(path.read_bytes().splitlines())


def trust_section(
    signatures: Iterable[str], dimensions: Iterable[Dimension] = (), skipped: int = 0
) -> Section:
    """Returns the section for the judges of ``signatures``; ``skipped`` input lines were
    unreadable."""
    blocks: list[Block] = [_BLIND]
    for dimension in dimensions:
        if dimension.kind != "binary":
            low, high = dimension.low, dimension.high
            blocks.append(_MIDDLE.format((low + high) / 2, dimension.name, low, high))
            break
    if skipped:
        blocks.append(
            f"Unreadable lines of the input, which no figure counts: {skipped:,}."
        )
    judges = dict.fromkeys(Signature.parse(text).judge for text in signatures)
    for judge in judges:
        blocks += _agreement_blocks(judge)
    return Section(
        "trust", "How far to trust these scores", blocks, lead="", link="Trust"
    )


def _agreement_blocks(judge: str) -> Iterator[Block]:
    """Yields the agreement of a packaged judge with people, in English or in all languages, and
    what its card says of it."""
    folder = Path(str(files("medal_judges.models"))) / judge
    if not judge.isidentifier() or not (folder / "agreement.json").is_file():
        yield _UNKNOWN.format(judge)
        return
    rows: list[Row] = []
    for row in read_agreement(folder):
        if row.value is not None and row.lang in ("all", "en"):
            beside = Figured(row.estimate.beside, bare=True)
            rows.append(
                (
                    f"{row.source} ({row.part})",
                    row.dimension,
                    row.estimate,
                    beside,
                    row.n,
                )
            )
    blocks: list[Block] = []
    if rows:
        columns = ("Rated chats", "Dimension", "Spearman's ρ", BESIDE["these"], "n")
        note = (
            f"1: the order of people; 0: chance. 95% intervals are for {WHOM['these']}."
        )
        blocks.append(Table(f"{judge}: agreement with people", columns, rows, note))
    else:
        yield _UNKNOWN.format(judge)
    config = json.loads((folder / "train_config.json").read_text(encoding="utf-8"))
    blocks += config.get("card_notes", [])
    if blocks:
        yield Fold(f"How to read this: what is known of {judge}", blocks)
