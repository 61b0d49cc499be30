"""What a finished run says of its judge: one table, from the agreement.json it wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from medal_judges.training.agreement import AGREEMENT_NAME
from medal_judges.training.card.figures import METRICS


def summary_table(folder: Path) -> Table | None:
    """Rows of validation and test sets by dimension, all languages of a set together, the trivial
    baselines beside the judge; None where the run had no rows held out."""
    text = (folder / AGREEMENT_NAME).read_text(encoding="utf-8")
    records: list[dict[str, Any]] = json.loads(text)
    if not records:
        return None
    several = {_key(r) for r in records if r["lang"] == "all"}
    shown = [r for r in records if r["lang"] == "all" or _key(r) not in several]
    plain = list(shown[0]["baselines"])
    table = Table(
        title="Agreement with the labels of held-out rows, 95% intervals",
        caption="length, repetition: of the answers, untrained; chance is 0.50 of ROC AUC, else 0",
    )
    for name in ("part", "source", "dimension", "n", "figure", "judge", *plain):
        table.add_column(name, justify="right" if name in ("n", *plain) else "left")
    for r in shown:
        others = [_number(r["baselines"][name]) for name in plain]
        left_out = f" (+{r['missed']} unscored)" if r["missed"] else ""
        table.add_row(
            r["part"],
            r["source"],
            r["dimension"],
            f"{r['n']}{left_out}",
            METRICS[r["metric"]],
            _judge(r),
            *others,
        )
    return table


def _key(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["part"], record["source"], record["dimension"]


def _judge(record: Mapping[str, Any]) -> str:
    if record["value"] is None:
        return f"none: {record['reason']}"
    interval = "" if record["low"] is None else f" [{record['low']:.2f}, {record['high']:.2f}]"
    return f"{record['value']:.2f}{interval}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
