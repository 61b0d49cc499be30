"""Generation of many dialogues together against one at a time, on the embedded model, in one run.

    python benchmarks/generation_batching.py [--contexts 8] [--dtype bf16]

SmolLM2 plays all roles. The same dialogues are generated twice into folders of their own: with one
dialogue under way at a time, and with all of them. The figure is answers a second, since sampled
texts may differ in their last digits' ties; the prompts, limits and seeds are the same.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from medal_judges.config import load_config
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.run import GenerationRun
from medal_judges.models.llm.loading import load_llm


def generated(at_once: int, contexts: int, dtype: str, folder: str) -> tuple[int, int, float]:
    """(dialogues, answers, seconds) of a run with so many dialogues under way."""
    out = Path(folder) / str(at_once)
    agent = f"{{name: smollm2, llm: {llm(dtype)}}}"
    overrides = [
        *(f"contexts.n={contexts}", f"at_once={at_once}", f"out={out}", "languages=[en]"),
        *(f"users=[{agent}]", f"user_judge={agent}", f"chatbots=[{agent}]"),
    ]
    run = GenerationRun(load_config(GenerateConfig, "generate/quickstart", overrides))
    start = time.perf_counter()
    run.run()
    return run.counts.finished, run.requests, time.perf_counter() - start


def llm(dtype: str) -> dict[str, str]:
    """The ``llm`` setting."""
    return {"model": "embedded:smollm2", "dtype": dtype}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=8)
    parser.add_argument("--dtype", default="fp32", help="fp32, or bf16 where the CPU has it")
    given = parser.parse_args()
    contexts, dtype = given.contexts, given.dtype
    with tempfile.TemporaryDirectory() as folder:
        model = load_llm(llm(dtype))  # loaded outside the clock; both runs share it
        rates = {}
        for at_once in (1, contexts):
            dialogues, answers, seconds = generated(at_once, contexts, dtype, folder)
            rates[at_once] = answers / seconds
            print(
                f"{at_once} at once: {dialogues} dialogues, {answers} answers, {seconds:.1f} s, "
                f"{rates[at_once]:.2f} answers/s"
            )
        ratio = rates[contexts] / rates[1]
        print(f"{model.name}, {dtype}: speed-up {ratio:.1f} x in answers a second")


if __name__ == "__main__":
    main()
