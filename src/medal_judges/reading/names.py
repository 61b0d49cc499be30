"""Names of columns and fields, in any spelling; the first that a row has is used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

Record = Mapping[str, Any]  # a row, or an object in it, values as in JSON
Fields = dict[str, Any]
Names = tuple[str, ...]
Counts = Counter[str]  # what is read or left out -> how often


def words(text: str) -> Names:
    return tuple(text.split())


CONVERSATIONS = words(
    "conversation_id dialogue_id dialog_id chat_id session_id thread_id ticket_id "
    "conversation_hash message_tree_id conversation session thread chat ticket"
)
ROLES = words("role speaker sender from author participant sender_type who")
# The same, as names that a chat or a pair may have too.
AUTHORS = words(
    "author_role author_type sender_role from_type author_id sender_id from_id speaker_id"
)
CONTENTS = words("content text message body utterance value msg")
IDS = ("id", *CONVERSATIONS[:9], "uuid")
HISTORIES = ("history", "chat_history")  # of what was said before a question
MESSAGES = (
    *words("messages conversations conversation dialogue dialog turns chat transcript"),
    *words("chat_messages contents user_input"),
    *HISTORIES,
)
PROMPTS = words(
    "prompt question user_message instruction query input input_text user_input user"
)
RESPONSES = words(
    "response answer assistant_message completion reply output output_text assistant_response "
    "model_response generated_text assistant"
)
SYSTEMS = words("system system_prompt system_message instructions")
LANGUAGES = ("lang", "language")
CHATBOTS = words("chatbot model model_name assistant_model default_model_slug")
TIMES = words("time timestamp created_at created datetime date sent_at create_time ts")
ORDERS = words("turn_index turn_number message_index order position sequence turn_id")

# Field of a column map -> the keys that are it without a map.
KEYS: Mapping[str, Names] = {
    "id": IDS,
    "role": (*ROLES, *AUTHORS),
    "content": CONTENTS,
    "prompt": PROMPTS,
    "response": RESPONSES,
    "system": SYSTEMS,
    "lang": LANGUAGES,
    "chatbot": CHATBOTS,
    "time": TIMES,
    "order": ORDERS,
}


def find_key(record: Record, names: Names) -> str | None:
    """Returns the key of ``record`` for the first of ``names``, in any spelling.

    Keys with a value come before keys without one.
    """
    keys = _keys_of(tuple(record), names)
    for key in keys:
        if record[key] is not None:
            return key
    if keys:
        return keys[0]
    return None


@lru_cache(maxsize=512)  # most rows of a file have the same keys
def _keys_of(keys: Names, names: Names) -> list[str]:
    key_by_name = plain_names(keys)
    return [key_by_name[name] for name in names if name in key_by_name]


@lru_cache(maxsize=512)
def plain_names(keys: Names) -> Mapping[str, str]:
    """Returns plain name -> key: ``conversation_id`` for the key ``conversationId``,
    ``Conversation ID`` or ``conversation-id``."""
    texts = [key for key in keys if isinstance(key, str)]
    # Of two keys with one name the first is used.
    key_by_name = {plain_name(key): key for key in reversed(texts)}
    return key_by_name | {key: key for key in texts}


@lru_cache(maxsize=512)
def plain_name(key: str) -> str:
    """Returns ``conversation_id`` for ``conversationId``, ``Conversation ID`` and others."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key.strip())
    return re.sub(r"[\s\-]+", "_", words).lower()


def filled(record: Record) -> Fields:
    """Returns the fields that are not null."""
    return {name: value for name, value in record.items() if value is not None}
