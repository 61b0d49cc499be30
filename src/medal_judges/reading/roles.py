"""Names of roles in loaders and logs."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Literal

from medal_judges.errors import RecordError
from medal_judges.reading.names import Record
from medal_judges.records.validation import as_text

MessageRole = Literal["user", "assistant", "system", "tool", "call"]
# In lower case. ``call``: ShareGPT's tool calls.
_WORDS: Mapping[MessageRole, str] = {
    "user": "user human customer client visitor prompter humanmessage",
    "assistant": "assistant gpt model bot ai chatbot chatgpt agent aimessage aimessagechunk",
    "system": "system developer",
    "tool": "tool function observation ipython tool_response",
    "call": "function_call tool_call",
}
ROLE_WORDS: Mapping[str, MessageRole] = {
    word: role for role, text in _WORDS.items() for word in text.split()
}
# Types of authors in help desks, which are ordinary words in a transcript.
_AUTHORS = {
    "admin": "assistant",
    "operator": "assistant",
    "lead": "user",
    "contact": "user",
    "end-user": "user",
}
OTHERS = "*"  # --role '*=user': everyone who is not known otherwise
_AUTHOR_FIELDS = ("role", "type", "name", "id")


def role_of(word: object, roles: Mapping[str, str], field: str = "role") -> object:
    """Returns the role that ``roles`` has for ``word``, else ``word`` if it is a known name of a
    role. Of an author with several fields the first known one counts. Raises RecordError for other
    texts; ``field`` is the place of ``word``."""
    if not isinstance(word, Mapping):
        word = {"role": word}
    values = map(word.get, _AUTHOR_FIELDS)
    names = [str(as_text(value)).strip() for value in values if value is not None]
    in_lower_case = _AUTHORS | {name.lower(): role for name, role in roles.items()}
    for name in names:
        role = roles.get(name) or in_lower_case.get(name.lower())
        if role or name.lower() in ROLE_WORDS:
            return role or name
    if not names or OTHERS in roles:
        return roles.get(OTHERS)
    user, assistant = quote(f"{names[-1]}=user"), quote(f"{names[-1]}=assistant")
    hint = (
        f"a word that --role explains (--role {user} or --role {assistant}; --role '*=user' is "
        "for everyone else)"
    )
    raise RecordError(field, f"user, assistant, system, tool, or {hint}", word)


def stated_role(message: Record) -> MessageRole | None:
    """Returns the role that a message states under ``role``, or under ``type`` as in LangChain;
    None for an unknown word."""
    word = message.get("role", message.get("type"))
    if isinstance(word, str):
        return ROLE_WORDS.get(word.strip().lower())
    return None
