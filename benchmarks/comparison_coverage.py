"""How often the intervals of ``medal compare`` and ``medal report`` hold, with known truth.

python benchmarks/comparison_coverage.py run RESULTS.jsonl [--simulations 2000] [--seconds 300]
python benchmarks/comparison_coverage.py table RESULTS.jsonl [--keep]

``run`` goes through the cells that RESULTS.jsonl lacks and stops after about ``--seconds``; run it
again for the rest. People's opinion of a dialogue is the system's mean, plus the context (30% of
the variance), plus the dialogue; the judge follows it (correlation 0.6 within a system) with a mean
of its own. ``paired``: all systems met the same contexts, once each; ``repeats``: each system met
contexts of its own, five dialogues in each. In ``biased`` cells the judge gives the first system
0.3 more (in standard deviations of people's opinion), and people labelled a few dialogues of each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from into_docs import keep

from medal_judges.stats.difference import holm_p_values
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import Estimate
from medal_judges.stats.means import Sample, estimate_mean, estimate_share
from medal_judges.stats.ppi import LabelledSample, corrected_mean, corrected_share
from medal_judges.stats.systems import SystemDifference, SystemRows, system_difference

CONTEXT = 0.3  # share of people's variance that contexts have
FOLLOWS, BIAS = 0.6, 0.3
SHARE = 0.1  # of dialogues with an issue


@dataclass(frozen=True)
class Cell:
    """``systems`` with ``size`` dialogues each, ``labelled`` of them by people."""

    systems: int
    size: int
    design: str
    labelled: int = 0

    @property
    def key(self) -> str:
        return f"{self.systems} x {self.size} {self.design} {self.labelled}"


def cells() -> Iterator[Cell]:
    for systems in (2, 5):
        for size, labelled in ((50, 10), (200, 20)):
            for design in ("paired", "repeats"):
                yield Cell(systems, size, design)
                yield Cell(systems, size, f"{design}, biased", labelled)


@dataclass(frozen=True)
class Draw:
    """One run: the rows of each system, and what is true of people's and the judge's means."""

    rows: list[SystemRows]
    human: np.ndarray
    judge: np.ndarray
    issues: list[np.ndarray]
    found: list[np.ndarray]


def draw(cell: Cell, rng: np.random.Generator) -> Draw:
    """Systems differ by 0.3 standard deviations; every second run has two equal ones in front."""
    people, judge = rng.normal(0, 0.3, (2, cell.systems))
    if rng.random() < 0.5:
        people[1], judge[1] = people[0], judge[0]
    if cell.labelled:
        judge = people.copy()
        judge[0] += BIAS
    shared = rng.normal(0, np.sqrt(CONTEXT), cell.size)
    rows, issues, found = [], [], []
    for k in range(cell.systems):
        context = np.arange(cell.size)
        if cell.design.startswith("repeats"):
            context = np.arange(cell.size) // 5 + k * cell.size
            own = rng.normal(0, np.sqrt(CONTEXT), cell.size)[np.arange(cell.size) // 5]
        else:
            own = shared
        opinion = own + rng.normal(0, np.sqrt(1 - CONTEXT), cell.size)
        score = FOLLOWS * opinion + rng.normal(0, np.sqrt(1 - FOLLOWS**2), cell.size)
        labels = None
        if cell.labelled:
            labels = np.full(cell.size, np.nan)
            chosen = rng.choice(cell.size, cell.labelled, replace=False)
            labels[chosen] = opinion[chosen] + people[k]
        # numbers instead of names: the same contexts, sorted faster
        rows.append(SystemRows(Values(score + judge[k], 0.0), context, None, labels))
        issue = (opinion > 1.2815515655446004).astype(float)
        issues.append(issue)
        wrong = rng.random(cell.size) < np.where(issue > 0, 0.3, 0.05)
        found.append(np.where(wrong, 1 - issue, issue))
    return Draw(rows, people, judge, issues, found)


def simulate(cell: Cell, simulations: int) -> dict[str, float]:
    """Shares of runs, or of pairs and systems in them, in which an interval holds."""
    seed = int.from_bytes(hashlib.sha256(cell.key.encode()).digest()[:4], "big")
    rng = np.random.default_rng(seed)
    told: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        told.setdefault(name, []).append(value)

    for _ in range(simulations):
        one = draw(cell, rng)
        pairs = {
            (i, j): system_difference(one.rows[i], one.rows[j])
            for i, j in combinations(range(cell.systems), 2)
        }
        for (i, j), found in pairs.items():
            if cell.labelled:
                truth = one.human[i] - one.human[j]
                assert found.corrected is not None
                note("plain", held(found.judge.estimate, truth))
                note("corrected", held(found.corrected.estimate, truth))
                if i == 0:
                    note("plain, favoured", held(found.judge.estimate, truth))
                    note("corrected, favoured", held(found.corrected.estimate, truth))
            else:
                note(
                    "difference",
                    held(found.judge.estimate, one.judge[i] - one.judge[j]),
                )
        truth = one.human if cell.labelled else one.judge
        for name, value in whole(pairs, one, truth, bool(cell.labelled)).items():
            note(name, value)
        k = int(rng.integers(cell.systems))
        for name, value in alone(cell, one, k, truth[k]).items():
            note(name, value)
    return {name: float(np.nanmean(values)) for name, values in told.items()}


def held(estimate: Estimate, truth: float) -> float:
    if estimate.low is None or estimate.high is None:
        return float("nan")
    return float(estimate.low <= truth <= estimate.high)


def whole(
    pairs: dict[tuple[int, int], SystemDifference],
    one: Draw,
    truth: np.ndarray,
    labelled: bool,
) -> dict[str, float]:
    """Whether any equal pair is told apart after Holm."""
    tested = [found.corrected if labelled else found.judge for found in pairs.values()]
    p_values = dict(zip(pairs, holm_p_values([t.p_value for t in tested]), strict=True))  # type: ignore[union-attr]
    equal = [
        p for (i, j), p in p_values.items() if truth[i] == truth[j] and p is not None
    ]
    return {"equal told apart": float(min(equal) < 0.05)} if equal else {}


def alone(cell: Cell, one: Draw, k: int, truth: float) -> dict[str, float]:
    """The mean and a share of one system, as a report has them."""
    rows = one.rows[k]
    sample = Sample(Values(one.found[k], 0.0), rows.contexts)
    if not cell.labelled:
        flags = Sample(Values(one.issues[k], 0.0), rows.contexts)
        mean = estimate_mean(Sample(rows.values, rows.contexts))
        return {"mean": held(mean, truth), "share": held(estimate_share(flags), SHARE)}
    labels = np.where(np.isnan(rows.labels), np.nan, one.issues[k])  # type: ignore[arg-type]
    share = corrected_share(LabelledSample(sample, labels))
    return {
        "mean": held(corrected_mean(rows.full_sample()), truth),
        "share": held(share, SHARE),
    }


def run(results: Path, simulations: int, seconds: float) -> None:
    done = (
        {json.loads(line)["key"] for line in results.open()}
        if results.exists()
        else set()
    )
    start = time.perf_counter()
    for cell in cells():
        if cell.key in done:
            continue
        if time.perf_counter() - start > seconds:
            print("more cells are left: run it again")
            return
        record = {"key": cell.key, "simulations": simulations, **asdict(cell)}
        record["told"] = simulate(cell, simulations)
        with results.open("a") as stream:
            stream.write(json.dumps(record) + "\n")
        print(cell.key, {k: round(v, 3) for k, v in record["told"].items()}, flush=True)


PLAIN = {n: n for n in ("difference", "mean", "share", "equal told apart")}
BIASED = {
    "plain, favoured": "without ratings",
    "corrected, favoured": "with ratings",
    "corrected": "all pairs",
    **{n: n for n in ("mean", "share", "equal told apart")},
}


def table(results: Path) -> str:
    """Both tables as Markdown, cells in their order."""
    told = {record["key"]: record for record in map(json.loads, results.open())}
    records = [told[cell.key] for cell in cells() if cell.key in told]
    parts = []
    for names, chosen in (
        (PLAIN, [r for r in records if not r["labelled"]]),
        (BIASED, [r for r in records if r["labelled"]]),
    ):
        about = [
            "chatbots",
            "dialogues",
            "contexts",
            *(["labelled"] if names is BIASED else []),
        ]
        lines = [f"| {' | '.join([*about, *names.values()])} |"]
        lines.append("|" + "---|" * (len(about) + len(names)))
        for r in chosen:
            design = r["design"].removesuffix(", biased")
            row = [
                r["systems"],
                r["size"],
                design,
                *([r["labelled"]] if names is BIASED else []),
            ]
            row += [f"{r['told'][n]:.3f}" if n in r["told"] else "–" for n in names]
            lines.append(f"| {' | '.join(map(str, row))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("results", type=Path)
    parser.add_argument(
        "--keep", action="store_true", help="write the document's tables"
    )
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=300)
    args = parser.parse_args()
    if args.what == "run":
        run(args.results, args.simulations, args.seconds)
    else:
        keep("comparison_coverage" if args.keep else None, table(args.results))


if __name__ == "__main__":
    main()
