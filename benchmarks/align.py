"""How good `medal align` is if sets with human ratings are taken as a user's labels, and how often
it is taken in by labels that are shuffled.

python benchmarks/align.py RESULTS.jsonl [--draws 10] [--keep]

Each cell (a draw, a set, a judge, a kind and a number of labels, shuffled or real) draws labels
with a seed and makes the proof as `medal align` does. The fitted judge of real labels is
measured on the rows not drawn, at least 50. RESULTS.jsonl gets a line a cell; a second run adds the
missing ones.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from into_docs import keep

from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.eval.align.proof import (
    INFLATION,
    MEAN,
    Fit,
    Material,
    gain_over,
    prove,
)
from medal_judges.eval.align.run import read_scores
from medal_judges.eval.metaeval.alignment import answer_matrix
from medal_judges.models.hybrid.judge import MemberConfig, open_member

SETS = ("conture:dialogue", "dialogue_eval:test", "dstc9:test", "fed:dialogue")
JUDGES = ("boxed", "length")
SIZES = (20, 50, 100, 200)
KINDS = ("binary", "1 to 5")
LEAST = 50  # rows not drawn, with real labels
MOST = 400  # rows of a set


@cache
def material_of(name: str, judge: str) -> Material:
    """Returns rows of a set with the judge's scores and people's mean, on a scale of five stars."""
    rows = [row for row in load_spec(name) if row.has_label("overall")]
    order = np.random.default_rng(0).permutation(len(rows))[:MOST]
    rows = [rows[i] for i in order.tolist()]
    people = answer_matrix(rows, "overall")
    # dialogue_eval has standardised scores: a user would state their ends.
    ends = float(np.floor(np.nanmin(people))), float(np.ceil(np.nanmax(people)))
    low, high = rows[0].scales["overall"] or ends
    members = {"judge": open_member("judge", MemberConfig(path=judge))}
    for other in {"boxed", "repetition", "length"} - {judge, "length"} | {"length"}:
        members[other] = open_member(other, MemberConfig(path=other))
    scores = read_scores(members, ["overall"], rows)
    targets = (np.nanmean(people, axis=1) - low) / (high - low)
    contexts = np.array([row.group for row in rows])
    matrix = np.column_stack(list(scores.values()))
    return Material(tuple(scores), matrix, targets[:, None], contexts, 0, 4.0)


def part(whole: Material, rows: np.ndarray) -> Material:
    return replace(
        whole,
        scores=whole.scores[rows],
        ratings=whole.ratings[rows],
        contexts=whole.contexts[rows],
    )


def measured(cell: tuple[Any, ...]) -> dict[str, Any] | None:
    """Returns what the proof of a cell says and, for real labels, the gain on the rest; None if the
    set has too few rows or the drawn labels are equal."""
    draw, name, judge, kind, size, shuffled = cell
    whole = material_of(name, judge)
    labels = whole.targets
    if len(labels) < size + (0 if shuffled else LEAST):
        return None
    labels = np.round(labels * 4) / 4
    if kind == "binary":
        labels = (whole.targets > np.median(whole.targets)).astype(float)
        whole = replace(whole, span=1.0)
    rng = np.random.default_rng([draw, size])
    order = rng.permutation(len(labels))
    drawn, rest = order[:size], order[size:]
    if shuffled:
        labels[drawn] = rng.permutation(labels[drawn])
    whole = replace(whole, ratings=labels[:, None])
    learnt, other = part(whole, drawn), part(whole, rest)
    if len(np.unique(learnt.targets)) == 1:
        return None
    proof = prove(learnt)
    gain = proof.gain
    record: dict[str, Any] = {"cell": cell, "kept": proof.kept}
    record |= {"promised": gain.value, "low": gain.low, "high": gain.high}
    if shuffled:
        return record
    base = Fit(() if proof.base == MEAN else (0,)).fit(learnt.scores, learnt.targets)
    columns = [whole.inputs.index(key) for key in proof.line.inputs]
    aligned = proof.line(other.scores[:, columns])
    squares = [
        (units - other.targets) ** 2 for units in (aligned, base.predict(other.scores))
    ]
    on_rest, error = gain_over(other, *squares)
    # Of a fixed judge, without what gain_over adds for the folds.
    return record | {"gain": on_rest.value, "error": error / INFLATION**0.5}


def table(results: Path) -> str:
    """One line for each kind and number of labels, and one of all."""
    records = pd.DataFrame(map(json.loads, results.read_text().splitlines()))
    names = ["draw", "set", "judge", "kind", "labels", "shuffled"]
    records[names] = records.pop("cell").tolist()
    records = records.astype({"shuffled": bool, "kept": bool})
    inside = (records.low <= records.gain) & (records.gain <= records.high)
    end = np.where(records.gain < records.promised, records.low, records.high)
    both = np.hypot(records.promised - end, 1.96 * records.error)
    records["inside"] = inside.astype(float)
    records["agrees"] = ((records.gain - records.promised).abs() <= both).astype(float)
    lines = [
        "| kind of labels | labels | shuffled: draws | shuffled: kept | real: draws | real: kept "
        "| gain promised | gain on the rest | kept, worse on the rest | interval holds "
        "| holds, both errors |",
        "| --- " * 11 + "|",
    ]
    groups = [(*key, rows) for key, rows in records.groupby(["kind", "labels"])]
    groups += [(kind, "all", rows) for kind, rows in records.groupby("kind")]
    for kind, size, rows in groups:
        chance, real = rows[rows.shuffled], rows[~rows.shuffled]
        spans = real[real.low.notna()]
        lines.append(
            f"| {kind} | {size} | {len(chance)} | {chance.kept.mean():.1%} | {len(real)} | "
            f"{real.kept.mean():.1%} | {real.promised.mean():.3f} | {real.gain.mean():.3f} | "
            f"{(real.kept & (real.gain < 0)).sum()} | {spans.inside.mean():.1%} | "
            f"{spans.agrees.mean():.1%} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    lines = (
        options.results.read_text().splitlines() if options.results.is_file() else []
    )
    done = {tuple(json.loads(line)["cell"]) for line in lines}
    cells = product(range(options.draws), SETS, JUDGES, KINDS, SIZES, (True, False))
    for cell in cells:
        if cell not in done and (record := measured(cell)) is not None:
            with options.results.open("a") as stream:
                stream.write(json.dumps(record) + "\n")
    keep("align" if options.keep else None, table(options.results))


if __name__ == "__main__":
    main()
