"""Keys of answers: what is kept stays found."""

from __future__ import annotations

from dataclasses import replace

from medal_judges.models.llm.answer_store import chat_key
from medal_judges.models.llm.protocol import ChatRequest, Message

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


def test_keys_do_not_change() -> None:
    """Written down: another key would pay again for every kept answer."""
    assert chat_key(MODEL, PLAIN) == "b2acb671058a26dbe2a2217c406db50f"
    assert chat_key(MODEL, FULL) == "084c75597292538dbd2be7b3a6328164"


def test_every_setting_is_part_of_the_key() -> None:
    changed = [
        replace(PLAIN, presence_penalty=0.6),
        replace(PLAIN, presence_penalty=-0.6),
        replace(PLAIN, accept_truncated=True),
        replace(PLAIN, presence_penalty=0.6, accept_truncated=True),
        replace(PLAIN, seed=0),
        replace(PLAIN, prefill="A"),
    ]
    assert len({chat_key(MODEL, request) for request in [PLAIN, *changed]}) == 7
    assert chat_key(MODEL, replace(PLAIN, presence_penalty=0)) == chat_key(MODEL, PLAIN)
