"""``--offline`` of each command that has it: no download is tried."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any

import pytest

from .table import medal, row

SET = "sets=[{name: fed, source: fed:dialogue, dimensions: [overall]}]"
COMMANDS = {
    "agreement": ["agreement", "fed:dialogue"],
    "data fetch": ["data", "fetch", "fed:dialogue"],
    "data audit": ["data", "audit", "fed:dialogue"],
    "data write": ["data", "write", "fed:dialogue", "--out", "OUT/rows.jsonl"],
    "data stats": ["data", "stats", "fed:dialogue", "--out", "OUT"],
    "annotate export": ["annotate", "export", "fed:dialogue", "--out", "OUT"],
    "benchmark": [
        "benchmark",
        "--out",
        "OUT",
        "judges=[]",
        "injected=[]",
        SET,
        "--judge",
        "length",
    ],
}


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=row(name, "--offline")) for name in COMMANDS]
)
def test_offline(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def unreachable(address: str, **options: Any) -> None:
        tried.append(address)
        raise OSError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    monkeypatch.delenv("MEDAL_JUDGES_DATA", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    words = [word.replace("OUT", str(tmp_path)) for word in COMMANDS[command]]
    done = medal(*words, "--offline")
    assert done.code == 2 and not tried, done
    assert "the network is disabled" in done.err
    done = medal(*words)
    assert done.code == 2 and len(tried) == 1, done
    assert "no route to host" in done.err
