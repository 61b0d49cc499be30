"""What the scripted server's agents say (tests/models/llm/server.py, setting ``script``).

Users number their messages by the request's seed, so that each is known again wherever it is shown;
the user judge goes by the message alone; the chatbot repeats the number of messages it was shown.
"""

import hashlib
from typing import Any

END = "END_OF_DIALOGUE"


def answer(body: dict[str, Any]) -> str:
    """The text that the agent named by ``body["model"]`` answers with."""
    if body["model"].startswith("user"):
        return said_by_user(body["seed"])
    if body["model"].startswith("judge"):
        return verdict(
            body["messages"][-1]["content"].splitlines()[-1].removeprefix("user: ")
        )
    return f"I am {body['model']} and was shown {len(body['messages']) - 1}."


def said_by_user(seed: int) -> str:
    """Every ninth wants to end, every 31st is empty, every 17th carries a label."""
    if seed % 31 == 0:
        return "  "
    text = f"Message {seed} it is."
    if seed % 9 == 0:
        return f"{text} {END}" if seed % 2 else END
    return f"User: {text}" if seed % 17 == 0 else text


def verdict(text: str) -> str:
    """Two of five are accepted; some verdicts are neither yes nor no."""
    draw = int(hashlib.sha256(text.encode()).hexdigest(), 16) % 20
    if draw < 8:
        return "Yes." if draw % 2 else "**Yes**, it fits."
    return (
        "Hard to say about this."
        if draw == 8
        else f"No. Reason {draw} against {text[:20]}"
    )
