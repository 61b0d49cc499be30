"""Each role on a backend of its own: a local model beside served ones, in one round."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medal_judges.config import build_config
from medal_judges.data_prep.generation.protocol import GenerateConfig
from medal_judges.data_prep.generation.run import GenerationRun
from medal_judges.reading.dialogues import read_labelled

pytest.importorskip("openai", reason="needs the extra: pip install 'medal-judges[api]'")
SCRIPT = Path(__file__).with_name("agents_script.py")


def test_a_local_chatbot_beside_served_ones(
    serve: Callable[..., Any], tmp_path: Path, tiny_llama: Path
) -> None:
    first, second = serve(script=str(SCRIPT)), serve(script=str(SCRIPT))

    def served(name: str, server: Any, **more: Any) -> dict[str, Any]:
        llm = {"backend": "openai", "model": name, "base_url": server.url, "cache": False}
        return {"name": name, "llm": {**llm, **more}}

    settings = {
        "name": "mixed",
        "out": str(tmp_path / "out"),
        "languages": ["en"],
        "contexts": {"n": 3},
        "users": [served("user-1", first)],
        # Kept answers and a cache of their own change nothing of what is asked.
        "user_judge": served("judge", second, cache=str(tmp_path / "cache")),
        "chatbots": [
            {"name": "tiny", "llm": {"model": str(tiny_llama), "device": "cpu"}},
            served("bot-1", second),
        ],
        "reply": {"prompt": "chatbot", "temperature": 0.9, "top_p": 0.95, "max_tokens": 6},
    }
    run = GenerationRun(build_config(GenerateConfig, settings, where="test"))
    run.run()
    rows = list(read_labelled(tmp_path / "out" / "dialogues.jsonl"))
    assert len(rows) == 6 - 2 * run.counts.failed_openers > 0
    by_bot = {name: [r for r in rows if r.dialogue.chatbot == name] for name in ("tiny", "bot-1")}
    assert len(by_bot["tiny"]) == len(by_bot["bot-1"])
    replies = [t.content for r in by_bot["bot-1"] for t in r.dialogue.turns[1::2]]
    assert all(text.startswith("I am bot-1 and was shown") for text in replies)
    assert {r["body"]["model"] for r in first.told("requests")} == {"user-1"}
    assert {r["body"]["model"] for r in second.told("requests")} == {"judge", "bot-1"}
    assert run.counts.usage["chatbot:tiny"]["requests"] == sum(
        len(r.dialogue.assistant_turns) for r in by_bot["tiny"]
    )
