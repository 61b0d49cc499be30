"""Which weights a server has behind a model's name, as far as it tells."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medal_judges.signature import content_hash

# What servers say of a model in /models and keep saying while it is the same: vLLM its folder or
# hub id, llama.cpp its size and vocabulary, others a digest. (vLLM's ``created`` is the time of
# asking.)
_TELLING = (
    *("root", "parent", "meta", "digest", "sha", "model_sha", "sha256"),
    *("revision", "version", "weight_version", "quantization"),
)
PATIENCE = 10.0  # seconds


def identity_in(listing: Any, model: str) -> str | None:
    """A hash of what ``listing``, the answer of /models, says of ``model``; None where it says
    nothing that tells one set of weights from another."""
    entries = listing.get("data") if isinstance(listing, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("id") == model:
            told = {key: entry[key] for key in _TELLING if entry.get(key) is not None}
            return content_hash(told) if told else None
    return None


async def ask_identity(client: Any, model: str) -> str | None:
    """The same, asked of a server; None also where it has no /models.

    Raises the client's errors where it cannot be reached, or is out of order.
    """
    import openai

    try:
        raw = await client.models.with_raw_response.list(timeout=PATIENCE)
        return identity_in(raw.http_response.json(), model)
    except openai.APIStatusError as error:
        if error.status_code >= 500:
            raise
        return None  # a wrong key is told when something is asked
    except ValueError:
        return None


class LastServed:
    """What the server was last seen to serve, in a small file beside the kept answers: while it
    cannot be reached they are found by that."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> str | None:
        """The identity that was noted last, if any."""
        try:
            return self.path.read_text(encoding="ascii").strip() or None
        except (OSError, ValueError):
            return None

    def note(self, identity: str | None) -> None:
        """Replace it."""
        if identity == self.read():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        partial.write_text(f"{identity or ''}\n", encoding="ascii")
        partial.replace(self.path)
