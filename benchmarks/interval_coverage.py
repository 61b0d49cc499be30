"""How often 95% intervals hold the true value, and equal judges differ "significantly".

python benchmarks/interval_coverage.py run RESULTS.jsonl [--interval-for others] [--seconds 300]
python benchmarks/interval_coverage.py table RESULTS.jsonl [--interval-for others] > table.md

For these chatbots, a cell has ten sets of chatbots, each held in a tenth of the draws, and the
truth is the value over infinitely many dialogues of a set. For others, every draw has chatbots of
its own, and the truth is the value over infinitely many chatbots (interval_population.py).

``run`` goes through the cells that RESULTS.jsonl lacks and stops after about ``--seconds``; run it
again for the rest. interval_figures.py makes all figures of all draws at once, and intervals by the
functions of stats/intervals.py; the first draw of each cell goes through what ``medal benchmark``
calls, and must agree.
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
from interval_figures import COMMON, RARE, Spans, figures, spans
from interval_population import (
    NONE,
    OPPOSED,
    SOME,
    STRONG,
    UNRELATED,
    Population,
    Rows,
    draw,
    graded,
    present,
    truths,
)
from into_docs import keep

from medal_judges.eval.metaeval.alignment import (
    classification,
    classification_statistic,
)
from medal_judges.stats.alpha import alpha_statistic, no_interval
from medal_judges.stats.correlation import (
    Floats,
    Statistic,
    correlation_statistic,
    correlations,
    weighted_spearman,
)
from medal_judges.stats.equal import Values
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import (
    PLAIN,
    Clusters,
    Lead,
    _left_out,
    choose_clusters,
    scale_of,
    with_intervals,
)
from medal_judges.stats.significance import paired_difference

BOTS = (
    (3, 20),
    (4, 20),
    (5, 10),
    (5, 20),
    (5, 75),
    (8, 12),
    (8, 75),
    (8, 150),
    (12, 50),
    (40, 10),
)
UNEVEN = (10, 10, 20, 20, 40, 40, 80, 150)
SETS = 10  # of chatbots that are held


@dataclass(frozen=True)
class Cell:
    """``sizes``: dialogues of each chatbot; with ``by`` conversation the chatbots are not named."""

    label: str
    population: Population
    sizes: tuple[int, ...]
    by: str

    @property
    def key(self) -> str:
        return f"{self.population.name} {self.label} {self.by}"

    def clusters(self, rows: Rows) -> Clusters:
        if self.by == "conversation":
            return choose_clusters([None] * len(rows.groups), rows.groups)
        lead: Lead = "these" if self.by == "these" else "others"
        return replace(choose_clusters(rows.chatbots, rows.groups, lead), beside=None)


def cells(by: str) -> Iterator[Cell]:
    for population in (NONE, SOME, STRONG, OPPOSED):
        for bots, size in BOTS:
            yield Cell(f"{bots} x {size}", population, (size,) * bots, by)
        yield Cell("8, 10 to 150", population, UNEVEN, by)
    # Over these chatbots there is no relation at all only if they do not differ.
    unrelated = replace(UNRELATED, share=0.0) if by == "these" else UNRELATED
    for bots, size in ((5, 20), (8, 75)):
        yield Cell(f"{bots} x {size}", unrelated, (size,) * bots, by)
    if by == "chatbot":
        for rows in (10, 20, 40, 75, 150):
            yield Cell(f"{rows} rows", NONE, (rows,), "conversation")


def simulate(cell: Cell, simulations: int) -> dict[str, dict[str, float | int | None]]:
    seed = int.from_bytes(hashlib.sha256(cell.key.encode()).digest()[:4], "big")
    sets = SETS if cell.by == "these" else None
    rows = draw(
        cell.population, cell.sizes, np.random.default_rng(seed), simulations, sets
    )
    clusters = cell.clusters(rows)
    _, kept, strata = _left_out(lambda w: {"kept": w}, clusters.names, clusters.strata)
    parts = [np.flatnonzero(weights == 0) for weights in kept["kept"]]
    true = truths(cell.population, cell.sizes, (COMMON, RARE), rows.of_bots)
    benchmark = dict(benchmarked(rows, clusters))
    told = {}
    for name, found in figures(rows, parts):
        made = spans(name, found, strata)
        _check(cell.key, name, made, benchmark[name])
        truth = np.zeros(1) if "difference" in name else true[name]
        told[name] = record(name, made, np.repeat(truth, simulations // len(truth)))
    return told


def _check(key: str, name: str, made: Spans, expected: Estimate) -> None:
    ends = (expected.low, expected.high)
    if expected.low is None:
        ends = (np.nan, np.nan)
    if not np.allclose((made.low[0], made.high[0]), ends, atol=1e-6, equal_nan=True):
        raise SystemExit(
            f"{key}, {name}: {made.low[0]}, {made.high[0]}, and not {expected}"
        )


def record(name: str, made: Spans, truth: Floats) -> dict[str, float | int | None]:
    """Coverage of ``truth``, and of the figure's mean over draws of this size with that truth."""
    given = np.isfinite(made.half)
    n = int(given.sum())
    if not n:
        return {"n": 0, "without": len(given)}
    to = np.vectorize((PLAIN if "difference" in name else scale_of(name.split()[0])).to)
    centre, half = made.centre[given], made.half[given]
    _, alike = np.unique(truth[given], return_inverse=True)
    mean = (np.bincount(alike, centre) / np.bincount(alike))[alike]
    low, high = made.low[given], made.high[given]
    return {
        "n": n,
        "without": len(given) - n,
        "covered": float(np.mean(np.abs(centre - to(truth[given])) <= half)),
        "mean_covered": float(np.mean(np.abs(centre - mean) <= half)),
        "width": float(np.median(high - low)),
        "significant": float(np.mean((low > 0) | (high < 0))),
    }


