"""Training speed with length-grouped and with naive batches, in one run of the same loop.

    python benchmarks/training_batches.py [--family encoder|lora|both] [--rows 48] [--threads 2]

An encoder on embedded MiniLM (the whole dialogue as one sequence, all of the body learns) and the
LoRA judge on embedded SmolLM2. Both kinds of batches hold the same dialogues, as many a batch, and
pass over all of them; naive ones are shuffled and cut, grouped ones sorted by length first, as
optim.length_grouped says. Each kind is timed twice, in both orders, after a warm-up step. Tokens
are those of the dialogues, without padding. The labels mean nothing here.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table

from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.models.base.judge import Judge
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import DataEntry, OptimConfig, StopConfig, TrainConfig
from medal_judges.training.families.steps import start_loop
from medal_judges.training.loop.loop import TrainingLoop, epoch_batches
from medal_judges.training.rows import TrainingExample

BATCH = {"encoder": 8, "lora": 4}
ROWS_SHARE = {"encoder": 1.0, "lora": 0.5}  # a body six times as large
LONGEST = 256
MODELS: dict[str, TurnsConfig | LoraConfig] = {
    "encoder": TurnsConfig(shape="flat", max_tokens=LONGEST, net="linear", pooling="role"),
    "lora": LoraConfig(max_tokens=LONGEST),
}


def examples(count: int) -> list[TrainingExample]:
    """Chit-chat conversations of all lengths with labels that alternate."""
    rows = [row.dialogue for row in load_spec("chitchat") if row.dialogue.assistant_turns]
    return [TrainingExample(d, "chitchat", {"overall": i % 2}) for i, d in enumerate(rows[:count])]


def loop_of(family: str, rows: Sequence[TrainingExample], folder: str) -> TrainingLoop:
    """The training loop of a fresh judge of ``family``."""
    dimensions = load_rubric("overall")
    model = MODELS[family]
    judge: Judge
    if isinstance(model, LoraConfig):
        from medal_judges.models.lora.judge import LoraJudge

        judge = LoraJudge.create(model, dimensions)
    else:
        judge = TurnsJudge.create(model, dimensions)
    config = TrainConfig(
        name="speed",
        output_dir=folder,
        rubric="overall",
        model=model,
        train=(DataEntry(source="chitchat"),),
        optim=OptimConfig(batch_size=BATCH[family], batch_tokens=10**6),
        stop=StopConfig(keep="last"),
    )
    return start_loop(config, judge, rows, [], "speed")


def batches_of(loop: TrainingLoop, grouped: bool) -> list[list[int]]:
    """One epoch's batches of the loop's rows."""
    optim = loop.config.optim.model_copy(update={"length_grouped": grouped})
    return epoch_batches(loop.train.lengths, optim, seed=0, epoch=0)


def padding_share(batches: Sequence[Sequence[int]], lengths: Sequence[int]) -> float:
    """Share of padded positions that hold no token."""
    padded = sum(len(b) * max(lengths[row] for row in b) for b in batches)
    return 1 - sum(lengths[row] for b in batches for row in b) / padded


def timed(loop: TrainingLoop, batches: Sequence[Sequence[int]]) -> float:
    """Seconds of one optimiser step a batch."""
    loop.model.train()
    start = time.perf_counter()
    for rows in batches:
        loop._step([rows])
    return time.perf_counter() - start


def measure(family: str, count: int, console: Console) -> None:
    """Time both kinds of batches and print them."""
    rows = examples(round(count * ROWS_SHARE[family]))
    with tempfile.TemporaryDirectory() as folder:
        loop = loop_of(family, rows, folder)
        kinds = {name: batches_of(loop, name == "grouped") for name in ("naive", "grouped")}
        seconds = dict.fromkeys(kinds, 0.0)
        loop._step([kinds["naive"][0]])  # warm-up
        for order in (list(kinds), list(kinds)[::-1]):  # so that a machine that tires favours none
            for name in order:
                seconds[name] += timed(loop, kinds[name])
    lengths = loop.train.lengths
    tokens = 2 * sum(lengths)
    table = Table(family, "padding", "seconds", "tokens/s", "times naive")
    for name, batches in kinds.items():
        speed = (f"{seconds[name]:.1f}", f"{tokens / seconds[name]:.0f}")
        ratio = f"{seconds['naive'] / seconds[name]:.2f}"
        table.add_row(name, f"{padding_share(batches, lengths):.0%}", *speed, ratio)
    console.print(
        f"{family}: {len(rows)} dialogues of {min(lengths)} to {max(lengths)} tokens, "
        f"{BATCH[family]} a batch"
    )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", choices=["encoder", "lora", "both"], default="both")
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    families = list(MODELS) if options.family == "both" else [options.family]
    for family in families:
        measure(family, options.rows, Console())


if __name__ == "__main__":
    main()
