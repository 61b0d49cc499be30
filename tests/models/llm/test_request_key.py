"""Keys of answers: what is kept stays found when requests get new settings."""

from __future__ import annotations

from dataclasses import replace

from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.llm.request_key import chat_key

MODEL = "m" * 32
PLAIN = ChatRequest((Message("user", "Hi"),))
FULL = ChatRequest(
    (Message("system", "Be brief."), Message("user", "Olá \ud83d")),
    max_tokens=64,
    temperature=0.5,
    top_p=0.95,
    seed=7,
    schema={"type": "object"},
    top_logprobs=5,
)


def test_keys_are_those_of_before_there_were_penalties() -> None:
    """Written down from the code that knew neither presence_penalty nor as_it_is."""
    assert chat_key(MODEL, PLAIN) == "a621531f293fa3ce19862bdc07a8d066"
    assert chat_key(MODEL, FULL) == "33f39310fbfbdbea7fb53cd456a354f3"


def test_every_setting_is_part_of_the_key() -> None:
    changed = [
        replace(PLAIN, presence_penalty=0.6),
        replace(PLAIN, presence_penalty=-0.6),
        replace(PLAIN, as_it_is=True),
        replace(PLAIN, presence_penalty=0.6, as_it_is=True),
        replace(PLAIN, seed=0),
        replace(PLAIN, lead="A"),
    ]
    assert len({chat_key(MODEL, request) for request in [PLAIN, *changed]}) == 7
    assert chat_key(MODEL, replace(PLAIN, presence_penalty=0)) == chat_key(MODEL, PLAIN)
