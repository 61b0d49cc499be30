"""How often 95% intervals hold the true value, and equal judges differ "significantly".

python benchmarks/interval_coverage.py run RESULTS.jsonl [--others] [--seconds 300]
python benchmarks/interval_coverage.py table RESULTS.jsonl [--others] [--keep]

For these chatbots, a cell has ten sets of chatbots, each held in a tenth of the draws, and the
truth is the value over infinitely many dialogues of a set. For others (``--others``), every draw
has chatbots of its own, and the truth is the value over infinitely many chatbots
(interval_population.py). ``run`` goes through the cells that RESULTS.jsonl lacks and stops after
about ``--seconds``; run it again for the rest (hours in all).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from interval_population import (
    NONE,
    OPPOSED,
    SOME,
    STRONG,
    Population,
    Rows,
    draw,
    graded,
    present,
    truths,
)
from into_docs import keep

from medal_judges.eval.metaeval.metrics import VERDICTS, classification_statistic
from medal_judges.stats.alpha import Measurement, alpha_statistic, no_interval_reason
from medal_judges.stats.correlation import CORRELATIONS, Floats, correlation_statistic
from medal_judges.stats.difference import correlation_difference, paired_difference
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import (
    Clusters,
    Estimate,
    choose_clusters,
    estimate_metrics,
)

COMMON, RARE = 0.3, 0.05  # rates of an issue
BOTS = (
    *((3, 20), (4, 20), (5, 10), (5, 20), (5, 75), (8, 12), (8, 75), (8, 150)),
    *((12, 50), (40, 10)),
)
UNEVEN = (10, 10, 20, 20, 40, 40, 80, 150)
SETS = 10  # of chatbots that are held
NAMES = {
    "spearman": "ρ",
    "pearson": "r",
    "kendall": "τ-b",
    "within_system": "ρ within",
    f"f1_present {COMMON}": "F1+ 30%",
    f"f1_absent {COMMON}": "F1− 30%",
    f"alpha {COMMON}": "α 30%",
    f"f1_present {RARE}": "F1+ 5%",
    f"f1_absent {RARE}": "F1− 5%",
    f"alpha {RARE}": "α 5%",
    "alpha 1-5": "α 1–5",
}


@dataclass(frozen=True)
class Cell:
    """``sizes``: dialogues of each chatbot. ``others``: whom the interval is for."""

    label: str
    population: Population
    sizes: tuple[int, ...]
    others: bool

    @property
    def key(self) -> str:
        by = "chatbot" if self.others else "these"
        return f"{self.population.name} {self.label} {by}"

    def clusters(self, rows: Rows) -> Clusters:
        clusters = choose_clusters(rows.chatbots, rows.groups)
        if self.others:
            return Clusters("chatbot", tuple(rows.chatbots))
        return replace(clusters, beside=None)


def cells(others: bool) -> Iterator[Cell]:
    for population in (NONE, SOME, STRONG, OPPOSED):
        for bots, size in BOTS:
            yield Cell(f"{bots} x {size}", population, (size,) * bots, others)
        yield Cell("8, 10 to 150", population, UNEVEN, others)


def simulate(cell: Cell, draws: int) -> dict[str, dict[str, float]]:
    """Returns the shares of draws whose intervals hold the truth, by figure."""
    seed = int.from_bytes(hashlib.sha256(cell.key.encode()).digest()[:4], "big")
    sets = None if cell.others else SETS
    rows = draw(cell.population, cell.sizes, np.random.default_rng(seed), draws, sets)
    clusters = cell.clusters(rows)
    true = truths(cell.population, cell.sizes, (COMMON, RARE), rows.of_bots)
    counts: dict[str, list[list[bool]]] = {}
    for i in range(draws):
        for name, estimate in _figures(rows, i, clusters):
            truth = np.zeros(1) if "difference" in name else true[name]
            aim = truth[i * len(truth) // draws]
            has_interval = estimate.low is not None and estimate.high is not None
            is_held = has_interval and estimate.low <= aim <= estimate.high  # type: ignore[operator]
            counts.setdefault(name, []).append([has_interval, bool(is_held)])
    shares = {}
    for name, pairs in counts.items():
        given, held = np.array(pairs).sum(axis=0)
        shares[name] = {"without": 1 - given / draws, "held": held / max(given, 1)}
    return shares


def _figures(rows: Rows, i: int, clusters: Clusters) -> Iterator[tuple[str, Estimate]]:
    """Yields the figures of one draw, as the benchmark makes them."""
    people = Values(rows.human[i], 0.0)
    one, two = (Values(judge[i], 0.0) for judge in rows.judges)
    statistic = correlation_statistic(people, one, rows.chatbots, CORRELATIONS)
    names = [name for name in CORRELATIONS if name in NAMES]
    yield from estimate_metrics(statistic, clusters, "", names).items()
    difference = correlation_difference(people, one, two, clusters)
    yield "spearman difference", difference.estimate
    for share in (COMMON, RARE):
        labels, *judges = (present(s.numbers, share) for s in (people, one, two))
        statistics = [classification_statistic(j, labels[:, None]) for j in judges]
        shares = estimate_metrics(statistics[0], clusters, "", VERDICTS[:2])
        for name, estimate in shares.items():
            yield f"{name} {share}", estimate
        difference = paired_difference(*statistics, "f1_present", clusters)
        yield f"f1_present difference {share}", difference.estimate
        yield f"alpha {share}", _alpha(labels, judges[0], "nominal", clusters)
    answers = graded(people.numbers), graded(one.numbers)
    yield "alpha 1-5", _alpha(*answers, "ordinal", clusters)


def _alpha(
    labels: Floats, judge: Floats, measurement: Measurement, clusters: Clusters
) -> Estimate:
    answers = np.column_stack([labels, judge])
    if no_interval_reason(answers, measurement):
        return Estimate(None)
    statistic = alpha_statistic(answers, measurement)
    return estimate_metrics(statistic, clusters, "")["alpha"]


def run(path: Path, others: bool, draws: int, seconds: float) -> None:
    done = {line["key"] for line in _read(path)}
    start = time.monotonic()
    for cell in cells(others):
        if cell.key in done:
            continue
        if time.monotonic() - start > seconds:
            print("more to do: run it again")
            return
        line = {"key": cell.key, "population": cell.population.name, "others": others}
        with path.open("a") as file:
            file.write(json.dumps(line | {"figures": simulate(cell, draws)}) + "\n")
        print(cell.key, flush=True)


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open()] if path.exists() else []


def table(lines: list[dict[str, Any]], others: bool) -> str:
    """How many cells hold: of each figure for these chatbots, by what chatbots add for others."""
    found: dict[str, list[float]] = {}
    for line in lines:
        for name, figure in line["figures"].items():
            if line["others"] == others and name in NAMES and figure["without"] < 0.9:
                row = line["population"] if others else NAMES[name]
                found.setdefault(row, []).append(figure["held"])
    first = "chatbots differ" if others else "metric"
    heads = (first, "cells", "93–97%", "above", "below", "lowest", "highest")
    out = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row, shares in found.items():
        held = np.array(shares)
        above, below = (held > 0.97).sum(), (held < 0.93).sum()
        counts = (len(held), len(held) - above - below, above, below)
        ends = f"{held.min():.3f} | {held.max():.3f}"
        out.append(f"| {row} | {' | '.join(map(str, counts))} | {ends} |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--draws", type=int, default=1000, help="a multiple of 10")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--keep", action="store_true", help="write the page's table")
    asked = parser.parse_args()
    if asked.what == "run":
        run(asked.results, asked.others, asked.draws, asked.seconds)
        return
    name = "intervals" if asked.others else "intervals_these"
    keep(name if asked.keep else None, table(_read(asked.results), asked.others))


if __name__ == "__main__":
    main()
