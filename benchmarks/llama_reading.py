"""Log-probabilities by llama.cpp's own library, as quick as it can be asked for them.

    LLAMA_PYTHON benchmarks/llama_reading.py MODEL.gguf THREADS CONTEXT < groups.json

Run by llm_against_peers.py with a Python that has ``llama_cpp``. Reads [[{"ids", "start"}]], the
sequences of each conversation (the first is for warming up); what those of one have in common is
read once. Prints {"seconds", "load", "logprobs"}.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from llama_cpp import Llama


def common(sequences: list[list[int]]) -> int:
    """How many tokens all ``sequences`` begin with."""
    shortest = min(map(len, sequences))
    return next(
        (k for k in range(shortest) if len({ids[k] for ids in sequences}) > 1),
        shortest - 1,
    )


def read(llama: Llama, group: list[dict]) -> list[list[float]]:
    """The log-probabilities of each sequence from its ``start`` on."""
    before = common([one["ids"] for one in group]) - 1
    llama.reset()
    llama._logits_all = False  # of what is common no logits are wanted
    llama.eval(group[0]["ids"][:before])
    llama._logits_all = True
    said = []
    for one in group:
        ids, start = one["ids"], one["start"]
        llama.n_tokens = before  # eval lets go of what the one before read behind it
        llama.eval(ids[before:])
        logits = llama.scores[start - 1 : len(ids) - 1].astype(np.float64)
        top = logits.max(axis=1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        own = logits[np.arange(len(logits)), ids[start:]]
        said.append((own - total).tolist())
    return said


def main() -> None:
    model, threads, context = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    first, *groups = json.load(sys.stdin)
    start = time.perf_counter()
    llama = Llama(
        model,
        n_ctx=context,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=True,
        verbose=False,
    )
    load = time.perf_counter() - start
    read(llama, first)
    start = time.perf_counter()
    logprobs = [read(llama, group) for group in groups]
    print(json.dumps([time.perf_counter() - start, load, logprobs]))


if __name__ == "__main__":
    main()
