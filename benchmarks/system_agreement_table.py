"""Do judges order chatbots as people do, and does a tenth of people's answers help?

python benchmarks/system_agreement_table.py NAME=JUDGE ... [--split test] [--keep]

On dialogue_eval's ten chatbots (without its quality control) and dstc9's eleven: pairwise accuracy
and soft pairwise accuracy of each judge against people's means, of the judge corrected by people's
answers to a tenth of the dialogues of each chatbot (5 at least; mean of 50 random draws; held
against the other nine tenths), of these few answers alone, and of half of people's answers against
the other half. A judge that was trained on a set is only of use with ``--split test``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from into_docs import keep

from medal_judges import Judge, LabelledDialogue
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.records.labelled import mean
from medal_judges.stats.equal import Values
from medal_judges.stats.means import Jackknifed, Sample
from medal_judges.stats.ppi import LabelledSample, correct
from medal_judges.stats.system_agreement import (
    SystemMeans,
    means_of_figures,
    over_pairs,
    pair_accuracy,
    soft_pair_accuracy,
    split_half,
    system_means,
)

SETS = ("dialogue_eval", "dstc9")
DRAWS, SHARE, LEAST = 50, 0.1, 5


def rows_of(name: str, split: str | None) -> list[LabelledDialogue]:
    rows = load_spec(name if split is None else f"{name}:{split}")
    return [r for r in rows if r.dialogue.chatbot not in (None, "quality_control")]


def human_of(rows: Sequence[LabelledDialogue]) -> np.ndarray:
    ratings = [row.rating("overall") for row in rows]
    return np.array(
        [np.nan if r is None or mean(r) is None else mean(r) for r in ratings]
    )


def drawn(systems: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A tenth of the rows of each system, 5 at least."""
    chosen = np.zeros(len(systems), dtype=bool)
    for k in np.unique(systems):
        rows = np.flatnonzero(systems == k)
        chosen[
            rng.choice(rows, max(LEAST, round(SHARE * len(rows))), replace=False)
        ] = True
    return chosen


def corrected(
    scores: np.ndarray, labels: np.ndarray, systems: np.ndarray
) -> SystemMeans:
    count = int(systems.max()) + 1
    samples = []
    for k in range(count):
        own = systems == k
        clusters = [f"{k} {i}" for i in range(int(own.sum()))]
        samples.append(
            LabelledSample(Sample(Values(scores[own], 0.0), clusters), labels[own])
        )
    figures: list[Jackknifed] = correct(samples, None).figures
    return means_of_figures(figures)


def line(name: str, people: SystemMeans, judge: SystemMeans) -> list[str]:
    cells = [name]
    for pairs in (pair_accuracy, soft_pair_accuracy):
        found = over_pairs(pairs(people, judge))
        cells.append(f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]")
    return cells


def few(
    scores: np.ndarray | None, human: np.ndarray, systems: np.ndarray, groups: list[str]
) -> list[str]:
    """Both figures with a tenth of the labels, against the others: corrected scores, or the labels
    alone where there are no scores. The mean over the draws, and their standard deviation."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(DRAWS):
        chosen = drawn(systems, rng)
        rest = system_means(
            Values(human[~chosen], 0.0),
            systems[~chosen],
            list(np.asarray(groups)[~chosen]),
        )
        if scores is None:
            side = system_means(
                Values(human[chosen], 0.0),
                systems[chosen],
                list(np.asarray(groups)[chosen]),
            )
        else:
            side = corrected(scores, np.where(chosen, human, np.nan), systems)
        found.append(
            [
                over_pairs(pairs(rest, side)).value
                for pairs in (pair_accuracy, soft_pair_accuracy)
            ]
        )
    values = np.array(found, dtype=float)
    return [
        f"{m:.3f} ± {s:.3f}"
        for m, s in zip(values.mean(axis=0), values.std(axis=0), strict=True)
    ]


def table(name: str, split: str | None, judges: dict[str, Judge]) -> str:
    """One set's table as Markdown."""
    rows = rows_of(name, split)
    human = human_of(rows)
    rows = [rows[i] for i in np.flatnonzero(np.isfinite(human))]
    human = human[np.isfinite(human)]
    bots = sorted({str(row.dialogue.chatbot) for row in rows})
    systems = np.array([bots.index(str(row.dialogue.chatbot)) for row in rows])
    groups = [row.group for row in rows]
    counts = np.bincount(systems)
    part = f", {split} rows" if split else ""
    about = f"**{name}**{part}: {len(bots)} chatbots, {len(rows)} dialogues "
    lines = [f"{about}({counts.min()} to {counts.max()} each)", ""]
    lines.append(
        "| judge | pairwise | soft pairwise | corrected: pairwise | corrected: soft |"
    )
    lines.append("|---|---|---|---|---|")
    for label, judge in judges.items():
        said = judge.score([row.dialogue for row in rows], dimensions=["overall"])
        scores = np.array([j.scores["overall"] for j in said], dtype=float)
        fine = np.isfinite(scores)
        kept = list(np.asarray(groups)[fine])
        side = system_means(Values(scores[fine], 0.0), systems[fine], kept)
        left_out = (
            f" ({(~fine).sum()} dialogues without a score)" if not fine.all() else ""
        )
        people = system_means(Values(human[fine], 0.0), systems[fine], kept)
        cells = line(label + left_out, people, side)
        cells += few(scores[fine], human[fine], systems[fine], kept)
        lines.append(f"| {' | '.join(cells)} |")
    alone = few(None, human, systems, groups)
    lines.append(f"| these few answers alone | – | – | {alone[0]} | {alone[1]} |")
    halves = split_half(Values(human, 0.0), systems, groups)
    figures = " | ".join(f"{value:.3f}" for value in halves.values())
    return "\n".join([*lines, f"| people, split half | {figures} | – | – |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("judges", nargs="+", metavar="NAME=JUDGE")
    parser.add_argument("--split")
    parser.add_argument(
        "--keep", action="store_true", help="write the document's table"
    )
    args = parser.parse_args()
    judges = {}
    for text in args.judges:
        name, _, path = text.partition("=")
        judges[name] = Judge.from_pretrained(path or name)
    tables = [table(name, args.split, judges) for name in SETS]
    keep(f"systems_{args.split or 'all'}" if args.keep else None, "\n\n".join(tables))


if __name__ == "__main__":
    main()
