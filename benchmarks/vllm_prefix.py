"""Likelihoods in vLLM's engine: ways to read a shared prefix, beside transformers, in one run.

    .venv-vllm/bin/python benchmarks/vllm_prefix.py [FILE.jsonl] [--model embedded:smollm2]

Printed for each way: seconds, the ratio to transformers with its tree of shared prefixes, and the
largest difference of a token's log-probability. *Anew*: each prompt is read whole, as vLLM does for
prompt log-probabilities. *Cached*: the first of each prefix writes vLLM's prefix cache, the others
read it (models/llm/vllm/model.py). Without FILE: made-up dialogues of about 650 tokens.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice

import numpy as np
from prefix_likelihood import dialogue as made_up_dialogue

from medal_judges.models.followup.pool import load_pool
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    Continuation,
    LanguageModel,
    Likelihood,
    chat_messages,
)
from medal_judges.models.llm.vllm.model import VllmModel
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


def timed(llm: LanguageModel, groups: Groups) -> tuple[float, list[list[Likelihood]]]:
    """Returns seconds and likelihoods of all groups, after a short run that warms the backend."""
    llm.loglikelihood([groups[0][:2]])
    if isinstance(llm, VllmModel):
        llm.engine.reset_prefix_cache()
    start = time.perf_counter()
    likelihoods = llm.loglikelihood(groups)
    return time.perf_counter() - start, likelihoods


def anew(llm: VllmModel, groups: Groups) -> tuple[float, list[list[Likelihood]]]:
    """Returns the same, with each prompt read whole."""
    sequences = [[llm.sequence(continuation) for continuation in group] for group in groups]
    llm.engine.reset_prefix_cache()
    start = time.perf_counter()
    likelihoods = []
    for group in sequences:
        scored = llm._scored(group, range(len(group)), read_cache=False)
        likelihoods.append([scored[index] for index in range(len(group))])
    return time.perf_counter() - start, likelihoods


def logprobs_of(likelihoods: list[list[Likelihood]]) -> np.ndarray:
    return np.concatenate([item.logprobs for group in likelihoods for item in group])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--model", default="embedded:smollm2")
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--pool", default="followups/craft")
    options = parser.parse_args()
    groups = groups_of(options)
    settings = {"dtype": "fp32", "context": 4096}
    base_seconds, base = timed(load_llm({"model": options.model, **settings}), groups)
    print(f"transformers: {base_seconds:.1f} s for {len(groups)} x {len(groups[0])}")
    engine = load_llm({"model": f"vllm:{options.model}", "enforce_eager": True, **settings})
    assert isinstance(engine, VllmModel)
    for name, way in (("cached", timed), ("anew", anew)):
        seconds, likelihoods = way(engine, groups)
        difference = np.abs(logprobs_of(likelihoods) - logprobs_of(base)).max()
        print(
            f"vLLM, {name}: {seconds:.1f} s, {base_seconds / seconds:.2f} times as fast as "
            f"transformers, largest difference {difference:.1e} nats"
        )
    engine.close()


if __name__ == "__main__":
    main()
