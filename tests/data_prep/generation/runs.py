"""Runs of generation on scripted agents in this process."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medal_judges.config import build_config
from medal_judges.data_prep.generation.protocol import GenerateConfig
from medal_judges.data_prep.generation.run import GenerationRun

from ..fake import FakeAgents

SCRIPT = Path(__file__).with_name("agents_script.py")
AGENTS = runpy.run_path(str(SCRIPT))


def settings(out: Path, *, bots: int = 2, url: str = "", **more: Any) -> dict[str, Any]:
    """16 dialogues for each two chatbots; behind the server at ``url`` if it is given."""

    def agent(name: str) -> dict[str, Any]:
        served = {
            "backend": "openai",
            "base_url": url,
            "cache": False,
        }
        return {"model": name, **(served if url else {})}

    return {
        "name": "test",
        "out": str(out),
        "languages": ["en", "pt"],
        "contexts": {"n": 4},
        "users": {"user-1": agent("user-1")},
        "user_judge": agent("judge"),
        "chatbots": {f"bot-{k}": agent(f"bot-{k}") for k in range(bots)},
        **more,
    }


def generate(
    out: Path,
    answer: Callable[[dict[str, Any]], str] = AGENTS["answer"],
    *,
    chatbots: tuple[str, ...] = (),
    api: bool = False,
    **more: Any,
) -> tuple[GenerationRun, FakeAgents]:
    """A finished run and its agents."""
    made: list[FakeAgents] = []

    def agents(config: GenerateConfig) -> FakeAgents:
        made.append(FakeAgents(config.agent_settings(), answer, api=api))
        return made[0]

    config = build_config(GenerateConfig, settings(out, **more), where="test")
    run = GenerationRun(config, chatbots=chatbots, agents=agents)
    run.run()
    return run, made[0]


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSONL file."""
    return [
        json.loads(line)
        for line in path.read_text(encoding="utf-8").split("\n")
        if line
    ]
