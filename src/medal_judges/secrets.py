"""Hides keys and passwords in errors, logs and files.

Code that reads a secret calls ``register_secret`` with it. ``without_secrets`` then replaces it in
every text that a library or a server wrote. Answers of a model stay unchanged."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from urllib.parse import quote

from medal_judges.errors import printable

# A shorter one may be a word of any text ("none", "label"): local servers are given such keys.
SHORTEST = 8
_hidden: set[str] = set()
_TO_URL = bytes.maketrans(b"+/", b"-_")


def register_secret(secret: str) -> None:
    """Registers ``secret``, so that ``without_secrets`` replaces it in texts. Its forms in JSON,
    URLs and base64 are replaced too. A secret of fewer than 8 characters is ignored."""
    if len(secret) < SHORTEST:
        return
    _hidden.update((secret, json.dumps(secret)[1:-1], quote(secret, safe="")))
    letters = secret.encode("utf-8", "surrogateescape")
    for before in range(3):
        # Other text may precede it ("user:"). Letters of base64 that mix it with its neighbours
        # are left out.
        encoded = b64encode(bytes(before) + letters)
        encoded = encoded[-(-before * 4 // 3) : (before + len(letters)) * 4 // 3]
        _hidden.update((encoded.decode(), encoded.translate(_TO_URL).decode()))


def without_secrets(text: str) -> str:
    """Returns ``text`` with ``***`` in place of every registered secret."""
    for secret in sorted(_hidden, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


class SecretFilter(logging.Filter):
    """A logging filter that replaces secrets by ``***`` and control characters by their codes."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = printable(without_secrets(record.getMessage()))
        record.args = ()
        return True
