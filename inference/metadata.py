"""Copies metadata of dialogues to their judgements (``--keep``), so that a report by version or by
chatbot needs only the file of judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, Dialogue
from medal_judges.records.signature import content_hash


def metadata_of(dialogue: Dialogue, fields: Sequence[str]) -> dict[str, Any]:
    """Returns field -> its value in ``dialogue``, for each of ``fields``. The value is None if the
    dialogue lacks the field.

    Args:
        fields: Each is ``lang``, ``chatbot``, ``source``, a key of ``dialogue.meta`` or
            ``dialogue.context``, or a dotted path into nested values, such as ``user.plan``.
    """
    return {field: _field_value(dialogue, field) for field in fields}


def input_hash(dialogue: Dialogue, meta: Mapping[str, Any]) -> str:
    """Returns a hash of what a judge reads of ``dialogue`` (turns, language and context) and of
    ``meta``. A dialogue whose hash has changed is scored again.

    Args:
        meta: Metadata to copy to the judgements: field -> value, such as ``{"chatbot": "gpt"}``.
    """
    return content_hash(
        [dialogue.text_hash, dialogue.lang, dict(dialogue.context), meta]
    )


def _field_value(dialogue: Dialogue, field: str) -> object:
    """Returns the value of ``field`` in ``dialogue``, None if there is none."""
    if field == "lang":
        if dialogue.lang == UNKNOWN_LANGUAGE:
            return None
        return dialogue.lang
    if field == "chatbot":
        return dialogue.chatbot
    if field == "source" and "source" not in dialogue.meta:
        return dialogue.source
    parts = {
        "meta": dialogue.meta,
        "context": dialogue.context,
        "models": dialogue.models,
    }
    for mapping in (dialogue.meta, dialogue.context, parts):
        if field in mapping:
            return mapping[field]
        value: Any = mapping
        for key in field.split("."):
            if not isinstance(value, Mapping):
                value = None
                break
            value = value.get(key)
        if value is not None:
            return value
    return None
