"""Follow-up likelihoods and prompted answers of one small language model on a CPU, against peers.

    python benchmarks/llm_against_peers.py [--llama PYTHON] [--dialogues 8] [--keep llm_peers]

SmolLM2-135M in 4 bits, one GGUF file: read by us (made into floats once) in fp32 and bf16, with the
tree of shared prefixes and as one pass a follow-up; and by llama.cpp's library, which multiplies
the 4-bit weights and reads what is common once (``--llama``: a Python that has ``llama_cpp``). Each
way is a process of its own, after one dialogue that is not timed.

*Likelihoods*: the twelve follow-ups of configs/followups/craft.yaml after each conversation.
*Answers*: five questions of ORALIS about each, 16 tokens by greedy decoding. Tokens/s count every
distinct token of a conversation's questions once, whatever a way computes, and the tokens written.
Agreement is with ours in fp32: nats a token and Spearman of the follow-ups' sums; same answers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from into_docs import keep
from scipy.stats import spearmanr

from medal_judges.models.model_files import packaged_file

MODEL = "embedded:smollm2"
LIBRARY = "llama.cpp's library, 4 bits"
WAYS = ("fp32", "bf16", "one pass each, fp32", "one pass each, bf16", LIBRARY)
TOKENS = 16  # of an answer
QUESTIONS = 5
CONTEXT = 2048


def dialogues(count: int) -> list[Any]:
    """Chit-chat conversations of 8 to 20 turns; the first is for warming up."""
    from medal_judges.data_prep.sources.registry import load_rows

    rows = (row.dialogue for row in load_rows("chitchat"))
    chosen = (d for d in rows if 8 <= len(d.turns) <= 20 and len(d.assistant_turns) > 2)
    return [next(chosen) for _ in range(count + 1)]


def follow_ups(dialogue: Any) -> list[Any]:
    """The continuations of one conversation."""
    from medal_judges.models.followup.pool import load_pool
    from medal_judges.models.llm.protocol import Continuation, chat_messages

    messages = chat_messages(dialogue)[: dialogue.assistant_turns[-1] + 1]
    texts = [f.text for f in load_pool("followups/craft").follow_ups]
    return [
        Continuation(tuple(messages), text, role="user", score_eos=False)
        for text in texts
    ]


def questions(llm: Any, talks: Sequence[Any]) -> list[Any]:
    """Chat requests: the first five dimensions of ORALIS about each conversation."""
    from dataclasses import replace

    from medal_judges.config import read_yaml
    from medal_judges.models.base.judge import make_score_requests
    from medal_judges.models.prompted.judge import PromptedJudge

    settings = read_yaml("judges/oralis") | {
        "llm": llm,
        "layout": "shared",
        "answer": "number",
    }
    settings |= {"max_tokens": TOKENS, "expected": "none"}
    del settings["family"]
    judge = PromptedJudge.from_settings(settings)
    asked = []
    for talk in talks:
        items = make_score_requests(talk, "dialogue")
        judge._prepare(items)
        for question in judge.builder_for(items[0]).questions[:QUESTIONS]:
            asked += judge._chat_requests(items[0], question)
    return [replace(request, accept_truncated=True) for request in asked]


# -- one way, in a process of its own --------------------------------------------------------------


def ours(way: str, count: int, threads: int) -> dict[str, Any]:
    """What this package takes and says."""
    import torch

    from medal_judges.models.llm.local.model import load_local
    from medal_judges.models.llm.settings import TransformersLLM

    torch.set_num_threads(threads)
    start = time.perf_counter()
    llm: Any = load_local(
        TransformersLLM(model=MODEL, dtype="bf16" if "bf16" in way else "fp32")
    )
    seconds = {"load": time.perf_counter() - start}
    if "one pass" in way:
        llm._shared = False
    first, *talks = dialogues(count)
    llm.loglikelihood([follow_ups(first)])
    groups = [follow_ups(talk) for talk in talks]
    start = time.perf_counter()
    values = llm.loglikelihood(groups)
    seconds["likelihoods"] = time.perf_counter() - start
    texts: list[str] = []
    if "one pass" not in way:
        llm.chat(questions(llm, [first]))
        asked = questions(llm, talks)
        start = time.perf_counter()
        texts = [completion.text for completion in llm.chat(asked)]
        seconds["answers"] = time.perf_counter() - start
    logprobs = [[list(each.logprobs) for each in group] for group in values]
    return {"seconds": seconds, "logprobs": logprobs, "texts": texts}


def by_library(count: int, threads: int, python: str) -> dict[str, Any]:
    """What llama.cpp's library takes and says: no server, log-probabilities of token ids."""
    from transformers import AutoTokenizer

    from medal_judges.models.llm.chat_template import ChatTemplate
    from medal_judges.models.llm.local.weights import find_or_convert_model

    template = ChatTemplate(AutoTokenizer.from_pretrained(find_or_convert_model(MODEL)))
    asked = []
    for talk in dialogues(count):
        sequences = [template.to_sequence(c) for c in follow_ups(talk)]
        asked.append([{"ids": list(s.ids), "start": s.start} for s in sequences])
    script = Path(__file__).with_name("llama_reading.py")
    numbers = [str(threads), str(CONTEXT)]
    done = subprocess.run(
        [python, str(script), str(packaged_file("smollm2")), *numbers],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        check=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )
    reading, load, logprobs = json.loads(done.stdout.splitlines()[-1])
    return {
        "seconds": {"load": load, "likelihoods": reading},
        "logprobs": logprobs,
        "texts": [],
    }


