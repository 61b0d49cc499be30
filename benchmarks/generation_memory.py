"""Memory of `medal generate` at MEDAL's size: 38,400 dialogues, and a run that takes them up again.

    python benchmarks/generation_memory.py [--contexts 400] [--at-once 512]

Stand-ins answer at once, with filler of the paper's lengths, so that nothing but the protocol, the
journal and the files is measured. Each figure is of a process of its own: peak resident memory as
the kernel tells it, less what the imports take.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn


def child(folder: Path, contexts: int, at_once: int) -> None:
    """Run or go on, and print what it took."""

    from medal_judges.config import load_config
    from medal_judges.data_prep.generation.protocol import GenerateConfig
    from medal_judges.data_prep.generation.run import ACCEPTANCE, WORDS, GenerationRun
    from medal_judges.data_prep.jobs import Agents
    from medal_judges.models.llm.cost import Usage
    from medal_judges.models.llm.protocol import (
        ChatRequest,
        Completion,
        LanguageModel,
        Message,
        prompt_tokens_above,
    )

    stages = {"user": "say", "judge": "check", "chatbot": "reply"}

    class StandIn(LanguageModel):
        """Takes the place of an agent and answers with filler at once."""

        def __init__(self, agent: str) -> None:
            self.name, self.context = agent, 1_000_000
            self.stage = stages[agent.partition(":")[0]]

        def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
            text = " ".join(["words"] * WORDS[self.stage])
            texts = [text] * len(requests)
            if self.stage == "check":
                accepted = [(r.seed or 0) % 1000 < 1000 * ACCEPTANCE for r in requests]
                texts = ["Yes." if each else f"No. {text}" for each in accepted]
            return [Completion(text, usage=Usage(50, output=20)) for text in texts]

        def count_tokens(self, messages: Sequence[Message]) -> int:
            return prompt_tokens_above(messages)

        def loglikelihood(self, *_: object, **__: object) -> NoReturn:
            raise NotImplementedError

        def fingerprint(self) -> Mapping[str, str]:
            return {}

    class StandIns(Agents):
        """Agents that are stand-ins."""

        def __init__(self, config: GenerateConfig) -> None:
            super().__init__(config.agents())
            self.loaded = {name: StandIn(name) for name in self.settings}

        def get(self, agent: str) -> LanguageModel:
            return self.loaded[agent]

    overrides = [
        *(
            "contexts.scenes=embedded",
            "contexts.personas=embedded",
            f"contexts.n={contexts}",
        ),
        *(f"out={folder}", f"at_once={at_once}"),
    ]
    config = load_config(GenerateConfig, "generate/medal", overrides)
    imports = peak()
    start = time.perf_counter()
    run = GenerationRun(config, agents=StandIns)
    taken_up = time.perf_counter() - start
    most = 0

    def watch() -> None:
        nonlocal most
        most = max(most, len(run.active))

    run.run(watch)
    found = {
        "finished": run.counts.finished,
        "answers": run.requests,
        "most_under_way": most,
        "seconds": round(time.perf_counter() - start, 1),
        "seconds_to_take_up": round(taken_up, 1),
        "peak_mb": round(peak() - imports, 1),
        "imports_mb": round(imports, 1),
    }
    print(json.dumps(found))


def peak() -> float:
    """Peak resident memory of this process, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=400)
    parser.add_argument("--at-once", type=int, default=512)
    parser.add_argument("--child", type=Path)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.contexts, given.at_once)
        return
    with tempfile.TemporaryDirectory() as folder:
        same = [f"--contexts={given.contexts}", f"--at-once={given.at_once}"]
        command = [sys.executable, __file__, "--child", folder, *same]
        for name in ("from the start", "taken up again when done"):
            out = subprocess.run(
                command, check=True, capture_output=True, text=True
            ).stdout
            print(f"{name}: {out.strip()}")
        sizes = {
            p.name: round(p.stat().st_size / 1e6, 1) for p in Path(folder).iterdir()
        }
        print(f"files, MB: {sizes}")


if __name__ == "__main__":
    main()
