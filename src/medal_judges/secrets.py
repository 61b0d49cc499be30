"""Hides keys and passwords in errors, logs and files.

Code that reads a secret calls ``hide`` with it. ``without_secrets`` then replaces it in every text
that a library or a server wrote. Answers of a model stay unchanged.
"""

from __future__ import annotations

import html
import json
import logging
import re
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

# A shorter one may be a word of any text ("none", "label"): local servers are given such keys.
SHORTEST = 8
_hidden: set[str] = set()


def hide(secret: str) -> None:
    """Lets ``without_secrets`` replace ``secret`` if it has at least eight characters, also in
    base64, URL-encoded, or escaped for JSON or HTML."""
    if len(secret) < SHORTEST:
        return
    raw = secret.encode("utf-8", "surrogateescape")
    for url in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        _hidden.add(url)
        _hidden.add(re.sub("%..", lambda match: match[0].lower(), url))
    _hidden.add(secret)
    _hidden.add(b64encode(raw).decode().rstrip("="))
    _hidden.add(urlsafe_b64encode(raw).decode().rstrip("="))
    _hidden.add(html.escape(secret))
    _hidden.add(repr(secret)[1:-1])
    _hidden.add(json.dumps(secret)[1:-1])
    _hidden.add(json.dumps(secret, ensure_ascii=False)[1:-1])


def without_secrets(text: str) -> str:
    """Returns ``text`` with ``***`` in place of every hidden secret."""
    for secret in sorted(_hidden, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


class SecretFilter(logging.Filter):
    """Keeps secrets out of the records of a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = without_secrets(record.getMessage()), ()
        return True
