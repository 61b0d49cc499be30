"""How far a language model's likelihoods and the contrast judge's scores move in bf16 on a CPU.

    python benchmarks/llm_precision.py --journal FILE [--dialogues 64] [--judged 64]
        [--keep llm_precision]

SmolLM2-135M, in fp32, in bf16 (``llm.dtype=bf16``), and in fp32 with products in bf16 (oneDNN
rounds the factors of each matrix product and adds up in fp32; weights, states and norms stay in
fp32). *Follow-ups*: sums of log-probabilities of the twelve of configs/followups/craft.yaml after
each of ``--dialogues`` conversations. *Judge*: the scores of configs/judges/contrast.yaml about
each of ``--judged``, of all its dimensions. Agreement alone: the load of the machine changes
nothing. Spearman's interval is a bootstrap over conversations.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from into_docs import keep
from llm_against_peers import MODEL, dialogues, follow_ups
from scipy.stats import spearmanr

from medal_judges.config import read_yaml
from medal_judges.models.followup.judge import FollowUpJudge
from medal_judges.models.llm.loading import load_llm

WAYS = ("fp32", "bf16", "fp32, products in bf16")
DRAWS = 1000


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Matrix products of fp32 tensors with factors rounded to ``precision`` (bf16, or ieee)."""
    settings: Any = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    settings.fp32_precision = precision
    try:
        yield
    finally:
        settings.fp32_precision = before


class Way:
    """One model and the judge that reads with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        dtype = "bf16" if name == "bf16" else "fp32"
        self.llm: Any = load_llm({"model": MODEL, "dtype": dtype})
        settings = dict(read_yaml("judges/contrast"))
        del settings["family"], settings["languages"]
        self.judge = FollowUpJudge.from_settings(settings | {"llm": self.llm})
        self.seconds = 0.0

    def read(
        self, talk: Any, *, followed: bool, judged: bool
    ) -> tuple[list[float], list[float]]:
        """(sums of the follow-ups' log-probabilities, scores) of one conversation."""
        start = time.perf_counter()
        sums: list[float] = []
        scores: list[float] = []
        with products_in("bf16" if "products" in self.name else "ieee"):
            if followed:
                sums = [
                    each.total for each in self.llm.loglikelihood([follow_ups(talk)])[0]
                ]
            if judged:
                (found,) = self.judge.score([talk])
                scores = [float(value or 0.0) for value in found.scores.values()]
        self.seconds += time.perf_counter() - start
        return sums, scores


def spearman(base: np.ndarray, other: np.ndarray) -> str:
    """Spearman of two tables [conversations, values], with its 95% interval."""
    rng = np.random.default_rng(0)
    whole = float(spearmanr(base.ravel(), other.ravel()).statistic)
    drawn = []
    for _ in range(DRAWS):
        rows = rng.integers(0, len(base), len(base))
        drawn.append(spearmanr(base[rows].ravel(), other[rows].ravel()).statistic)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{whole:.5f} ({low:.5f} to {high:.5f})"


def table(
    names: Sequence[str], found: dict[str, tuple[np.ndarray, np.ndarray]]
) -> list[str]:
    """The lines of the table; ``names`` are the judge's dimensions."""
    heads = [
        "way",
        "conversations",
        "follow-ups: Spearman",
        "nats apart, mean",
        "largest",
    ]
    heads += [
        "judged",
        "judge: lowest Spearman of a dimension",
        "of overall",
        "score apart, mean",
        "largest",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    base, judged = found[WAYS[0]]
    if not judged.size:
        heads = heads[:5]
        lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for way in WAYS[1:]:
        sums, scores = found[way]
        nats, apart = np.abs(sums - base), np.abs(scores - judged)
        row = [
            way,
            str(len(base)),
            spearman(base, sums),
            f"{nats.mean():.3f}",
            f"{nats.max():.2f}",
        ]
        if not judged.size:
            lines.append("| " + " | ".join(row) + " |")
            continue
        each = [
            float(spearmanr(judged[:, k], scores[:, k]).statistic)
            for k in range(len(names))
        ]
        low = int(np.argmin(each))
        overall = list(names).index("overall")
        row += [str(len(judged)), f"{names[low]} {each[low]:.5f}"]
        row += [spearman(judged[:, [overall]], scores[:, [overall]])]
        row += [f"{apart.mean():.4f}", f"{apart.max():.3f}"]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--dialogues", type=int, default=64)
    parser.add_argument("--judged", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--journal", type=Path, required=True, help="where a run goes on from"
    )
    parser.add_argument(
        "--keep", metavar="NAME", help="write docs/results/data/NAME.csv"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    talks = dialogues(max(options.dialogues, options.judged))[1:]
    ways = [Way(name) for name in WAYS]
    told: dict[str, tuple[list[list[float]], list[list[float]]]] = {
        w.name: ([], []) for w in ways
    }
    done = options.journal.read_text().splitlines() if options.journal.is_file() else []
    with options.journal.open("a") as journal:
        for number, talk in enumerate(talks):
            wanted = {
                "followed": number < options.dialogues,
                "judged": number < options.judged,
            }
            if number < len(done):
                read = json.loads(done[number])
            else:
                read = {way.name: way.read(talk, **wanted) for way in ways}
                journal.write(json.dumps(read) + "\n")
                journal.flush()
                print(
                    number + 1,
                    {way.name: round(way.seconds, 1) for way in ways},
                    flush=True,
                )
            for name, values in read.items():
                for kept, row in zip(told[name], values, strict=True):
                    if row:
                        kept.append(row)
    found = {
        name: (np.array(sums), np.array(scores))
        for name, (sums, scores) in told.items()
    }
    keep(
        options.keep,
        "\n".join(table([d.name for d in ways[0].judge.dimensions], found)),
    )


if __name__ == "__main__":
    main()
