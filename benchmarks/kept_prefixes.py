"""What keeping key-value states saves: positions computed and seconds, with and without, one run.

    python benchmarks/kept_prefixes.py [--dialogues 4] [--contexts 3] [--keep kept_prefixes]

SmolLM2 in fp32. *Positions* are those that the model computes, padding among them: a count that no
load of the machine changes. *Without* shares what prompts of one call have in common and nothing
between calls (``llm.prefix_cache: 0``). *Questions one by one*: ORALIS' ten questions about each
conversation, each a call of its own. *Answer and weights*: MEDAL's judge, whose answer is written
and whose ratings are then weighed where it stands. *Generation*: the quickstart's protocol, all
roles by the one model.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from into_docs import keep
from llm_against_peers import dialogues
from shared_prefix_prompts import requests_of

from medal_judges.config import load_config, read_yaml
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.run import GenerationRun
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.prompted.judge import PromptedJudge


def one_by_one(llm: LocalModel, talks: Sequence[Any], _: int) -> object:
    """The texts of the answers."""
    asked = [request for talk in talks for request in requests_of(llm, talk, "shared")]
    return [llm.chat([request])[0].text for request in asked]


def weighed(llm: LocalModel, talks: Sequence[Any], _: int) -> object:
    """The scores, to three digits."""
    settings = read_yaml("judges/medal") | {"llm": llm, "max_tokens": 48}
    settings |= {"expected": "likelihood", "score": "expected"}
    for key in ("family", "languages"):
        settings.pop(key, None)
    judge = PromptedJudge.from_settings(settings)
    scores = [dict(one.scores) for one in judge.score(talks)]
    return [{k: None if v is None else round(v, 3) for k, v in one.items()} for one in scores]


def generated(llm: LocalModel, _: Sequence[Any], contexts: int) -> object:
    """What was said."""
    with tempfile.TemporaryDirectory() as folder:
        agent = f"{{name: smollm2, llm: {{model: 'embedded:smollm2', prefix_cache: {GIB[llm]}}}}}"
        overrides = [
            *(f"contexts.n={contexts}", f"out={folder}/run", "languages=[en]", "max_turns=8"),
            *(f"users=[{agent}]", f"user_judge={agent}", f"chatbots=[{agent}]"),
        ]
        GenerationRun(load_config(GenerateConfig, "generate/quickstart", overrides)).run()
        return Path(folder, "run", "dialogues.jsonl").read_text(encoding="utf-8").splitlines()


GIB: dict[LocalModel, float] = {}
CASES: dict[str, Callable[[LocalModel, Sequence[Any], int], object]] = {
    "questions one by one": one_by_one,
    "answer and weights": weighed,
    "generation": generated,
}


def measured(gib: float, case: str, options: argparse.Namespace) -> tuple[int, float, object]:
    """(positions, seconds, what was said) of ``case`` with so many GiB."""
    llm: Any = load_llm({"model": "embedded:smollm2", "prefix_cache": gib})
    GIB[llm] = gib
    positions = 0

    def count(_: object, __: object, kwargs: dict[str, Any]) -> None:
        nonlocal positions
        positions += kwargs["input_ids"].numel()

    llm.paths  # noqa: B018 - the probes are not counted
    llm.close()
    hook = llm.model.register_forward_pre_hook(count, with_kwargs=True)
    start = time.perf_counter()
    said = CASES[case](llm, dialogues(options.dialogues)[1:], options.contexts)
    seconds = time.perf_counter() - start
    hook.remove()
    return positions, seconds, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--dialogues", type=int, default=4)
    parser.add_argument("--contexts", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--keep", metavar="NAME", help="write docs/results/data/NAME.csv")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    lines = [
        "| | positions without | with | seconds without | with | same answers |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for case in options.cases:
        plain, before, said = measured(0.0, case, options)
        kept, after, again = measured(1.0, case, options)
        same = "yes" if said == again else "no"
        lines.append(f"| {case} | {plain:,} | {kept:,} | {before:.1f} | {after:.1f} | {same} |")
    keep(options.keep, "\n".join(lines))


if __name__ == "__main__":
    main()
