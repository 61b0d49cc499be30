"""``medal generate`` as a person types it."""

import json
from pathlib import Path

import yaml
from typer.testing import CliRunner

from medal_judges.cli import app
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
