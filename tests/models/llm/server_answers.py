"""The answers of server.py: scripted."""

import hashlib
import json
from collections.abc import Callable
from typing import Any


def scripted(
    body: dict[str, Any], script: Callable[[dict[str, Any]], str] | None = None
) -> dict[str, Any]:
    """What ``script`` says; else a number from 1 to 5, or an object of the schema asked for, by the
    request's content."""
    seed = int(hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest(), 16)
    text = str(1 + seed % 5)
    form = body.get("response_format")
    if form and form["type"] == "json_schema":
        text = json.dumps(filled(form["json_schema"]["schema"], seed))
    if script is not None:
        text = script(body)
    read = sum(len(m["content"].split()) for m in body["messages"])
    usage = {
        "prompt_tokens": read,
        "completion_tokens": 10,
        "total_tokens": read + 10,
        "prompt_tokens_details": {"cached_tokens": read // 2},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    logprobs = None
    if body.get("logprobs"):
        logprobs = {"content": [_choice(character) for character in text]}
    return chat(body, text, "stop", usage, logprobs)


def _choice(character: str) -> dict[str, Any]:
    others = [
        {"token": t, "logprob": p, "bytes": None}
        for t, p in ((character, -0.1), ("0", -4))
    ]
    return {"token": character, "logprob": -0.1, "bytes": None, "top_logprobs": others}


def filled(schema: dict[str, Any], seed: int) -> Any:
    """A value of ``schema``."""
    if "enum" in schema:
        return schema["enum"][seed % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        return {
            name: filled(s, seed // 7 + i)
            for i, (name, s) in enumerate(schema["properties"].items())
        }
    if kind in ("integer", "number"):
        low, high = int(schema.get("minimum", 0)), int(schema.get("maximum", 5))
        return low + seed % (high - low + 1)
    if kind == "boolean":
        return seed % 2 == 0
    return [] if kind == "array" else "as asked"


def chat(
    body: dict[str, Any], text: str, finish: str, usage: dict[str, Any], logprobs: Any
) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": finish,
        "logprobs": logprobs,
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [choice],
        "usage": usage,
    }
