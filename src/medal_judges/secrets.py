"""Hides keys and passwords in errors, logs and files.

Code that reads a secret calls ``hide`` with it. ``without_secrets`` then replaces it in every text
that a library or a server wrote. Answers of a model stay unchanged.
"""

from __future__ import annotations

import logging

from medal_judges.errors import visible

# A shorter one may be a word of any text ("none", "label"): local servers are given such keys.
SHORTEST = 8
_hidden: set[str] = set()


def hide(secret: str) -> None:
    """Lets ``without_secrets`` replace ``secret`` if it has at least eight characters."""
    if len(secret) >= SHORTEST:
        _hidden.add(secret)


def without_secrets(text: str) -> str:
    """Returns ``text`` with ``***`` in place of every hidden secret."""
    for secret in sorted(_hidden, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


class SecretFilter(logging.Filter):
    """Keeps secrets, and characters that control the terminal, out of the records of a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = visible(without_secrets(record.getMessage()))
        record.args = ()
        return True
