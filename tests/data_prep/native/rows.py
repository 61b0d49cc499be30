"""Dialogues on shared contexts, and the requests of the tests of this folder."""

import runpy
from pathlib import Path
from typing import Any

from medal_judges.records.dialogue import Dialogue, Role, Turn
from medal_judges.records.labelled import LabelledDialogue

from ..fake import Refused

SCRIPT = Path(__file__).with_name("script.py")
_ANSWER = runpy.run_path(str(SCRIPT))["answer"]
ROLES: tuple[Role, Role] = ("user", "assistant")


def answer(body: dict[str, Any]) -> str:
    """The script's answer, and a refusal of what says REFUSE."""
    if "REFUSE" in body["messages"][-1]["content"]:
        raise Refused("breaks the rules")
    return str(_ANSWER(body))


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
    return LabelledDialogue(
        dialogue, labels, {"overall": (1, 5)}, split="train", group=group
    )


def prompts(bodies: list[dict[str, Any]]) -> list[str]:
    """The last message of each request."""
    return [body["messages"][-1]["content"] for body in bodies]
