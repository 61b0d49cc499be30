"""``medal generate`` as a person types it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import build_config, load_config, shipped_names
from medal_judges.data_prep.generation.protocol import GenerateConfig, load_prompts
from medal_judges.data_prep.generation.run import WORDS, GenerationRun, estimate
from medal_judges.models.llm.protocol import Message, prompt_tokens_above
from medal_judges.reading.dialogues import read_labelled


@pytest.mark.parametrize("name", shipped_names("generate"))
def test_the_prompts_of_a_shipped_config_show_each_agent_what_it_has_to_see(
    name: str,
) -> None:
    config = load_config(GenerateConfig, name, folder="generate")
    assert set(load_prompts(config)) == {"first_turn", "later_turns", "check", "reply"}


def small(path: Path, folder: Path, out: Path) -> Path:
    """One context, one language, the tiny model of ``folder`` in all roles, its verdict held to a
    schema."""
    agent = {"name": "tiny", "llm": {"model": str(folder), "device": "cpu"}}
    shorter = {"max_tokens": 8, "temperature": 1.0}
    words = {"name": "w", "parts": {"user": "{dialogue}"}}
    fit = {"name": "v", "parts": {"user": "{dialogue}\n{message}"}}
    settings = {
        "name": "t",
        "out": str(out),
        "languages": ["en"],
        "contexts": {"n": 2},
        "users": [agent],
        "user_judge": agent,
        "chatbots": [agent],
        "first_turn": {
            "prompt": {"name": "f", "parts": {"user": "{scene}"}},
            "tries": 3,
            **shorter,
        },
        "later_turns": {"prompt": words, "tries": 3, **shorter},
        "check": {"prompt": fit, "enforce": True, "max_tokens": 96, "temperature": 1.0},
        "reply": {"prompt": {"name": "c", "parts": {"system": "Chat."}}, **shorter},
        "max_turns": 4,
    }
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def test_a_local_model_in_all_roles(tmp_path: Path, tiny_llama: Path) -> None:
    out = tmp_path / "out"
    config = small(tmp_path / "c.yaml", tiny_llama, out)
    result = CliRunner().invoke(app, ["generate", "--config", str(config)])
    assert result.exit_code == 0, result.output
    rows = list(read_labelled(out / "dialogues.jsonl"))
    told = json.loads((out / "summary.json").read_text())
    assert (
        told["finished"] == len(rows) == 2 - told["first_messages_without_accepted_try"]
    )
    assert told["user_turns"]["unreadable_verdicts"] == 0
    assert rows and all(len(row.dialogue.turns) <= 4 and not row.labels for row in rows)
    first = (out / "dialogues.jsonl").read_bytes()
    CliRunner().invoke(app, ["generate", "--config", str(config), "--overwrite"])
    assert (out / "dialogues.jsonl").read_bytes() == first


def test_a_dry_run_counts_what_the_protocol_asks(
    tmp_path: Path, tiny_llama: Path
) -> None:
    out = tmp_path / "out"
    path = small(tmp_path / "c.yaml", tiny_llama, out)
    config = load_config(GenerateConfig, path)
    costs = estimate(config, acceptance=1, words={**WORDS, "reply": 3})
    # Every try accepted: 2 first messages, then reply, message, reply in each of 2 dialogues.
    assert [
        costs[f"{kind}:tiny"].requests for kind in ("user", "judge", "chatbot")
    ] == [4, 4, 4]
    first_reply = [
        Message("system", "Chat."),
        Message("user", " ".join(["words"] * 23)),
    ]
    later = [
        Message("assistant", "words words words"),
        Message("user", first_reply[1].content),
    ]
    read = 2 * prompt_tokens_above(first_reply) + 2 * prompt_tokens_above(
        first_reply + later
    )
    assert costs["chatbot:tiny"].input == read
    assert all(c.money == 0 for c in costs.values()) and not out.exists()
    nothing = estimate(config, acceptance=0)
    none = {agent: cost.requests for agent, cost in nothing.items()}
    assert none == {"user:tiny": 6, "judge:tiny": 6, "chatbot:tiny": 0}


SCRIPT = Path(__file__).with_name("agents_script.py")


def test_a_local_chatbot_beside_served_ones(
    serve: Callable[..., Any], tmp_path: Path, tiny_llama: Path
) -> None:
    pytest.importorskip("openai", reason="needs the extra: pip install '.[api]'")
    first, second = serve(script=str(SCRIPT)), serve(script=str(SCRIPT))

    def served(name: str, server: Any, **more: Any) -> dict[str, Any]:
        llm = {
            "backend": "openai",
            "model": name,
            "base_url": server.url,
            "cache": False,
        }
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
        "reply": {
            "prompt": "chatbot",
            "temperature": 0.9,
            "top_p": 0.95,
            "max_tokens": 6,
        },
    }
    run = GenerationRun(build_config(GenerateConfig, settings, where="test"))
    run.run()
    rows = list(read_labelled(tmp_path / "out" / "dialogues.jsonl"))
    assert len(rows) == 6 - 2 * run.counts.failed_openers > 0
    by_bot = {
        name: [r for r in rows if r.dialogue.chatbot == name]
        for name in ("tiny", "bot-1")
    }
    assert len(by_bot["tiny"]) == len(by_bot["bot-1"])
    replies = [t.content for r in by_bot["bot-1"] for t in r.dialogue.turns[1::2]]
    assert all(text.startswith("I am bot-1 and was shown") for text in replies)
    assert {r["body"]["model"] for r in first.told("requests")} == {"user-1"}
    assert {r["body"]["model"] for r in second.told("requests")} == {"judge", "bot-1"}
    assert run.counts.usage["chatbot:tiny"]["requests"] == sum(
        len(r.dialogue.assistant_turns) for r in by_bot["tiny"]
    )
