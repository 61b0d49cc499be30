"""One table of the names that fields and roles have in logs and loaders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from shlex import quote
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.records.validation import number_as_text

Record = Mapping[str, Any]  # a row, or an object in it, values as in JSON
Fields = dict[str, Any]
Names = tuple[str, ...]
Counts = Counter[str]  # what is read or left out -> how often

# Field -> its names in any spelling. The first name with a value is used.
_TABLE = {
    "messages": "messages conversations conversation dialogue dialog turns chat transcript "
    "chat_messages contents user_input history chat_history",
    "prompt": "prompt question user_message instruction query input input_text user_input user",
    "response": "response answer assistant_message completion reply output output_text "
    "assistant_response model_response generated_text assistant",
    "system": "system system_prompt system_message instructions",
    "id": "id conversation_id dialogue_id dialog_id chat_id session_id thread_id ticket_id "
    "conversation_hash message_tree_id uuid",
    # of a row that is a turn, whose ``id`` is the turn's
    "conversation": "conversation_id dialogue_id dialog_id chat_id session_id thread_id ticket_id "
    "conversation_hash message_tree_id conversation session thread chat ticket",
    "role": "role speaker sender from author participant sender_type who author_role author_type "
    "sender_role from_type author_id sender_id from_id speaker_id",
    "content": "content text message body utterance value msg",
    "order": "turn_index turn_number message_index order position sequence turn_id",
    "time": "time timestamp created_at created datetime date sent_at create_time ts",
    "lang": "lang language",
    "chatbot": "chatbot model model_name assistant_model",
    "annotator": "annotator annotator_id rater rater_id worker worker_id",
}
NAMES: Mapping[str, Names] = {
    field: tuple(text.split()) for field, text in _TABLE.items()
}
# Role -> its names in lower case. ``call`` is ShareGPT's tool call.
_ROLES = {
    "user": "user human customer client visitor prompter",
    "assistant": "assistant gpt model bot ai chatbot chatgpt agent",
    "system": "system developer",
    "tool": "tool function observation ipython tool_response",
    "call": "function_call tool_call",
}
ROLE_WORDS: Mapping[str, str] = {
    word: role for role, text in _ROLES.items() for word in text.split()
}
OTHERS = "*"  # --role '*=user': everyone who is not known otherwise


def find_key(record: Record, field: str) -> str | None:
    """Returns the key of ``record`` that is a usual name of ``field``, such as ``ticket_id``
    for ``id``.

    Of several such keys, one whose value is not None is preferred. Returns None if there is no such
    key.

    Args:
        record: A row, or an object in it.
        field: The standard name of a field, such as ``id``, ``role`` or ``content``.
    """
    keys = find_keys(tuple(record), field)
    for key in keys:
        if record[key] is not None:
            return key
    if keys:
        return keys[0]
    return None


@lru_cache(maxsize=512)  # most rows of a file have the same keys
def find_keys(keys: tuple[object, ...], field: str) -> list[str]:
    """Returns those of ``keys`` that are usual names of ``field``, such as ``ticket_id`` for
    ``id``, the most preferred first.

    Args:
        keys: All keys of a row.
        field: The standard name of a field, such as ``id``, ``role`` or ``content``.
    """
    key_by_name: dict[str, str] = {}
    for key in keys:
        if isinstance(key, str):
            # Of two keys with one name the first is used.
            key_by_name.setdefault(to_snake_case(key), key)
            key_by_name[key] = key
    return [key_by_name[name] for name in NAMES[field] if name in key_by_name]


def to_snake_case(key: str) -> str:
    """Returns ``key`` in snake case: ``conversation_id`` for ``conversationId`` and for
    ``Conversation ID``."""
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key.strip())
    return re.sub(r"[\s\-]+", "_", snake_case).lower()


def role_of(word: object, roles: Mapping[str, str], field: str) -> str:
    """Returns the role of a speaker, such as ``user`` for ``Human``.

    Args:
        word: The speaker's name in the file.
        roles: Further names -> their roles, such as ``{"kunde": "user"}``. The name ``*`` stands
            for all unknown speakers.
        field: Name of the value in an error, such as ``messages[3].role``.

    Raises:
        RecordError: The speaker is unknown.
    """
    name = str(number_as_text(word)).strip()
    lower = name.lower()
    role = roles.get(name) or roles.get(lower) or ROLE_WORDS.get(lower)
    role = role or roles.get(OTHERS)
    if role is not None:
        return role
    expected = (
        f"user, assistant, system or tool. For another word type --role "
        f"{quote(f'{name}=user')}, or --role '*=user' for all of them"
    )
    raise RecordError(field, expected, word)
