"""Training and scoring speed on a GPU: ModernBERT-large's shape, random weights, bf16.

    python tests/speed/gpu_training.py [--tokens 1024] [--batch 16] [--gradient-checkpointing]
    python tests/speed/gpu_training.py --tiny    # small shapes on a CPU: only that it works

Each strategy (plain; ZeRO-2 under accelerate launch) runs in a process of its own on one GPU, and
all in one call of this script. Tokens/s count tokens, not padding. The share of the matrix peak is
the model's arithmetic (2 operations a weight and token forward, attention added, times 3 with the
backward pass; what gradient checkpointing computes again is not counted) over what one large
matrix product in the same precision reaches on this device in this run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import medal_judges.configs
from medal_judges.dialogue import Dialogue, Turn
from medal_judges.dimension import load_rubric
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.training.config import DataEntry, OptimConfig, StopConfig, TrainConfig
from medal_judges.training.rows.examples import TrainingExample
from medal_judges.training.steps import start_loop

LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "intermediate_size": 2624,
    "vocab_size": 50368,
}
TINY = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1024,
}
TURN_WORDS = 30
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "user", "assistant", ":"]
WORDS = [f"w{number}" for number in range(900)]


def save_body(folder: Path, shape: dict[str, int], tokens: int) -> None:
    """A ModernBERT of ``shape`` with random weights, and a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    numbers = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    config = ModernBertConfig(
        **shape, **numbers, cls_token_id=2, sep_token_id=3, max_position_embeddings=max(tokens, 64)
    )
    ModernBertModel(config).save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(MARKS + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    marks = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks).save_pretrained(folder)


