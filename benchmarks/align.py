"""How good `medal align` is if sets with human ratings are taken as a user's labels.

python benchmarks/align.py run RESULTS.jsonl [--draws 20] [--seconds 280]
python benchmarks/align.py table RESULTS.jsonl [--keep]

``run`` goes through the cells that RESULTS.jsonl lacks (a draw, a set, a judge, a number of labels)
and stops after about ``--seconds``; run it again for the rest. Each draws labels with a seed, makes
the proof from them as `medal align` does, and measures the fitted judge on the rows not drawn, at
least 50. Judges' scores and sentence vectors are read once, into RESULTS.SET.JUDGE.npz.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from into_docs import keep

from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.eval.align.align import held_together, read_inputs
from medal_judges.eval.align.proof import FOLDS, Material, prove
from medal_judges.eval.metaeval.alignment import answer_matrix
from medal_judges.models.hybrid.members import MemberConfig, open_member
from medal_judges.stats.correlation import Floats

SETS = ("conture:dialogue", "dialogue_eval:test", "dstc9:test", "fed:dialogue")
JUDGES, SIZES = ("boxed", "length"), (30, 50, 100, 200)
LEAST = 50  # rows not drawn


@cache
def material_of(name: str, judge: str, beside: Path) -> tuple[Material, Floats, float]:
    """The rows of a set with the judge's scores, people's answers and the width of their scale."""
    rows = [r for r in load_spec(name) if (q := r.rating("overall")) is not None and q.given]
    people = answer_matrix(rows, "overall")
    # dialogue_eval has standardised scores: a user would state their ends.
    ends = (float(np.floor(np.nanmin(people))), float(np.ceil(np.nanmax(people))))
    low, high = rows[0].scales["overall"] or ends
    file = beside.with_suffix(f".{name.replace(':', '_')}.{judge}.npz")
    if not file.is_file():
        member = open_member("judge", MemberConfig(path=judge))
        _, inputs, scores, _, vectors = read_inputs(member, ["overall"], rows)
        np.savez(file, inputs=np.array(inputs), scores=scores, vectors=vectors)
    saved = np.load(file)
    units = (np.nanmean(people, axis=1) - low) / (high - low)
    whole = Material(
        tuple(saved["inputs"].tolist()),
        *(saved["scores"], saved["vectors"], units, held_together(rows)),
        np.array([row.group for row in rows]),
        0,
    )
    return whole, people, high - low


def error(units: Floats, targets: Floats) -> float:
    return float(np.sqrt(np.mean((units - targets) ** 2)))


def run(results: Path, draws: int, seconds: float) -> None:
    """Adds the cells that are missing."""
    started = time.monotonic()
    lines = results.read_text().splitlines() if results.is_file() else []
    there = {tuple(json.loads(line)["cell"]) for line in lines}
    for cell in product(range(draws), SETS, JUDGES, SIZES):
        draw, name, judge, size = cell
        if cell in there:
            continue
        whole, people, span = material_of(name, judge, results)
        if len(whole.targets) < size + LEAST:
            continue
        if time.monotonic() - started > seconds:
            print(f"{len(there)} cells so far")
            return
        order = np.random.default_rng([draw, size]).permutation(len(whole.targets))
        mine, rest = order[:size], order[size:]
        arrays = (whole.scores, whole.vectors, whole.targets, whole.groups, whole.contexts)
        drawn = Material(whole.inputs, *(array[mine] for array in arrays), whole.own)
        proof = prove([drawn] * (FOLDS + 1), span, people[mine])
        before = span * error(whole.scores[rest, whole.own], whole.targets[rest])
        after = span * error(proof.fit.units(whole, rest), whole.targets[rest])
        record = {"cell": cell, "way": proof.way, "kept": proof.kept, "span": span}
        record |= {"promised": proof.gain.value, "low": proof.gain.low, "high": proof.gain.high}
        record |= {"before": before, "after": after}
        there.add(cell)
        with results.open("a") as stream:
            stream.write(json.dumps(record) + "\n")
    print("all cells are there")


def table(results: Path) -> str:
    """One line a set, judge and number of labels, and one of all."""
    cells: dict[tuple[str, str, object], list[dict[str, Any]]] = {}
    for line in results.read_text().splitlines():
        record = json.loads(line)
        _, name, judge, size = record["cell"]
        for key in ((name, judge, size), ("all", "all", "all")):
            cells.setdefault(key, []).append(record)
    rows = ["| set | judge | labels | draws | error as it is | gain promised | gain on the rest | "
            "kept | kept, worse on the rest | interval holds |", "| --- " * 10 + "|"]  # fmt: skip
    for (name, judge, size), records in sorted(cells.items(), key=str):
        gains = [record["before"] - record["after"] for record in records]
        kept = [gain for gain, record in zip(gains, records, strict=True) if record["kept"]]
        held = [
            (record["low"] or 0.0) <= gain <= (record["high"] or 0.0)
            for gain, record in zip(gains, records, strict=True)
        ]
        means = [np.mean([r[key] for r in records]) for key in ("before", "promised")]
        several = name == "all"  # of sets with different scales
        shown = ["" if several else f"{value:.2f}" for value in (*means, np.mean(gains))]
        counts = [f"{len(kept)}", f"{sum(gain < 0 for gain in kept)}", f"{np.mean(held):.1%}"]
        rows.append(
            "| " + " | ".join([name, judge, str(size), str(len(records)), *shown, *counts]) + " |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    if given.what == "run":
        run(given.results, given.draws, given.seconds)
    else:
        keep("align" if given.keep else None, table(given.results))


if __name__ == "__main__":
    main()
