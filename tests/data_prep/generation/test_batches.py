"""Roles that are asked through a provider's batch API."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="needs the extra: pip install 'medal-judges[api]'")

from medal_judges.config import build_config
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.run import GenerationRun
from medal_judges.models.llm.server.batch import BatchModel
from medal_judges.models.llm.server.model import RemoteModel
from medal_judges.models.llm.settings import OpenAILLM

SERVER = Path(__file__).parents[2] / "models" / "llm" / "batch_server.py"


@pytest.fixture
def port() -> Iterator[int]:
    command = [sys.executable, str(SERVER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def counts(port: int) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/counts") as answer:
        return dict(json.load(answer))


def started(port: int, folder: Path) -> GenerationRun:
    """A run whose agents poll every few milliseconds."""

    def agent(name: str) -> dict[str, Any]:
        return {"name": name, "llm": {"backend": "openai", "model": name, "batch": True}}

    settings = {
        "name": "batches",
        "out": str(folder / "out"),
        "languages": ["en"],
        "contexts": {"n": 5},
        "users": [agent("user")],
        "user_judge": agent("judge"),
        "chatbots": [agent("bot")],
        "first_turn": {"prompt": "user_first", "temperature": 1.5, "tries": 3},
    }
    run = GenerationRun(build_config(GenerateConfig, settings, where="test"))
    for setting in run.agents.settings.values():
        url = f"http://127.0.0.1:{port}/v1"
        remote = RemoteModel(OpenAILLM(model=setting.model, base_url=url))
        key = setting.model_dump_json()
        run.agents.loaded[key] = BatchModel(remote, folder / "batches", poll=0.02)
    return run


def test_what_waits_for_one_role_is_one_batch(port: int, tmp_path: Path) -> None:
    run = started(port, tmp_path)
    run.run()
    # The server repeats the question: no verdict is a yes, and 5 first messages have 3 tries each.
    assert run.counts.failed_openers == 5 and run.counts.unreadable == 15
    asked = counts(port)
    assert (asked["batches"], asked["requests"]) == (6, 30)
    again = started(port, tmp_path)
    again.run()
    assert counts(port)["requests"] == 30 and again.counts.rejected == 15
