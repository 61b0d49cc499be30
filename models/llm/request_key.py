"""What names an answer: a hash over the model and everything that was asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from medal_judges.models.llm.protocol import ChatRequest, Continuation, LanguageModel, Message

# 128 bits: no two requests meet, and it fits a batch API's custom_id (64 characters).
KEY_DIGITS = 32


def chat_key(model: str, request: ChatRequest) -> str:
    """Key of an answer of ``model`` (see ``model_key``): 32 hex digits over every field."""
    return _hash(["chat", model, _fields(request)])


def likelihood_key(model: str, continuation: Continuation, *, joint: bool) -> str:
    """Key of a continuation's likelihood; one with the prefix's likelihood has another key."""
    return _hash(["loglikelihood", model, _fields(continuation), joint])


def model_key(model: LanguageModel) -> str:
    """Hash of a model's name and fingerprint: no host, no path and no secret goes into a key."""
    return _hash([model.name, dict(model.fingerprint())])


def served_key(key: str, identity: str | None) -> str:
    """``key`` (of ``model_key``) where a server tells which weights stand behind the name."""
    return key if identity is None else _hash([key, identity])


def _fields(request: ChatRequest | Continuation) -> dict[str, Any]:
    return {field.name: _plain(getattr(request, field.name)) for field in fields(request)}


def _plain(value: object) -> Any:
    """``value`` as JSON has it; whole numbers and 1.0 alike, since 0 and 0.0 ask the same."""
    if isinstance(value, Message):
        return [value.role, value.content]
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _hash(value: object) -> str:
    # ASCII: half a surrogate pair in a turn has no UTF-8, but it has an escape.
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]
