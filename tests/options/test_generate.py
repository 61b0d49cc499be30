"""The options of ``medal generate``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from .files import Files, read
from .table import Done, medal, row

SCRIPT = Path(__file__).parents[1] / "data_prep" / "generation" / "agents_script.py"


@pytest.fixture
def server(serve: Callable[..., Any]) -> Any:
    return serve(script=str(SCRIPT))


@pytest.fixture
def config(server: Any, files: Files, tmp_path: Path) -> Path:
    """Four dialogues of two messages with each of two chatbots."""

    def agent(name: str) -> dict[str, Any]:
        llm = {
            "backend": "openai",
            "base_url": server.url,
            "cache": False,
            "model": name,
        }
        return {"name": name, "llm": {**llm, "prices": str(prices)}}

    prices = tmp_path / "prices.yaml"
    price = {"input": 1000, "output": 1000}
    named = ("user-1", "judge", "bot-0", "bot-1")
    prices.write_text(yaml.safe_dump({"models": dict.fromkeys(named, price)}))
    settings = {
        "name": "test",
        "out": str(tmp_path / "default"),
        "languages": ["en"],
        "contexts": {"n": 4},
        "users": [agent("user-1")],
        "user_judge": agent("judge"),
        "chatbots": [agent("bot-0"), agent("bot-1")],
        "max_turns": 2,
    }
    path = tmp_path / "generate.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@row(
    "generate",
    "--config",
    "--out",
    "--chatbots",
    "--overwrite",
    "--dry-run",
    "--max-cost",
)
def test_generate(config: Path, server: Any, tmp_path: Path) -> None:
    def generate(*options: object) -> tuple[Done, int]:
        before = len(server.told("requests"))
        done = medal("generate", "--config", config, *options)
        return done, len(server.told("requests")) - before

    def speakers(folder: Path) -> Counter[str]:
        return Counter(
            line["models"]["assistant"] for line in read(folder / "dialogues.jsonl")
        )

    done, requests = generate("--dry-run")
    assert "4 first messages, 8 dialogues" in done.out and requests == 0
    done, _ = generate("--max-cost", "0.000001")
    assert done.code == 4, done
    done, requests = generate()
    assert done.code == 0 and requests > 0
    assert speakers(tmp_path / "default") == {"bot-0": 4, "bot-1": 4}
    out = tmp_path / "one: #2"
    done, _ = generate("--out", out, "--chatbots", "bot-1")
    assert done.code == 0 and speakers(out) == {"bot-1": 4}
    done, requests = generate()
    assert (done.code, requests) == (0, 0)  # all of it is resumed
    done, requests = generate("--overwrite")
    assert done.code == 0 and requests > 0
