"""ChatFileConfig: a file of chats in a YAML file, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from medal_judges.config import Config
from medal_judges.reading.options import ReadOptions


class ChatFileConfig(Config):
    """``source``: a spec such as ``dstc9:train``, or a file of chats in any form of
    docs/howto/formats.md; ``format``, ``columns`` (with ``roles`` and ``labels``) and ``assistant``
    say of a file what its content does not.
    """

    source: str
    format: str | None = None
    columns: Mapping[str, Any] = {}
    assistant: str | None = None

    @property
    def read_options(self) -> ReadOptions:
        """How the file is read. A bad row is an error: nobody should learn from half a file."""
        return ReadOptions(format=self.format, columns=dict(self.columns), assistant=self.assistant)

    @model_validator(mode="after")
    def _can_be_read(self) -> ChatFileConfig:
        _ = self.read_options
        return self
