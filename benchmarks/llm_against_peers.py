"""Follow-up likelihoods and prompted answers of one small language model on a CPU, against peers.

    python benchmarks/llm_against_peers.py [--server PYTHON] [--dialogues 8] [--told FILE]
        [--keep llm_peers]

SmolLM2-135M in 4 bits, one GGUF file: read by us (made into floats once) in fp32 and bf16, with the
tree of shared prefixes and as one pass a follow-up; and by llama.cpp, which multiplies the 4-bit
weights: its library (what is common read once) and its server of llama-cpp-python (``--server``: a
Python that has ``llama_cpp`` and its server). Each way is a process of its own, after one dialogue
that is not timed; with ``--told`` they may be run in several calls.

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
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from into_docs import keep
from scipy.stats import spearmanr

from medal_judges.models.model_files import embedded_file

MODEL = "embedded:smollm2"
LIBRARY, SERVER = "llama.cpp's library, 4 bits", "llama.cpp's server, 4 bits"
WAYS = ("fp32", "bf16", "one pass each, fp32", "one pass each, bf16", LIBRARY, SERVER)
TOKENS = 16  # of an answer
QUESTIONS = 5
CONTEXT = 2048


def dialogues(count: int) -> list[Any]:
    """Chit-chat conversations of 8 to 20 turns; the first is for warming up."""
    from medal_judges.data_prep.sources.registry import load_spec

    rows = (row.dialogue for row in load_spec("chitchat"))
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
    from medal_judges.models.base.judge import requests_at
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
        items = requests_at(talk, "dialogue")
        judge._prepare(items)
        for question in judge.builder(items[0]).questions[:QUESTIONS]:
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


def chat_template() -> Any:
    from transformers import AutoTokenizer

    from medal_judges.models.llm.chat_template import ChatTemplate
    from medal_judges.models.llm.local.weights import model_path

    return ChatTemplate(AutoTokenizer.from_pretrained(model_path(MODEL)))


def by_library(count: int, threads: int, server: str) -> dict[str, Any]:
    """What llama.cpp's library takes and says: no server, log-probabilities of token ids."""
    template = chat_template()
    groups = [
        [template.sequence(c) for c in follow_ups(talk)] for talk in dialogues(count)
    ]
    asked = [
        [{"ids": list(s.ids), "start": s.start} for s in group] for group in groups
    ]
    script = Path(__file__).with_name("llama_reading.py")
    done = subprocess.run(
        [
            server,
            str(script),
            str(embedded_file("smollm2")),
            str(threads),
            str(CONTEXT),
        ],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        check=True,
        env=_foreign(),
    )
    reading, load, logprobs = json.loads(done.stdout.splitlines()[-1])
    return {
        "seconds": {"load": load, "likelihoods": reading},
        "logprobs": logprobs,
        "texts": [],
    }


def served(count: int, threads: int, server: str, echo: int) -> dict[str, Any]:
    """What llama.cpp's server takes and says. Its likelihoods are an echo of the prompt with
    log-probabilities (a server of its own: it must keep the logits of the whole prompt); it sorts
    the vocabulary for each token of it, so that ``echo`` follow-ups of the first conversation are
    asked, and their time is taken for all; of the answers, those about two conversations."""
    from medal_judges.models.llm.loading import load_llm

    template = chat_template()
    first, *talks = dialogues(count)
    seconds: dict[str, float] = {}
    logprobs: list[list[list[float]]] = []
    if echo:
        with llama(server, threads, "--logits_all", "true") as (url, seconds["load"]):
            asked = follow_ups(talks[0])
            start = time.perf_counter()
            logprobs = [
                [echoed(url, template.sequence(c), template) for c in asked[:echo]]
            ]
            each = (time.perf_counter() - start) / echo
            seconds["likelihoods"] = each * len(asked) * len(talks)
    with llama(server, threads) as (url, loading):
        seconds.setdefault("load", loading)
        llm = load_llm(
            {
                "model": "smollm2",
                "backend": "openai",
                "base_url": f"{url}/v1",
                "cache": False,
            }
            | {
                "context": CONTEXT,
                "max_in_flight": 1,
                "api_key_env": "HOME",
            }
        )
        llm.chat(questions(llm, [first])[:1])
        chats = questions(llm, talks[:2])
        start = time.perf_counter()
        texts = [completion.text for completion in llm.chat(chats)]
        seconds["answers"] = (time.perf_counter() - start) * len(talks) / len(talks[:2])
    return {"seconds": seconds, "logprobs": logprobs, "texts": texts}


