"""Shared-prefix likelihoods against the plain loop, in one run: ratios, beside the floor.

    python benchmarks/prefix_likelihood.py [--model embedded:smollm2] [--dtype fp32] [--threads 2]

Case 1: 12 follow-ups after a dialogue of about 650 tokens. Case 2: 12 follow-ups after each
assistant turn of a 20-turn dialogue. *Plain* is one forward pass a follow-up; *floor* is one pass
of the model's body over as many tokens as there are distinct ones: the least any method computes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from medal_judges.models.followup.pool import load_pool
from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.likelihood import (
    build_tree,
    plain_logprobs,
    tree_logprobs,
)
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import Continuation, Message

SENTENCES = (
    "Yesterday I walked along the river with my neighbour and his two old dogs.",
    "We talked about the garden, and whether tomatoes will do well this year.",
    "It rained in the afternoon, so I stayed in and read about the history of trains.",
    "Do you have any plans for the holidays, or will you be working again?",
)


def dialogue(turns: int, sentences: int) -> tuple[Message, ...]:
    """``turns`` messages of ``sentences`` sentences each, no two alike."""
    return tuple(
        Message(
            "user" if i % 2 == 0 else "assistant",
            f"{i + 1}. " + " ".join(SENTENCES[(i + k) % 4] for k in range(sentences)),
        )
        for i in range(turns)
    )


def timed(run: Callable[[], object], repeats: int) -> float:
    """Least seconds of ``repeats`` runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def report(
    name: str, llm: LocalModel, group: Sequence[Continuation], repeats: int
) -> None:
    sequences: list[TokenSequence] = [llm.template.sequence(c) for c in group]
    distinct = build_tree(sequences).size
    everything = torch.zeros((1, distinct), dtype=torch.long, device=llm.model.device)
    shared, _ = tree_logprobs(llm.model, sequences)
    plain, _ = plain_logprobs(llm.model, sequences)
    difference = max(
        float(np.abs(a - b).max()) for a, b in zip(shared, plain, strict=True)
    )
    with torch.inference_mode():
        floor = timed(lambda: llm.model.base_model(everything), repeats)
    ours = timed(lambda: tree_logprobs(llm.model, sequences), repeats)
    loop = timed(
        lambda: plain_logprobs(llm.model, sequences), 1 if len(group) > 20 else repeats
    )
    longest = max(s.start for s in sequences)
    print(
        f"{name}: {len(group)} follow-ups, prefix of {longest} tokens, {distinct} distinct tokens "
        f"of {sum(len(s.ids) for s in sequences)}\n"
        f"  plain {loop:.2f} s, shared {ours:.2f} s: {loop / ours:.1f} times as fast\n"
        f"  floor {floor:.2f} s: shared takes {ours / floor:.2f} times the floor\n"
        f"  largest difference {difference:.1e} nats"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="embedded:smollm2")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    llm = load_llm({"model": options.model, "dtype": options.dtype})
    assert isinstance(llm, LocalModel)
    texts = [f.text for f in load_pool("followups/craft").follow_ups]
    long = dialogue(12, 3)
    report(
        "one place",
        llm,
        [Continuation(long, t, role="user") for t in texts],
        options.repeats,
    )
    talk = dialogue(20, 2)
    places = [
        Continuation(talk[:end], text, role="user")
        for end in range(2, 21, 2)
        for text in texts
    ]
    report("every assistant turn", llm, places, options.repeats)


if __name__ == "__main__":
    main()
