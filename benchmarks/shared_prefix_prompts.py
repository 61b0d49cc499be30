"""What it saves that the dialogue stands before the question, in one run.

    python benchmarks/shared_prefix_prompts.py [--llm embedded:smollm2] [--tokens 650]

Ten dimensions of one dialogue (ORALIS): all requests in one call, with the dialogue first
(``shared``) and with the dialogue last (``paper``), and one call a request, where nothing can be
shared (``one by one``). The same prompts give the same answers with and without sharing, which is
checked. Answers are a few tokens long, so that reading the prompts is what is timed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from medal_judges.config import read_yaml
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.models.base.judge import requests_at
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Completion, LanguageModel, Message
from medal_judges.models.prompted.judge import PromptedJudge
from medal_judges.records.dialogue import Dialogue

Answers = list[Completion]


def dialogue_of(llm: LanguageModel, tokens: int) -> Dialogue:
    """The chit-chat conversation whose length is nearest to ``tokens``."""
    rows = [r.dialogue for r in load_spec("chitchat") if r.dialogue.assistant_turns]

    def length(dialogue: Dialogue) -> int:
        return llm.count_tokens([Message("user", "\n".join(t.content for t in dialogue.turns))])

    near = [d for d in rows if 2 * tokens < sum(len(t.content) for t in d.turns) < 8 * tokens]
    return min(near[:100], key=lambda d: abs(length(d) - tokens))


def requests_of(llm: LanguageModel, dialogue: Dialogue, layout: str) -> list[ChatRequest]:
    """The ten requests that ORALIS makes about one dialogue."""
    settings = read_yaml("judges/oralis") | {"llm": llm, "layout": layout, "answer": "number"}
    del settings["family"]
    judge = PromptedJudge.from_settings(settings | {"max_tokens": 4, "expected": "none"})
    items = requests_at(dialogue, "dialogue")
    judge._prepare(items)
    questions = judge.builder(items[0]).questions
    return [request for q in questions for request in judge._chat_requests(items[0], q)]


def timed(run: Callable[[], Answers], repeats: int) -> tuple[float, Answers]:
    """Best of ``repeats`` runs, in seconds, and the answers."""
    best, answers = float("inf"), Answers()
    for _ in range(repeats):
        start = time.perf_counter()
        answers = run()
        best = min(best, time.perf_counter() - start)
    return best, answers


def one_by_one(llm: LanguageModel, requests: Sequence[ChatRequest]) -> Answers:
    """A call for each request: every prompt is read whole."""
    return [completion for request in requests for completion in llm.chat([request])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--llm", default="embedded:smollm2")
    parser.add_argument("--tokens", type=int, nargs="+", default=[150, 650])
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    llm = load_llm(options.llm)
    table = Table("dialogue", "way", "prompt tokens", "read before", "seconds", "times as fast")
    for tokens in options.tokens:
        dialogue = dialogue_of(llm, tokens)
        shared = requests_of(llm, dialogue, "shared")
        paper = requests_of(llm, dialogue, "paper")
        plain, apart = timed(lambda r=shared: one_by_one(llm, r), options.repeats)
        together, joint = timed(lambda r=shared: llm.chat(r), options.repeats)
        last, late = timed(lambda r=paper: llm.chat(r), options.repeats)
        if [c.text for c in apart] != [c.text for c in joint]:
            raise SystemExit("shared and unshared prompts gave different answers")
        ways = (("one by one", plain, apart), ("paper", last, late), ("shared", together, joint))
        for way, seconds, answers in ways:
            read = sum(c.usage.input for c in answers)
            cached = sum(c.usage.cached for c in answers)
            cells = (f"{seconds:.2f}", f"{plain / seconds:.2f}")
            table.add_row(f"~{tokens} tokens", way, str(read), str(cached), *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
