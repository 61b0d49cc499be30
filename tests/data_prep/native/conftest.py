"""A loopback server as a process of its own, and dialogues on shared contexts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from medal_judges.dialogue import Dialogue, Role, Turn
from medal_judges.labelled import LabelledDialogue

SERVER = Path(__file__).with_name("server.py")


class Running:
    """A server, and the ``llm`` setting that speaks to it."""

    def __init__(self, settings: dict[str, Any], cache: Path | bool) -> None:
        command = [sys.executable, str(SERVER), json.dumps(settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.root = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.llm: dict[str, Any] = {
            "backend": "openai",
            "model": "gpt-4.1",
            "base_url": f"{self.root}/v1",
            "cache": str(cache) if isinstance(cache, Path) else cache,
        }

    def requests(self) -> list[dict[str, Any]]:
        with urlopen(self.root, timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            return found


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Running]]:
    """``serve(**settings)`` starts a server; see server.py. ``cache`` keeps its answers there."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    started: list[Running] = []

    def start(cache: Path | bool = False, **settings: Any) -> Running:
        started.append(Running(settings, cache))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
        if each.process.stdout is not None:
            each.process.stdout.close()


ROLES: tuple[Role, Role] = ("user", "assistant")


def row(
    group: str, lang: str, *texts: str, user: str = "ann", bot: str = "bot"
) -> LabelledDialogue:
    """A dialogue of one context; its turns are ``texts``, the user's first."""
    turns = tuple(Turn(ROLES[i % 2], text) for i, text in enumerate(texts))
    dialogue = Dialogue(
        f"{group}-{lang}--{user}--{bot}",
        turns,
        lang=lang,
        source="medal-generated",
        models={"user": user, "assistant": bot},
        context={"id": f"{group}-{lang}", "scene": "PersonX sings.", "country": "Chad"},
    )
    labels = {"overall": (4.0,)}
    return LabelledDialogue(dialogue, labels, {"overall": (1, 5)}, split="train", group=group)