def _foreign() -> dict[str, str]:
    """The environment without this package."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


@contextmanager
def llama(server: str, threads: int, *more: str) -> Iterator[tuple[str, float]]:
    """(address, seconds until it answered) of a server of the GGUF file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        server,
        "-m",
        "llama_cpp.server",
        "--model",
        str(embedded_file("smollm2")),
    ]
    command += [
        "--port",
        str(port),
        "--n_ctx",
        str(CONTEXT),
        "--n_threads",
        str(threads),
    ]
    command += ["--n_threads_batch", str(threads), "--verbose", "false", *more]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=_foreign(), stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                urllib.request.urlopen(f"{url}/v1/models", timeout=5).read()
                break
            except (urllib.error.URLError, OSError):
                if process.poll() is not None:
                    raise SystemExit(
                        f"{' '.join(command)} ended with {process.returncode}"
                    ) from None
                time.sleep(0.1)
        yield url, time.perf_counter() - start
    finally:
        process.terminate()
        process.wait()


def echoed(url: str, sequence: Any, template: Any) -> list[float]:
    """Log-probabilities of the scored tokens of ``sequence``: the last of the echo but for the one
    that is written. (The echo leaves out each mark that begins a turn.)"""
    text = template.tokenizer.decode(sequence.ids)
    body = {
        "prompt": text,
        "max_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": 1,
    }
    request = urllib.request.Request(
        f"{url}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        told = json.load(answer)
    if told["usage"]["prompt_tokens"] != len(sequence.ids):
        raise SystemExit("llama.cpp reads other tokens than were sent")
    marks = sequence.ids.count(template.tokenizer.bos_token_id)
    end = len(sequence.ids) - marks
    own = len(sequence.ids) - sequence.start
    values = told["choices"][0]["logprobs"]["token_logprobs"][end - own : end]
    return [float(value) for value in values]


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
        build_tree([llm.sequence(c) for c in follow_ups(t)]).size for t in talks
    )
    asking = 0
    for talk in talks:
        prompts = [
            llm.template.prefix(r.messages, "assistant") for r in questions(llm, [talk])
        ]
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
            row["conversations/s"] = f"{count / seconds['likelihoods']:.3g}"
            pairs = [  # the server is asked for some of them
                (one, other)
                for group, own in zip(base["logprobs"], said["logprobs"], strict=False)
                for one, other in zip(group, own, strict=False)
            ]
            apart = np.concatenate([np.abs(np.subtract(a, b)) for a, b in pairs])
            row["nats a token apart"] = f"{apart.mean():.2g}"
            sums = np.array([[sum(one), sum(other)] for one, other in pairs])
            if len(pairs) > 5:
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
        row["peak MB"] = f"{said['peak']:,.0f}"
        rows.append(row)
    return rows


def child(way: str, options: argparse.Namespace) -> None:
    """Run one way and print what it found."""
    if way.startswith("llama"):
        asked = (options.dialogues, options.threads, options.server)
        said = by_library(*asked) if way == LIBRARY else served(*asked, options.echo)
        said["peak"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    else:
        said = ours(way, options.dialogues, options.threads)
        said["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(said))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--dialogues", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--server", help="a Python with llama_cpp and its server")
    parser.add_argument(
        "--echo", type=int, default=3, help="follow-ups asked of the server"
    )
    parser.add_argument(
        "--told", type=Path, help="a file of earlier ways' findings, added to"
    )
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument(
        "--keep", metavar="NAME", help="write docs/results/data/NAME.csv"
    )
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options)
        return
    told = {}
    if options.told and options.told.is_file():
        told = json.loads(options.told.read_text())
    for way in options.ways:
        if way in told or (way.startswith("llama") and not options.server):
            continue
        done = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--child", way],
            stdout=subprocess.PIPE,
            check=True,
            env=os.environ | {"OMP_NUM_THREADS": str(options.threads)},
        )
        told[way] = json.loads(done.stdout.splitlines()[-1])
        if options.told:
            options.told.write_text(json.dumps(told))
    rows = rows_of(told, options.dialogues)
    names = list(rows[0])
    lines = [
        "| " + " | ".join(names) + " |",
        "| " + " | ".join(["---"] * len(names)) + " |",
    ]
    lines += [
        "| " + " | ".join(row.get(name, "–") for name in names) + " |" for row in rows
    ]
    keep(options.keep, "\n".join(lines))


if __name__ == "__main__":
    main()
