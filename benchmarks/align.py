"""How good `medal align` is if sets with human ratings are taken as a user's labels.

python benchmarks/align.py run RESULTS.jsonl [--judges boxed length FOLDER] [--seconds 280]
python benchmarks/align.py table RESULTS.jsonl [--keep]

``run`` goes through the cells that RESULTS.jsonl lacks (a draw, a set, a judge, a number of labels)
and stops after about ``--seconds``; run it again for the rest. Each draws labels with a seed, makes
the proof from them as `medal align` does, and measures the fitted judge on the rows not drawn, at
least 50. Judges' scores and sentence vectors are read once, into RESULTS.SET.npz. A FOLDER is
predictions/JUDGE of `medal benchmark`, the stored scores of a judge: without its prompts to change.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from into_docs import keep

from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.eval.align.align import held_together, read_inputs
from medal_judges.eval.align.proof import FOLDS, INFLATION, Material, gain_over, prove
from medal_judges.eval.metaeval.alignment import answer_matrix
from medal_judges.models.hybrid.members import MemberConfig, open_member
from medal_judges.stats.correlation import Floats

SETS = {  # and the name of its file of stored scores
    "conture:dialogue": "conture",
    "dialogue_eval:test": "dialogue_eval test",
    "dstc9:test": "dstc9 test",
    "fed:dialogue": "fed",
}
SIZES = (30, 50, 100, 200)
LEAST = 50  # rows not drawn


@cache
def material_of(name: str, judge: str, beside: Path) -> tuple[Material, Floats, float]:
    """The rows of a set with the judge's scores, people's answers and the width of their scale."""
    rows = [r for r in load_spec(name) if (q := r.rating("overall")) is not None and q.given]
    people = answer_matrix(rows, "overall")
    # dialogue_eval has standardised scores: a user would state their ends.
    ends = (float(np.floor(np.nanmin(people))), float(np.ceil(np.nanmax(people))))
    low, high = rows[0].scales["overall"] or ends
    file = beside.with_suffix(f".{name.replace(':', '_')}.npz")
    if not file.is_file():
        member = open_member("judge", MemberConfig(path="boxed"))
        _, _, scores, _, vectors = read_inputs(member, ["overall"], rows)
        np.savez(file, scores=scores, vectors=vectors)
    saved = np.load(file)
    scores, inputs = saved["scores"], ["judge:overall", "repetition:overall", "length:overall"]
    if judge != "boxed":
        given, own = Path(judge) / f"{SETS[name]}.jsonl", scores[:, 2]
        if judge != "length":  # on the scale from 1 to 5 of shipped judges
            lines = given.read_text().splitlines() if given.is_file() else []
            stored = {one["id"]: one["scores"]["overall"] for one in map(json.loads, lines)}
            values = [stored.get(row.dialogue.id) for row in rows]
            own = np.array([np.nan if v is None else (v - 1) / 4 for v in values])
        inputs[0:1] = ["judge:overall", "boxed:overall"]
        scores = np.column_stack([own, scores])
    whole = np.flatnonzero(np.isfinite(scores).all(axis=1))
    rows, people = [rows[i] for i in whole], people[whole]
    units = (np.nanmean(people, axis=1) - low) / (high - low)
    material = Material(
        tuple(inputs),
        *(scores[whole], saved["vectors"][whole], units),
        held_together(rows) if rows else np.array([]),
        np.array([row.group for row in rows]),
        0,
    )
    return material, people, high - low


def error(units: Floats, targets: Floats) -> float:
    return float(np.sqrt(np.mean((units - targets) ** 2)))


def run(results: Path, judges: Sequence[str], draws: int, seconds: float) -> None:
    """Adds the cells that are missing."""
    started = time.monotonic()
    lines = results.read_text().splitlines() if results.is_file() else []
    there = {tuple(json.loads(line)["cell"]) for line in lines}
    for draw, name, judge, size in product(range(draws), SETS, judges, SIZES):
        cell = (draw, name, Path(judge).name, size)
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
        own, y, fitted = whole.scores[:, 0], whole.targets, proof.fit.units(whole, rest)
        before, after = span * error(own[rest], y[rest]), span * error(fitted, y[rest])
        _, spread = gain_over(span, y[rest], whole.contexts[rest], fitted, own[rest])
        record = {"cell": cell, "way": proof.way, "kept": proof.kept, "span": span}
        record |= {"promised": proof.gain.value, "low": proof.gain.low, "high": proof.gain.high}
        # Of a fixed judge, without what gain_over adds for the folds.
        record |= {"before": before, "after": after, "error": spread / INFLATION**0.5}
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
            "kept | kept, worse on the rest | interval holds | holds, both errors | "
            "promised too much | promised too little |", "| --- " * 13 + "|"]  # fmt: skip
    for (name, judge, size), records in sorted(cells.items(), key=str):
        gains = [record["before"] - record["after"] for record in records]
        kept = [gain for gain, record in zip(gains, records, strict=True) if record["kept"]]
        held, much, little = list[bool](), list[bool](), list[bool]()
        for gain, record in zip(gains, records, strict=True):
            promised, error = record["promised"], 1.96 * record["error"]
            low, high = record["low"] or 0.0, record["high"] or 0.0
            held.append(low <= gain <= high)
            # The gain on the rest has an error of its own.
            much.append(promised - gain > np.hypot(promised - low, error))
            little.append(gain - promised > np.hypot(high - promised, error))
        means = [np.mean([r[key] for r in records]) for key in ("before", "promised")]
        several = name == "all"  # of sets with different scales
        shown = ["" if several else f"{value:.2f}" for value in (*means, np.mean(gains))]
        counts = [f"{len(kept)}", f"{sum(gain < 0 for gain in kept)}"]
        counts += [f"{np.mean(held):.1%}", f"{1 - np.mean(much) - np.mean(little):.1%}"]
        counts += [str(sum(much)), str(sum(little))]
        rows.append(
            "| " + " | ".join([name, judge, str(size), str(len(records)), *shown, *counts]) + " |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--judges", nargs="+", default=["boxed", "length"])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    if given.what == "run":
        run(given.results, given.judges, given.draws, given.seconds)
    else:
        keep("align" if given.keep else None, table(given.results))


if __name__ == "__main__":
    main()
