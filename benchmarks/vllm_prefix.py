"""Likelihoods in vLLM's engine: ways to read a shared prefix, beside transformers, in one run.

    .venv-vllm/bin/python benchmarks/vllm_prefix.py [FILE.jsonl] [--model embedded:smollm2]

Printed for each way: seconds, seconds of processors (of this process and the engine's, which other
work on the machine changes less), and the largest difference of a token's log-probability from
transformers, which reads a tree of shared prefixes. *Anew*: each prompt is read whole, as vLLM does
for prompt log-probabilities. *Cached*: the first of each prefix writes vLLM's prefix cache, the
others read it (models/llm/vllm/model.py), in blocks of --blocks tokens. Without FILE: made-up
dialogues of about 650 tokens.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import islice

import numpy as np
import psutil
from prefix_likelihood import dialogue as made_up_dialogue

from medal_judges.models.followup.pool import load_pool
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    Continuation,
    LanguageModel,
    Likelihood,
    chat_messages,
)
from medal_judges.models.llm.settings import VllmLLM
from medal_judges.models.llm.vllm.model import VllmModel, engine_arguments
from medal_judges.reading.dialogues import read_dialogues

Groups = list[list[Continuation]]


def groups_of(options: argparse.Namespace) -> Groups:
    """Returns the follow-ups after each dialogue."""
    texts = [follow_up.text for follow_up in load_pool(options.pool).follow_ups]
    if options.file:
        dialogues = islice(read_dialogues(options.file), options.limit)
        chats = [chat_messages(dialogue) for dialogue in dialogues]
    else:
        chats = [made_up_dialogue(8, 4)[index:] for index in range(4)]
    return [[Continuation(chat, text, role="user") for text in texts] for chat in chats]


def cached(llm: LanguageModel, groups: Groups) -> list[list[Likelihood]]:
    """Returns the likelihoods as a judge gets them."""
    return llm.loglikelihood(groups)


def anew(llm: LanguageModel, groups: Groups) -> list[list[Likelihood]]:
    """Returns the same, with each prompt read whole."""
    assert isinstance(llm, VllmModel)
    likelihoods = []
    for group in groups:
        sequences = [llm.sequence(continuation) for continuation in group]
        scored = llm._scored(
            sequences, range(len(group)), read_cache=False, joint=False
        )
        likelihoods.append([scored[index] for index in range(len(group))])
    return likelihoods


def processor_seconds() -> float:
    """Returns the processor time of this process and those it started."""
    process = psutil.Process()
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        times = member.cpu_times()
        total += times.user + times.system
    return total


def measured(
    name: str,
    way: Callable[..., list[list[Likelihood]]],
    llm: LanguageModel,
    groups: Groups,
) -> np.ndarray:
    """Prints the seconds of one way, after a short run that warms the backend, and returns the
    log-probabilities of all tokens."""
    way(llm, [groups[0][:2]])
    if isinstance(llm, VllmModel):
        llm.engine.reset_prefix_cache()
    start, processors = time.perf_counter(), processor_seconds()
    likelihoods = way(llm, groups)
    seconds, processors = time.perf_counter() - start, processor_seconds() - processors
    print(f"{name}: {seconds:.1f} s, {processors:.1f} s of processors", flush=True)
    return np.concatenate([item.logprobs for group in likelihoods for item in group])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--model", default="embedded:smollm2")
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--pool", default="followups/craft")
    parser.add_argument("--blocks", type=int, nargs="*", default=[128, 32])
    options = parser.parse_args()
    from vllm import LLM

    groups = groups_of(options)
    print(
        f"{len(groups)} dialogues, {len(groups[0])} follow-ups each; load {os.getloadavg()[0]:.1f}"
    )
    settings = {"dtype": "fp32", "context": 4096}
    local = load_llm({"model": options.model, **settings})
    base = measured("transformers, a tree of prefixes", cached, local, groups)
    for size in options.blocks:
        config = VllmLLM(model=options.model, enforce_eager=True, **settings)
        engine = LLM(**(engine_arguments(config) | {"block_size": size}))
        llm = VllmModel(engine, engine.get_tokenizer(), config)
        for name, way in (("cached", cached), ("anew", anew)):
            logprobs = measured(f"vLLM, blocks of {size}, {name}", way, llm, groups)
            print(f"    largest difference {np.abs(logprobs - base).max():.1e} nats")
        llm.close()
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