def benchmarked(rows: Rows, clusters: Clusters) -> Iterator[tuple[str, Estimate]]:
    """The first draw's figures, as the benchmark makes them."""
    human, (one, two) = rows.human[0], (judge[0] for judge in rows.judges)
    bots = rows.chatbots if len(set(rows.chatbots)) > 1 else []
    made = correlations(Values(human, 0.0), Values(one, 0.0), bots)
    yield from with_intervals(
        made,
        correlation_statistic(Values(human, 0.0), Values(one, 0.0), bots),
        clusters,
    ).items()
    yield (
        "spearman difference",
        paired_difference(
            spearman(human, one), spearman(human, two), "spearman", clusters
        ).estimate,
    )
    for share in (COMMON, RARE):
        labels = present(human, share)[:, None]
        judges = [present(score, share) for score in (one, two)]
        made = classification(judges[0], labels)
        statistics = [classification_statistic(judge, labels) for judge in judges]
        found = with_intervals(made, statistics[0], clusters)
        for name in ("f1_present", "f1_absent"):
            yield f"{name} {share}", found[name]
        difference = paired_difference(*statistics, "f1_present", clusters)
        yield f"f1_present difference {share}", difference.estimate
        pair = np.column_stack([labels[:, 0], judges[0]])
        yield f"alpha {share}", _alpha(pair, "nominal", clusters)
    yield (
        "alpha 1-5",
        _alpha(np.column_stack([graded(human), graded(one)]), "ordinal", clusters),
    )


def spearman(human: Floats, score: Floats) -> Statistic:
    return lambda weights: {
        "spearman": weighted_spearman(Values(human, 0.0), Values(score, 0.0), weights)
    }


def _alpha(values: Floats, kind: str, clusters: Clusters) -> Estimate:
    alpha = alpha_statistic(values, kind)
    value = float(alpha(np.ones((1, len(values))))[0])
    if not np.isfinite(value) or no_interval(values, kind):
        return Estimate(None, reason="undefined, or no interval")
    plain = {"alpha": Estimate(value)}
    return with_intervals(plain, lambda w: {"alpha": alpha(w)}, clusters)["alpha"]


def run(path: Path, by: str, simulations: int, seconds: float) -> None:
    known = {(line["key"], line["simulations"]) for line in _read(path)}
    start = time.monotonic()
    for cell in cells(by):
        if (cell.key, simulations) in known:
            continue
        if time.monotonic() - start > seconds:
            print("more to do: run it again")
            return
        began = time.monotonic()
        line = {
            "key": cell.key,
            "population": cell.population.name,
            "label": cell.label,
            "by": cell.by,
            "simulations": simulations,
            "figures": simulate(cell, simulations),
        }
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{cell.key}: {time.monotonic() - began:.0f} s", flush=True)


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open()] if path.exists() else []


