"""Rows of a labelled set, written by hand."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from medal_judges.records.labelled import LabelledDialogue, parse_labelled

MakeRow = Callable[..., LabelledDialogue]


@pytest.fixture
def make_row() -> MakeRow:
    """``make_row("id", ["user text", "answer", ...], lang=..., bot=..., labels=...)``."""

    def make(
        id: str,
        texts: Sequence[str],
        *,
        lang: str = "en",
        bot: str | None = "bot-a",
        user: str | None = "user-a",
        group: str | None = None,
        labels: dict[str, list[float | None]] | None = None,
        scales: dict[str, list[float] | None] | None = None,
        **extra: Any,
    ) -> LabelledDialogue:
        roles = ("user", "assistant")
        turns = [
            {"role": roles[i % 2], "content": text} for i, text in enumerate(texts)
        ]
        stated: dict[str, list[float] | None] = {
            name: [1, 5] if name == "overall" else [0, 1] for name in labels or {}
        }
        record = {"id": id, "lang": lang, "dialogue": turns, "labels": labels or {}}
        record |= {
            "models": {"assistant": bot, "user": user},
            "scales": stated | (scales or {}),
        }
        return parse_labelled(record | {"group": group or id} | extra)

    return make
