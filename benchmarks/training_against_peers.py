"""Training speed beside the Trainer and CrossEncoderTrainer: same model, data and batch, one run.

    python benchmarks/training_against_peers.py [--rows 128] [--batch 16] [--threads 2]
        [--keep training_peers]

The embedded MiniLM, all of it trained in fp32 on chit-chat conversations of at most 256 tokens,
16 a step, one label each (which means nothing here). *Trainer*: transformers' own, with padding to
the longest of a batch and batches grouped by length, of texts tokenised before. *CrossEncoder*:
sentence-transformers' CrossEncoderTrainer on (conversation, last answer), which hands on texts and
tokenises them within the step. Each takes two epochs; the second is timed. Tokens are those of the
texts, without padding. *Waiting* is the share of the time in which batches were made.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from into_docs import keep
from training_batches import examples

from medal_judges.models.model_files import embedded_files
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import DataEntry, OptimConfig, StopConfig, TrainConfig
from medal_judges.training.families.steps import start_loop
from medal_judges.training.loop.loop import epoch_batches

LONGEST = 256
Row = dict[str, str]


class Clock:
    """Seconds of the steps and of the waits between them, from ``start`` on."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()
        self.waited = 0.0
        self.positions = 0  # of the batches made, padding among them

    def start(self) -> None:
        """Forget what was before: an epoch to warm up."""
        self.begin, self.waited, self.positions = time.perf_counter(), 0.0, 0

    def waiting(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """``make`` with its seconds counted as waiting."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            made = make(*args, **kwargs)
            self.waited += time.perf_counter() - start
            if isinstance(made, tuple):
                self.positions += made[0].sequence[0].numel()
            elif "input_ids" in made:
                self.positions += made["input_ids"].numel()
            return made

        return counted

    def row(self, way: str, tokens: int, rows: int) -> Row:
        """A row of the table."""
        seconds = time.perf_counter() - self.begin
        return {
            "way": way,
            "tokens/s": f"{tokens / seconds:,.0f}",
            "conversations/s": f"{rows / seconds:.1f}",
            "padding": f"{1 - tokens / self.positions:.0%}" if self.positions else "–",
            "waiting": f"{self.waited / seconds:.1%}",
        }


def text_of(dialogue: Dialogue, turns: slice = slice(None)) -> str:
    """The turns as our flat shape writes them, so that all read nearly the same tokens."""
    return " ".join(f"{turn.role}: {turn.content}" for turn in dialogue.turns[turns])


def ours(count: int, batch: int, folder: str) -> Row:
    """This package's loop."""
    model = TurnsConfig(shape="flat", max_tokens=LONGEST, net="linear", pooling="role")
    judge = TurnsJudge.create(model, load_rubric("overall"))
    config = TrainConfig(
        name="speed",
        output_dir=folder,
        rubric="overall",
        model=model,
        train=(DataEntry(source="chitchat"),),
        optim=OptimConfig(batch_size=batch, batch_tokens=10**6, mixed_precision="no"),
        stop=StopConfig(keep="last"),
    )
    rows = examples(count)
    loop = start_loop(config, judge, rows, [], "speed")
    clock = Clock()
    loop._arguments = clock.waiting(loop._arguments)  # type: ignore[method-assign]
    for epoch in range(2):
        loop.model.train()
        clock.start()
        batches = epoch_batches(loop.train.lengths, config.optim, seed=0, epoch=epoch)
        for number, chosen in enumerate(batches):
            loop._step([chosen], [(epoch, number)])
    return clock.row("medal train", sum(loop.train.lengths), count)


def trainer(count: int, batch: int, folder: str) -> Row:
    """transformers' Trainer."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    path = str(embedded_files("minilm")[0])
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=1)
    rows = examples(count)
    texts = [text_of(row.dialogue) for row in rows]
    ids = tokenizer(texts, truncation=True, max_length=LONGEST)["input_ids"]
    data = [
        {"input_ids": one, "attention_mask": [1] * len(one), "labels": float(i % 2)}
        for i, one in enumerate(ids)
    ]
    clock = Clock()

    class Started(TrainerCallback):
        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            clock.start()

    settings = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=batch,
        num_train_epochs=2,
        train_sampling_strategy="group_by_length",
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        bf16=False,
    )
    run = Trainer(
        model,
        settings,
        train_dataset=data,  # type: ignore[arg-type]
        data_collator=clock.waiting(DataCollatorWithPadding(tokenizer)),
        callbacks=[Started()],
    )
    run.train()
    return clock.row("transformers Trainer, group_by_length", sum(map(len, ids)), count)


def cross_encoder(count: int, batch: int, folder: str) -> Row:
    """sentence-transformers' CrossEncoderTrainer."""
    from datasets import Dataset
    from sentence_transformers.cross_encoder import (
        CrossEncoder,
        CrossEncoderTrainer,
        CrossEncoderTrainingArguments,
    )
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
    from transformers import TrainerCallback

    model = CrossEncoder(
        str(embedded_files("minilm")[0]), num_labels=1, max_length=LONGEST, device="cpu"
    )
    rows = examples(count)
    pairs = [(text_of(r.dialogue, slice(-1)), text_of(r.dialogue, slice(-1, None))) for r in rows]
    first, second = zip(*pairs, strict=True)
    labels = [float(i % 2) for i in range(count)]
    data = Dataset.from_dict({"text": first, "answer": second, "label": labels})
    ids = model.tokenizer(  # for the count of tokens
        list(first), list(second), truncation="longest_first", max_length=LONGEST
    )["input_ids"]
    clock = Clock()

    class Started(TrainerCallback):
        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            clock.start()

    settings = CrossEncoderTrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=batch,
        num_train_epochs=2,
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    run = CrossEncoderTrainer(
        model,
        settings,
        train_dataset=data,
        loss=BinaryCrossEntropyLoss(model),
        callbacks=[Started()],
    )
    kind = type(run.data_collator)  # its attributes are asked for too
    run.data_collator.__class__ = type(
        kind.__name__, (kind,), {"__call__": clock.waiting(kind.__call__)}
    )
    run.train()
    return clock.row("sentence-transformers CrossEncoderTrainer", sum(map(len, ids)), count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", metavar="NAME", help="write docs/results/data/NAME.csv")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for way in (ours, trainer, cross_encoder):
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            rows.append(way(options.rows, options.batch, folder))
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "| " + " | ".join(["---"] * len(names)) + " |"]
    lines += ["| " + " | ".join(row.get(name, "–") for name in names) + " |" for row in rows]
    keep(options.keep, "\n".join(lines))


if __name__ == "__main__":
    main()