COLUMNS = {
    "spearman": "ρ",
    "pearson": "r",
    "kendall": "τ-b",
    "within_system": "ρ within",
    f"f1_present {COMMON}": "F1+ 30%",
    f"f1_present {RARE}": "F1+ 5%",
    f"f1_absent {COMMON}": "F1− 30%",
    f"f1_absent {RARE}": "F1− 5%",
    f"alpha {COMMON}": "α 30%",
    f"alpha {RARE}": "α 5%",
    "alpha 1-5": "α 1–5",
}
TESTS = {
    "spearman": "ρ = 0",
    "spearman difference": "equal ρ",
    f"f1_present difference {COMMON}": "equal F1+ 30%",
    f"f1_present difference {RARE}": "equal F1+ 5%",
}


def table(lines: list[dict[str, Any]]) -> str:
    parts = [_summary(lines), "### Coverage of the truth\n", _grid(lines, "covered")]
    if others := [line for line in lines if line["by"] == "chatbot"]:
        parts += [
            "### Coverage of the mean over as many chatbots\n",
            _grid(others, "mean_covered"),
        ]
    return "\n".join([*parts, "### False positives at 5%\n", _tests(lines)])


def _summary(lines: list[dict[str, Any]]) -> str:
    """How many cells hold: of each figure for these chatbots, by what chatbots add for others."""
    these = lines[0]["by"] == "these"
    found: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        single = line["by"] == "conversation"
        for name, figure in line["figures"].items():
            told = line["population"] != UNRELATED.name and name in COLUMNS
            if told and figure["n"] >= line["simulations"] / 10:
                row = (
                    COLUMNS[name]
                    if these
                    else "single rows"
                    if single
                    else line["population"]
                )
                found.setdefault(row, []).append(
                    (figure["covered"], figure["mean_covered"])
                )
    heads = (
        "figure" if these else "chatbots differ",
        "cells",
        "93–97%",
        "above",
        "below",
    )
    heads += ("lowest", "highest", "of the mean: below", "lowest")
    out = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row, shares in found.items():
        held, mean = np.array(shares).T
        above, below = (held > 0.97).sum(), (held < 0.93).sum()
        counts = (len(held), len(held) - above - below, above, below)
        ends = f"{held.min():.3f} | {held.max():.3f} | {(mean < 0.93).sum()} | {mean.min():.3f}"
        out.append(f"| {row} | {' | '.join(map(str, counts))} | {ends} |")
    return "\n".join(out) + "\n"


def _grid(lines: list[dict[str, Any]], what: str) -> str:
    out = ["| chatbots differ | rows | " + " | ".join(COLUMNS.values()) + " |"]
    out.append("|---|---|" + "---|" * len(COLUMNS))
    for line in lines:
        if line["population"] != UNRELATED.name:
            shown = [_cell(line["figures"].get(name), what) for name in COLUMNS]
            out.append(
                f"| {line['population']} | {line['label']} | "
                + " | ".join(shown)
                + " |"
            )
    return "\n".join(out) + "\n"


def _cell(found: dict[str, Any] | None, what: str) -> str:
    """Coverage, and behind it the share of simulations without an interval."""
    if found is None:
        return "–"
    total = found["n"] + found["without"]
    if found["n"] < total / 10:
        return f"none in {found['without'] / total:.0%}"
    none = (
        f" ({found['without'] / total:.0%} none)"
        if found["without"] >= total / 100
        else ""
    )
    return f"{found[what]:.3f}{none}"


def _tests(lines: list[dict[str, Any]]) -> str:
    out = ["| chatbots differ | rows | " + " | ".join(TESTS.values()) + " |"]
    out.append("|---|---|" + "---|" * len(TESTS))
    for line in lines:
        nothing = line["population"] == UNRELATED.name
        shown = [
            _cell(line["figures"].get(name), "significant")
            if nothing or "difference" in name
            else "–"
            for name in TESTS
        ]
        out.append(
            f"| {line['population']} | {line['label']} | " + " | ".join(shown) + " |"
        )
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--interval-for", choices=("these", "others"), default="these")
    parser.add_argument(
        "--simulations", type=int, default=1000, help="a multiple of 10"
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument(
        "--keep", action="store_true", help="write the document's tables"
    )
    asked = parser.parse_args()
    these = asked.interval_for == "these"
    if asked.what == "run":
        run(
            asked.results,
            "these" if these else "chatbot",
            asked.simulations,
            asked.seconds,
        )
        return
    lines = [line for line in _read(asked.results) if (line["by"] == "these") == these]
    keep(
        ("intervals_these" if these else "intervals") if asked.keep else None,
        table(lines),
    )


if __name__ == "__main__":
    main()
