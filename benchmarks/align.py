"""How good `medal align` is if sets with human ratings are taken as a user's labels, and how often
it is taken in by labels that are shuffled.

python benchmarks/align.py run RESULTS.jsonl [--judges boxed length FOLDER] [--seconds 280]
python benchmarks/align.py table RESULTS.jsonl [--keep]

``run`` goes through the cells that RESULTS.jsonl lacks (a draw, a set, a judge, a kind of labels, a
number of labels, shuffled or real) and stops after about ``--seconds``; run it again for the rest.
Each draws labels with a seed and makes the proof from them as `medal align` does. The fitted judge
of real labels is measured on the rows not drawn, at least 50. Judges' scores and sentence vectors
are read once, into RESULTS.SET.npz. A FOLDER is predictions/JUDGE of `medal benchmark`, the stored
scores of a judge: without its prompts to change.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from into_docs import keep

from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.eval.align.labels import held_out_groups
from medal_judges.eval.align.proof import (
    FOLDS,
    INFLATION,
    MEAN,
    Material,
    Measure,
    gain_over,
    line,
    prove,
)
from medal_judges.eval.align.run import read_inputs
from medal_judges.eval.metaeval.alignment import answer_matrix
from medal_judges.models.hybrid.judge import MemberConfig, open_member

SETS = {  # and the name of its file of stored scores
    "conture:dialogue": "conture",
    "dialogue_eval:test": "dialogue_eval test",
    "dstc9:test": "dstc9 test",
    "fed:dialogue": "fed",
}
SIZES = (20, 50, 100, 200)
KINDS = ("binary", "1 to 5")
LEAST = 50  # rows not drawn, with real labels
# draw, set, judge, kind, labels, whether shuffled
Cell = tuple[int, str, str, str, int, bool]


@cache
def material_of(name: str, judge: str, beside: Path) -> Material:
    """Returns the rows of a set with the judge's scores and people's mean."""
    rows = [row for row in load_spec(name) if row.has_label("overall")]
    people = answer_matrix(rows, "overall")
    # dialogue_eval has standardised scores: a user would state their ends.
    ends = (float(np.floor(np.nanmin(people))), float(np.ceil(np.nanmax(people))))
    low, high = rows[0].scales["overall"] or ends
    file = beside.with_suffix(f".{name.replace(':', '_')}.npz")
    if not file.is_file():
        member = open_member("judge", MemberConfig(path="boxed"))
        inputs = read_inputs(member, ["overall"], rows)
        scores, vectors = inputs.scores, inputs.vectors
        np.savez(file, scores=scores, vectors=vectors)
    saved = np.load(file)
    scores, inputs = (
        saved["scores"],
        ["judge:overall", "repetition:overall", "length:overall"],
    )
    if judge != "boxed":
        given, own = Path(judge) / f"{SETS[name]}.jsonl", scores[:, 2]
        if judge != "length":  # on the scale from 1 to 5 of shipped judges
            lines = given.read_text().splitlines() if given.is_file() else []
            stored = {
                one["id"]: one["scores"]["overall"] for one in map(json.loads, lines)
            }
            values = [stored.get(row.dialogue.id) for row in rows]
            own = np.array([np.nan if v is None else (v - 1) / 4 for v in values])
        inputs[0:1] = ["judge:overall", "boxed:overall"]
        scores = np.column_stack([own, scores])
    whole = np.flatnonzero(np.isfinite(scores).all(axis=1))
    rows, people = [rows[i] for i in whole], people[whole]
    units = (np.nanmean(people, axis=1) - low) / (high - low)
    return Material(
        tuple(inputs),
        *(scores[whole], saved["vectors"][whole], units),
        held_out_groups(rows) if rows else np.array([]),
        np.array([row.group for row in rows]),
        0,
        4.0,
    )


def labelled(whole: Material, kind: str) -> Material:
    """Returns the rows with labels as a user gives them: whether people's mean is above that of
    half the set, or its nearest star."""
    if kind == "binary":
        labels = (whole.targets > np.median(whole.targets)).astype(float)
        return replace(whole, targets=labels, span=1.0, measure=Measure.LOG_LOSS)
    return replace(whole, targets=np.round(whole.targets * 4) / 4)


def part(whole: Material, rows: np.ndarray) -> Material:
    arrays = ("scores", "vectors", "targets", "groups", "contexts")
    return replace(whole, **{name: getattr(whole, name)[rows] for name in arrays})


def rotated(whole: Material, rows: np.ndarray) -> Material:
    """Returns the material with vectors in the space of those of ``rows``: any fit on these rows
    gives the same scores, sooner."""
    drawn = whole.vectors[rows]
    _, _, basis = np.linalg.svd(drawn - drawn.mean(axis=0), full_matrices=False)
    return replace(whole, vectors=(whole.vectors - drawn.mean(axis=0)) @ basis.T)


def draw_labels(
    cell: Cell, whole: Material
) -> tuple[Material, np.ndarray, np.ndarray] | None:
    """Returns the material, the rows drawn and the others; None if a cell has too few rows or one
    kind of label."""
    draw, _, _, kind, size, shuffled = cell
    if len(whole.targets) < size + (0 if shuffled else LEAST):
        return None
    rng = np.random.default_rng([draw, size])
    order = rng.permutation(len(whole.targets))
    drawn, rest = order[:size], order[size:]
    material = labelled(whole, kind)
    if shuffled:
        targets = material.targets.copy()
        targets[drawn] = rng.permutation(targets[drawn])
        material = replace(material, targets=targets)
    if len(np.unique(material.targets[drawn])) == 1:
        return None
    return material, drawn, rest


def measured(cell: Cell, beside: Path, judge: str) -> dict[str, Any] | None:
    """Returns what the proof of a cell says and, for real labels, the gain on the rest."""
    labels = draw_labels(cell, material_of(cell[1], judge, beside))
    if labels is None:
        return None
    material, drawn, rest = labels
    material = rotated(material, drawn)
    learnt = part(material, drawn)
    proof = prove([learnt] * (FOLDS + 1), learnt.targets[:, None])
    record: dict[str, Any] = {"cell": cell, "way": proof.way, "kept": proof.kept}
    record |= {"base": proof.base, "length": proof.line("length").gain.low}
    record |= {
        "promised": proof.gain.value,
        "low": proof.gain.low,
        "high": proof.gain.high,
    }
    if cell[-1]:
        return record
    columns = [] if proof.base == MEAN else [material.judge_column]
    base = partial(line, columns=columns)(learnt, np.arange(len(drawn)))
    other = part(material, rest)
    losses = [
        other.losses(fit.units(material, rest), other.targets)
        for fit in (proof.fit, base)
    ]
    gain, spread = gain_over(other, other.contexts, *losses)
    # Of a fixed judge, without what gain_over adds for the folds.
    return record | {"gain": gain.value, "error": spread / INFLATION**0.5}


def run(
    results: Path, judges: Sequence[str], draws: int, seconds: float, turn: int
) -> None:
    """Adds the cells that are missing. ``turn`` is 0 for all draws, 1 for odd and 2 for even
    ones."""
    started = time.monotonic()
    lines = results.read_text().splitlines() if results.is_file() else []
    there = {tuple(json.loads(record)["cell"]) for record in lines}
    for draw, name, judge, kind, size, shuffled in product(
        range(draws), SETS, judges, KINDS, SIZES, (True, False)
    ):
        cell = (draw, name, Path(judge).name, kind, size, shuffled)
        if cell in there or (turn and draw % 2 != turn % 2):
            continue
        if time.monotonic() - started > seconds:
            print(f"{len(there)} cells so far")
            return
        record = measured(cell, results, judge)
        if record is not None:
            there.add(cell)
            with results.open("a") as stream:
                stream.write(json.dumps(record) + "\n")
    print("all cells are there")


def holds(record: dict[str, Any]) -> bool:
    """Says whether promise and rest agree within both errors: the gain on the rest has one too."""
    gain, promised = record["gain"], record["promised"]
    end = record["low"] if gain < promised else record["high"]
    return bool(
        abs(gain - promised) <= np.hypot(promised - end, 1.96 * record["error"])
    )


def share(flags: Sequence[bool]) -> str:
    return f"{np.mean(flags):.1%}" if flags else ""


def table(results: Path) -> str:
    """One line for each judge, kind and number of labels, and one of all."""
    cells: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for text in results.read_text().splitlines():
        record = json.loads(text)
        _, _, judge, kind, size, _ = record["cell"]
        for key in (
            (judge, kind, f"{size:3}"),
            ("all", kind, "all"),
            ("all", "all", "all"),
        ):
            cells[key].append(record)
    columns = (
        "judge",
        "kind of labels",
        "labels",
        "shuffled: draws",
        "shuffled: kept",
        "real: draws",
        "real: kept",
        "gain promised",
        "gain on the rest",
        "kept, worse on the rest",
        "with an interval",
        "interval holds",
        "holds, both errors",
        "promised too much",
        "promised too little",
    )
    rows = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for key, records in sorted(cells.items()):
        chance = [record["kept"] for record in records if record["cell"][-1]]
        real = [record for record in records if not record["cell"][-1]]
        spans = [record for record in real if record["low"] is not None]
        missed = [record for record in spans if not holds(record)]
        inside = [record["low"] <= record["gain"] <= record["high"] for record in spans]
        worse = [record for record in real if record["kept"] and record["gain"] < 0]
        means = ["", ""]  # of log losses and stars there is no mean
        if key[1] != "all" and real:
            means = [
                f"{np.mean([r[name] for r in real]):.3f}"
                for name in ("promised", "gain")
            ]
        much = sum(record["gain"] < record["promised"] for record in missed)
        rows.append(
            f"| {' | '.join(key)} | {len(chance)} | {share(chance)} | {len(real)} | "
            f"{share([record['kept'] for record in real])} | {' | '.join(means)} | {len(worse)} | "
            f"{len(spans)} | {share(inside)} | {share([holds(record) for record in spans])} | "
            f"{much} | {len(missed) - much} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--judges", nargs="+", default=["boxed", "length"])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--turn", type=int, default=0, choices=(0, 1, 2))
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    if given.what == "run":
        run(given.results, given.judges, given.draws, given.seconds, given.turn)
    else:
        keep("align" if given.keep else None, table(given.results))


if __name__ == "__main__":
    main()
