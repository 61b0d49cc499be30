"""Answers that no file and no server takes as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medal_judges.config import build_config
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.run import GenerationRun
from medal_judges.reading.dialogues import read_labelled

pytest.importorskip("openai", reason="needs the extra: pip install 'medal-judges[api]'")
SCRIPT = r"""
def answer(body):
    if body["model"] == "user":
        return "Half a pair \ud83d of you" if body["seed"] % 2 else "\udc00\u2028\x00 line"
    if body["model"] == "judge":
        return "No. \udfff it\nis" if body["seed"] % 3 == 0 else "Yes."
    return "" if body["seed"] % 2 else "And \ud800."
"""


def test_half_a_surrogate_pair_stops_nothing(serve: Callable[..., Any], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    server = serve(script=str(script))

    def agent(name: str) -> dict[str, Any]:
        llm = {"backend": "openai", "model": name, "base_url": server.url, "cache": False}
        return {"name": name, "llm": llm}

    out = tmp_path / "out"
    settings = {
        "name": "hostile",
        "out": str(out),
        "languages": ["en"],
        "contexts": {"n": 3},
        "users": [agent("user")],
        "user_judge": agent("judge"),
        "chatbots": [agent("bot")],
    }
    config = build_config(GenerateConfig, settings, where="test")
    run = GenerationRun(config)
    run.run()
    rows = list(read_labelled(out / "dialogues.jsonl"))
    assert len(rows) == 3 and not run.waiting
    said = {t.content for row in rows for t in row.dialogue.turns}
    assert said <= {"Half a pair ? of you", "?\u2028\x00 line", "", "And ?."}
    rejected = [json.loads(line) for line in (out / "rejected.jsonl").open(encoding="utf-8")]
    assert {line["reason"] for line in rejected} == {"? it is"}
    before, seen = (out / "dialogues.jsonl").read_bytes(), server.total("seen")
    GenerationRun(config).run()  # what the journal says is what was asked
    assert (out / "dialogues.jsonl").read_bytes() == before and server.total("seen") == seen
