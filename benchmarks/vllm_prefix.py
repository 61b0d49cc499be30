"""DIET's likelihoods over a file with vLLM, its prefix shared and not, beside transformers.

    python benchmarks/vllm_prefix.py FILE.jsonl --model Qwen/Qwen2.5-7B-Instruct [--limit 200]

For a machine with a GPU and the extra ``vllm`` (which wants an environment of its own). Each
backend scores the same follow-ups after each dialogue's last answer; printed are seconds, dialogues
and tokens a second, the ratio to transformers with a shared prefix (llm/local/prefix.py), the
largest difference of a token's log-probability, and Spearman's correlation of the DIET values.
*Distinct* tokens are those that any method has to read at least.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from itertools import islice

import numpy as np
import torch
from scipy.stats import spearmanr

from medal_judges.models.followup.pool import load_pool
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.likelihood import build_tree
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import (
    Continuation,
    LanguageModel,
    Likelihood,
    chat_messages,
    first_turn_that_fits,
)
from medal_judges.models.llm.vllm.model import VLLMModel
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.records.dialogue import Dialogue

SPARE = 64  # tokens kept free for a follow-up
Groups = list[list[Continuation]]
Scored = list[list[Likelihood]]


def groups_of(dialogues: Sequence[Dialogue], texts: Sequence[str], llm: LanguageModel) -> Groups:
    """The follow-ups after the last answer of each dialogue; oldest turns give way."""
    groups = []
    for dialogue in dialogues:
        messages = chat_messages(dialogue)[: dialogue.assistant_turns[-1] + 1]
        kept = messages[first_turn_that_fits(messages, llm, llm.context - SPARE) :]
        groups.append([Continuation(kept, text, role="user") for text in texts])
    return groups


def tokens_of(groups: Groups, template: ChatTemplate) -> tuple[int, int]:
    """(tokens of all sequences, distinct ones)."""
    every = distinct = 0
    for group in groups:
        sequences = [template.sequence(c) for c in group]
        every += sum(len(s.ids) for s in sequences)
        distinct += build_tree(sequences).size
    return every, distinct


def timed(llm: LanguageModel, groups: Groups) -> tuple[float, Scored]:
    """Seconds for all groups, after a short run that warms the backend."""
    llm.loglikelihood(groups[:2])
    start = time.perf_counter()
    found = llm.loglikelihood(groups)
    return time.perf_counter() - start, found


def with_vllm(options: argparse.Namespace, groups: Groups) -> dict[str, tuple[float, Scored]]:
    """One engine, first with each prefix read anew, then with prefixes shared."""
    settings = {"dtype": options.dtype, "context": options.context}
    llm = load_llm({"backend": "vllm", "model": options.model, **settings})
    assert isinstance(llm, VLLMModel)
    found = {}
    for name, share in (("vllm, prefix anew", False), ("vllm, prefix shared", True)):
        llm.share_prefix = share
        llm.engine.reset_prefix_cache()
        found[name] = timed(llm, groups)
    llm.close()
    return found


def report(
    runs: dict[str, tuple[float, Scored]], every: int, distinct: int, dialogues: int
) -> None:
    base_seconds, base = runs["transformers"]
    print(f"{dialogues} dialogues, {every} tokens, {distinct} distinct")
    for name, (seconds, found) in runs.items():
        difference = max(
            abs(x - y)
            for group, other in zip(found, base, strict=True)
            for a, b in zip(group, other, strict=True)
            for x, y in zip(a.logprobs, b.logprobs, strict=True)
        )
        diet = [[-float(np.mean([a.mean for a in g])) for g in scored] for scored in (found, base)]
        rho = spearmanr(*diet).statistic if dialogues > 2 else None
        print(
            f"{name}: {seconds:.1f} s, {dialogues / seconds:.2f} dialogues/s, "
            f"{every / seconds:.0f} tokens/s ({distinct / seconds:.0f} distinct), "
            f"{base_seconds / seconds:.2f} times transformers, "
            f"largest difference {difference:.1e} nats, Spearman {rho}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--model", default="embedded:smollm2")
    parser.add_argument("--dtype", default="bf16", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--pool", default="followups/craft")
    options = parser.parse_args()
    heard = (d for d in read_dialogues(options.file) if d.assistant_turns)
    dialogues = list(islice(heard, options.limit))
    local = load_llm({"model": options.model, "dtype": options.dtype, "context": options.context})
    assert isinstance(local, LocalModel)
    local.context -= 1  # as vLLM's, see there
    groups = groups_of(dialogues, [f.text for f in load_pool(options.pool).follow_ups], local)
    every, distinct = tokens_of(groups, local.template)
    runs = {"transformers": timed(local, groups)}
    del local
    gc.collect()
    torch.cuda.empty_cache()  # vLLM takes its share of the whole memory
    runs |= with_vllm(options, groups)
    report(runs, every, distinct, len(dialogues))


if __name__ == "__main__":
    main()
