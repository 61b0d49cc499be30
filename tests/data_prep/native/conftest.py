"""A loopback server as a process of its own, and dialogues on shared contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from medal_judges.records.dialogue import Dialogue, Role, Turn
from medal_judges.records.labelled import LabelledDialogue

SERVER = Path(__file__).with_name("server.py")


@dataclass
class Running:
    """A server, and the ``llm`` setting that speaks to it."""

    server: Any
    llm: dict[str, Any]

    def requests(self) -> list[dict[str, Any]]:
        """Bodies of the requests so far."""
        found: list[dict[str, Any]] = self.server.told("")
        return found


@pytest.fixture
def serve(serve: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Running]:
    """``serve(**settings)`` starts a server; see server.py. ``cache`` keeps its answers there."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def start(cache: Path | bool = False, **settings: Any) -> Running:
        server = serve(SERVER, **settings)
        llm = {"backend": "openai", "model": "gpt-4.1", "base_url": server.url}
        return Running(server, {**llm, "cache": str(cache) if isinstance(cache, Path) else cache})

    return start


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
