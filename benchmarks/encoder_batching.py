"""Scoring speed of an encoder judge beside a plain loop, in one run.

    python benchmarks/encoder_batching.py --judge runs/quickstart/judge [--dialogues 1000]

The plain loop takes 16 dialogues at a time in file order and pads every turn of them to the
longest one; no sorting, no turn encoded once for several places. Both give the same scores to 1e-5
of the scale, which is checked.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.table import Table

from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.batching import pad_rows
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dialogue import Dialogue

ScoreTable = list[dict[str, float | None]]
PLAIN_BATCH = 16


def mixed_dialogues(count: int) -> list[Dialogue]:
    """Chit-chat conversations of 2 to 60 turns, in file order."""
    rows = (row.dialogue for row in load_spec("chitchat"))
    return [d for d in rows if d.assistant_turns and len(d.turns) <= 60][:count]


def plain(judge: EncoderJudge, dialogues: Sequence[Dialogue]) -> ScoreTable:
    """Batches of 16 in file order, padded to the longest turn."""
    found: ScoreTable = []
    names = [d.name for d in judge.dimensions]
    for start in range(0, len(dialogues), PLAIN_BATCH):
        items = [ScoreRequest(d, None) for d in dialogues[start : start + PLAIN_BATCH]]
        encoded = [judge.turns.encode(item.dialogue) for item in items]
        texts = [text for one in encoded for text in one.texts]
        pieces = [(row, p) for row, parts in enumerate(judge.turns.pieces(texts)) for p in parts]
        ids, mask = pad_rows([piece for _, piece in pieces], judge.tokenizer.pad_token_id)
        with torch.inference_mode():
            sums, counts = judge.net.piece_sums(ids, mask)
        owner = torch.tensor([row for row, _ in pieces])
        total = torch.zeros(len(texts), sums.shape[1]).index_add(0, owner, sums)
        count = torch.zeros(len(texts), 1).index_add(0, owner, counts)
        table, place = total / count.clamp_min(1), 0
        for item, one in zip(items, encoded, strict=True):
            item.payload = (one, (table, list(range(place, place + len(one.texts)))))
            place += len(one.texts)
        found += [dict(s.scores) for s in judge._score_batch(items, names)]
    return found


def ours(judge: EncoderJudge, dialogues: Sequence[Dialogue]) -> ScoreTable:
    """``Judge.score`` as anybody calls it."""
    return [dict(j.scores) for j in judge.score(dialogues)]


def timed(run: Callable[[], ScoreTable]) -> tuple[float, ScoreTable]:
    start = time.perf_counter()
    scores = run()
    return time.perf_counter() - start, scores


def largest_difference(judge: Judge, a: ScoreTable, b: ScoreTable) -> float:
    """Largest difference of any score, as a share of its scale."""
    spans = {d.name: d.high - d.low for d in judge.dimensions}
    return max(
        abs(float(x[n] or 0) - float(y[n] or 0)) / spans[n]
        for x, y in zip(a, b, strict=True)
        for n in x
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--judge", required=True)
    parser.add_argument("--dialogues", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    judge = Judge.from_pretrained(options.judge, device="cpu")
    assert isinstance(judge, EncoderJudge)
    dialogues = mixed_dialogues(options.dialogues)
    turns = [t.content for d in dialogues for t in d.turns]
    tokens = sum(len(p) for parts in judge.turns.pieces(turns) for p in parts)
    ours(judge, dialogues[:32])  # warm-up
    half = len(dialogues) // 2
    runs = {"plain loop": plain, "Judge.score": ours}
    seconds = dict.fromkeys(runs, 0.0)
    scores: dict[str, ScoreTable] = {name: [] for name in runs}
    for part, order in ((dialogues[:half], list(runs)), (dialogues[half:], list(runs)[::-1])):
        for name in order:  # both orders, so that a machine that warms or tires favours none
            spent, found = timed(lambda name=name, part=part: runs[name](judge, part))  # type: ignore[misc]
            seconds[name] += spent
            scores[name] += found
    table = Table("", "seconds", "dialogues/s", "tokens/s", "times the plain loop")
    for name, spent in seconds.items():
        ratio = seconds["plain loop"] / spent
        rates = (f"{len(dialogues) / spent:.1f}", f"{tokens / spent:.0f}")
        table.add_row(name, f"{spent:.1f}", *rates, f"{ratio:.2f}")
    console = Console()
    console.print(f"{len(dialogues)} dialogues, {len(turns)} turns ({len(set(turns))} distinct)")
    console.print(table)
    difference = largest_difference(judge, scores["plain loop"], scores["Judge.score"])
    console.print(f"largest difference of a score: {difference:.1e} of its scale")
    assert difference < 1e-5


if __name__ == "__main__":
    main()