# -- the table -------------------------------------------------------------------------------------


def distinct(count: int) -> tuple[int, int]:
    """(distinct tokens of the follow-ups' sequences, distinct tokens of the questions)."""
    from medal_judges.models.llm.chat_template import TokenSequence
    from medal_judges.models.llm.local.likelihood import build_tree
    from medal_judges.models.llm.local.model import load_local
    from medal_judges.models.llm.settings import TransformersLLM

    llm: Any = load_local(TransformersLLM(model=MODEL))
    talks = dialogues(count)[1:]
    reading = sum(
        build_tree([llm.to_sequence(c) for c in follow_ups(t)]).size for t in talks
    )
    asking = 0
    for talk in talks:
        asked = questions(llm, [talk])
        prompts = [llm.template.prefix_ids(r.messages, "assistant") for r in asked]
        asking += build_tree(
            [TokenSequence(tuple(p), len(p) - 1) for p in prompts]
        ).size
    return reading, asking


def rows_of(told: dict[str, Any], count: int) -> list[dict[str, str]]:
    """A row a way."""
    reading, asking = distinct(count)
    base = told["fp32"]
    rows = []
    for way, said in told.items():
        seconds = said["seconds"]
        row = {"way": way, "load s": f"{seconds['load']:.1f}"}
        if "likelihoods" in seconds:
            row["likelihoods tokens/s"] = f"{reading / seconds['likelihoods']:,.0f}"
            row["dialogues/s"] = f"{count / seconds['likelihoods']:.3g}"
            pairs = [
                (one, other)
                for group, own in zip(base["logprobs"], said["logprobs"], strict=True)
                for one, other in zip(group, own, strict=True)
            ]
            apart = np.concatenate([np.abs(np.subtract(a, b)) for a, b in pairs])
            row["nats a token apart"] = f"{apart.mean():.2g}"
            sums = np.array([[sum(one), sum(other)] for one, other in pairs])
            row["Spearman"] = f"{spearmanr(sums[:, 0], sums[:, 1]).statistic:.5f}"
        if "answers" in seconds:
            answers = len(base["texts"])
            row["answers tokens/s"] = (
                f"{(asking + TOKENS * answers) / seconds['answers']:,.0f}"
            )
            row["answers/s"] = f"{answers / seconds['answers']:.2f}"
            alike = np.mean(
                [a == b for a, b in zip(base["texts"], said["texts"], strict=False)]
            )
            row["same answers"] = f"{alike:.0%}"
        row["peak memory, MB"] = f"{said['peak']:,.0f}"
        rows.append(row)
    return rows


def child(way: str, options: argparse.Namespace) -> None:
    """Run one way and print what it found."""
    if way == LIBRARY:
        said = by_library(options.dialogues, options.threads, options.llama)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    else:
        said = ours(way, options.dialogues, options.threads)
        usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps(said | {"peak": usage.ru_maxrss / 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--dialogues", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--llama", metavar="PYTHON")
    parser.add_argument("--keep", metavar="NAME", help="of docs/results/data/NAME.csv")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options)
        return
    told = {}
    for way in WAYS:
        if way == LIBRARY and not options.llama:
            continue
        done = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--child", way],
            stdout=subprocess.PIPE,
            check=True,
            env=os.environ | {"OMP_NUM_THREADS": str(options.threads)},
        )
        told[way] = json.loads(done.stdout.splitlines()[-1])
    rows = rows_of(told, options.dialogues)
    names = list(rows[0])
    lines = [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]
    for row in rows:
        lines.append(f"| {' | '.join(row.get(name, '–') for name in names)} |")
    keep(options.keep, "\n".join(lines))


if __name__ == "__main__":
    main()