def dialogues(count: int, tokens: int) -> list[Dialogue]:
    """Dialogues of nearly ``tokens`` tokens."""
    rng = np.random.default_rng(0)
    turns = max(2, tokens // (TURN_WORDS + 4))  # and the marks of a turn

    def turn(place: int) -> Turn:
        return Turn(
            "assistant" if place % 2 else "user", " ".join(rng.choice(WORDS, size=TURN_WORDS))
        )

    return [Dialogue(str(n), tuple(turn(t) for t in range(turns))) for n in range(count)]


def forward_flops(config: Any, tokens: int) -> float:
    """Operations a token of one forward pass of the body, for sequences of ``tokens``."""
    hidden, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    weights = 4 * hidden * hidden + 3 * hidden * inner  # attention's four maps, the gated layer's 3
    near = min(tokens, config.local_attention)
    whole = sum(kind == "full_attention" for kind in config.layer_types)
    seen = whole * tokens + (layers - whole) * near
    return float(layers * 2 * weights + 4 * hidden * seen)


def seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Wall time of ``work`` with the device's queue empty before and after."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    wait()
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start


def matrix_peak(device: torch.device) -> float:
    """Operations a second of the best of several large matrix products in bf16."""
    size, repeats = (8192, 20) if device.type == "cuda" else (512, 5)
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    a @ a
    best = min(seconds_of(lambda: a @ a, device) for _ in range(repeats))
    return 2 * size**3 / best


def train_speed(judge: EncoderJudge, options: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Seconds and tokens of ``options.steps`` optimiser steps after three of warm-up."""
    rows = [
        TrainingExample(d, "made", {"overall": n % 2})
        for n, d in enumerate(dialogues(4 * options.batch, options.tokens))
    ]
    config = TrainConfig(
        name="speed",
        output_dir=folder,
        rubric="overall",
        model=judge.config,
        train=(DataEntry(source="chitchat"),),
        optim=OptimConfig(
            batch_size=options.batch,
            batch_tokens=10**7,
            mixed_precision="bf16",
            gradient_checkpointing=options.gradient_checkpointing,
        ),
        stop=StopConfig(keep="last"),
    )
    loop = start_loop(config, judge, rows, [], "speed")
    device = loop.accelerator.device
    loop.model.train()
    batches = [list(range(s, s + options.batch)) for s in range(0, len(rows), options.batch)]
    for batch in batches[:3]:
        loop._step([batch])
    chosen = [batches[step % len(batches)] for step in range(options.steps)]
    spent = seconds_of(lambda: [loop._step([batch]) for batch in chosen], device)
    tokens = sum(loop.train.lengths[row] for batch in chosen for row in batch)
    flops = 3 * forward_flops(judge.net.body.config, loop.train.lengths[0])
    found = loop.facts | {"tokens_per_s": tokens / spent, "flops_per_s": flops * tokens / spent}
    if device.type == "cuda":
        found["memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
    loop.release()
    loop.accelerator.end_training()
    return found


def score_speed(body: Path, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Speed of ``Judge.score`` in bf16, tokenizer and all."""
    config = encoder_config(body, options.tokens)
    made = EncoderJudge.create(config, load_rubric("overall"), device=device)
    judge = EncoderJudge(
        made.net, made.tokenizer, made.dimensions, device=device, dtype="bf16", name="speed"
    )
    asked = dialogues(options.steps * options.batch, options.tokens)
    tokens = sum(len(e.ids) for e in map(judge.turns.encode, asked))
    list(judge.score(asked[: options.batch]))
    spent = seconds_of(lambda: list(judge.score(asked)), device)
    flops = forward_flops(judge.net.body.config, tokens // len(asked))
    return {"tokens_per_s": tokens / spent, "flops_per_s": flops * tokens / spent}


def encoder_config(body: Path, tokens: int) -> EncoderConfig:
    return EncoderConfig(
        base=str(body), shape="flat", max_tokens=tokens, net="linear", pooling="role", features=()
    )


def work(options: argparse.Namespace) -> None:
    """One strategy in this process; the last line printed is its result."""
    body = Path(options.worker)
    judge = EncoderJudge.create(encoder_config(body, options.tokens), load_rubric("overall"))
    with tempfile.TemporaryDirectory() as folder:
        result: dict[str, Any] = {"training": train_speed(judge, options, folder)}
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if options.strategy == "plain":
        result["scoring"] = score_speed(body, options, device)
    result["peak_flops_per_s"] = matrix_peak(device)
    print(json.dumps(result), flush=True)


def launched(strategy: str, body: Path, arguments: list[str], tiny: bool) -> dict[str, Any]:
    """The result of ``strategy`` run in a process of its own."""
    configs = Path(medal_judges.configs.__path__[0])
    settings = configs / "deepspeed" / ("zero2_cpu.json" if tiny else "zero2.json")
    launcher = {
        "plain": [sys.executable],
        "zero2": [
            *(sys.executable, "-m", "accelerate.commands.launch"),
            *("--config_file", str(configs / "accelerate" / "gpu8.yaml"), "--num_processes", "1"),
            *("--deepspeed_config_file", str(settings)),
        ],
    }[strategy]
    command = [*launcher, __file__, *arguments, "--worker", str(body), "--strategy", strategy]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"training"')]
    if not lines:
        sys.exit(f"{strategy} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def show(results: dict[str, dict[str, Any]]) -> None:
    """Print a table of the results."""
    from rich.console import Console
    from rich.table import Table

    table = Table("", "tokens/s", "TFLOP/s", "share of the matrix peak", "attention", "memory GiB")
    for strategy, result in results.items():
        for name in ("training", "scoring"):
            if name not in result:
                continue
            found = result[name]
            share = found["flops_per_s"] / result["peak_flops_per_s"]
            table.add_row(
                f"{name}, {strategy}",
                f"{found['tokens_per_s']:.0f}",
                f"{found['flops_per_s'] / 1e12:.2f}",
                f"{share:.0%}",
                str(found.get("attention", "")),
                f"{found['memory_gib']:.1f}" if "memory_gib" in found else "",
            )
    Console(width=110).print(table)
    peak = max(r["peak_flops_per_s"] for r in results.values())
    print(f"matrix peak measured, bf16: {peak / 1e12:.2f} TFLOP/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="small shapes, on a CPU too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--strategy", default="plain", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tiny:
        options.tokens, options.batch, options.steps = 128, 2, 3
    if options.worker:
        return work(options)
    if not options.tiny and not torch.cuda.is_available():
        sys.exit(
            "no GPU here: these shapes are for one; --tiny shows on a CPU that the script works"
        )
    with tempfile.TemporaryDirectory() as folder:
        save_body(Path(folder), TINY if options.tiny else LARGE, options.tokens)
        names = ("plain", "zero2")
        results = {n: launched(n, Path(folder), sys.argv[1:], options.tiny) for n in names}
    show(results)


if __name__ == "__main__":
    main()
