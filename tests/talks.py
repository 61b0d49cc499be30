"""Dialogues made of their turns' texts, the user's first; a language model that only chats."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import (
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.storage.jsonl import write_records


def spoken(*texts: str) -> tuple[Turn, ...]:
    return tuple(
        Turn("assistant" if i % 2 else "user", text) for i, text in enumerate(texts)
    )


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in spoken(*texts)]


def talk(*texts: str, id: str = "d", **fields: Any) -> Dialogue:
    return Dialogue(id, spoken(*texts), **fields)


def alike(one: object, other: object, tolerance: float = 1e-9) -> bool:
    """Returns whether two records of JSON are the same, numbers within ``tolerance``."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = one.keys() == other.keys()
        return keys and all(alike(one[key], other[key], tolerance) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        same_length = len(one) == len(other)
        return same_length and all(map(partial(alike, tolerance=tolerance), one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= tolerance
    return one == other


Rated = tuple[Sequence[str], dict[str, float]]


def write_rated(
    path: Path,
    rows: Iterable[Rated],
    langs: Sequence[str] = ("en",),
    chatbots: Sequence[str] = (),
    **fields: Any,
) -> str:
    """Rows of texts and ratings: ``overall`` from 1 to 5, others 0 or 1; ``langs`` and ``chatbots``
    in turn."""
    lines = []
    for number, (texts, ratings) in enumerate(rows):
        scales = {name: [1, 5] if name == "overall" else [0, 1] for name in ratings}
        row = {"id": f"{path.stem}{number}", "lang": langs[number % len(langs)]}
        row |= {"dialogue": said(*texts), "labels": ratings, "scales": scales}
        if chatbots:
            row["models"] = {"assistant": chatbots[number % len(chatbots)]}
        lines.append(row | {"level": "dialogue"} | fields)
    write_records(path, lines)
    return str(path)


class ChatModel(LanguageModel):
    """A model without likelihoods; a token is four characters."""

    name, context = "scripted", 4096

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        raise ConfigError("no likelihoods here")

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return sum(len(m.content) for m in messages) // 4

    def identity(self) -> Mapping[str, str]:
        return {}
