"""``medal generate`` as a person types it."""

import json
from pathlib import Path

import yaml
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import load_config
from medal_judges.data_prep.generation.protocol import GenerateConfig
from medal_judges.data_prep.generation.run import WORDS, estimate
from medal_judges.models.llm.protocol import Message, prompt_tokens_above
from medal_judges.reading.dialogues import read_labelled


def small(path: Path, folder: Path, out: Path) -> Path:
    """One context, one language, the tiny model of ``folder`` in all roles, its verdict held to a
    schema."""
    agent = {"model": str(folder), "device": "cpu"}
    shorter = {"max_tokens": 8, "temperature": 1.0}
    words = {"name": "w", "parts": {"user": "{{ dialogue }}"}}
    fit = {"name": "v", "parts": {"user": "{{ dialogue }}\n{{ message }}"}}
    settings = {
        "name": "t",
        "out": str(out),
        "languages": ["en"],
        "contexts": {"n": 2},
        "users": {"tiny": agent},
        "user_judge": agent,
        "chatbots": {"tiny": agent},
        "first_turn": {
            "prompt": {"name": "f", "parts": {"user": "{{ scene }}"}},
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
        told["finished"] == len(rows) == 2 - told["tries_of_first_messages"].get("0", 0)
    )
    assert told["user_turns"]["unreadable"] == 0
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
        costs[agent].requests for agent in ("user:tiny", "judge", "chatbot:tiny")
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
    assert none == {"user:tiny": 6, "judge": 6, "chatbot:tiny": 0}
