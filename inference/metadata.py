"""Metadata of a dialogue that is copied to its judgements (``--keep``), so that a report by version
or by chatbot needs only the file of judgements."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.languages import UNKNOWN_LANGUAGE


def metadata_of(dialogue: Dialogue, fields: Sequence[str]) -> dict[str, Any]:
    """Returns the value of each field, None if the dialogue has none.

    ``lang``, ``chatbot`` and ``source`` are the dialogue's own. Other fields are looked up in its
    meta (a key, or ``user.plan`` for a key of an object there), then in its context, then under
    ``meta.``, ``context.`` and ``models.``.
    """
    return {field: _value(dialogue, field) for field in fields}


def with_metadata(
    dialogues: Iterable[Dialogue],
    judged: Callable[[Iterable[Dialogue]], Iterator[Judgement]],
    fields: Sequence[str],
) -> Iterator[Judgement]:
    """Yields ``judged(dialogues)`` with the fields in each judgement's meta. The judgements must be
    in the order of the dialogues, one or several for each."""
    waiting: deque[tuple[str, dict[str, Any]]] = deque()

    def noted() -> Iterator[Dialogue]:
        for dialogue in dialogues:
            if isinstance(dialogue, Dialogue):  # the judge raises an error for anything else
                waiting.append((dialogue.id, metadata_of(dialogue, fields)))
            yield dialogue

    for judgement in judged(noted() if isinstance(dialogues, Iterator) else [*noted()]):
        while waiting[0][0] != judgement.id:
            waiting.popleft()
        meta = waiting[0][1]
        if "lang" in meta and judgement.detected_language is not None:
            meta = {**meta, "lang": judgement.detected_language}
        yield replace(judgement, meta=meta)


def _value(dialogue: Dialogue, field: str) -> object:
    if field == "lang":
        return None if dialogue.lang == UNKNOWN_LANGUAGE else dialogue.lang
    if field == "chatbot":
        return dialogue.chatbot
    if field == "source" and "source" not in dialogue.meta:
        return dialogue.source
    places = {"meta": dialogue.meta, "context": dialogue.context, "models": dialogue.models}
    place, _, rest = field.partition(".")
    tries = [(dialogue.meta, field), (dialogue.context, field), (places.get(place), rest)]
    return next((v for where, key in tries if (v := _inside(where, key)) is not None), None)


def _inside(place: object, field: str) -> object:
    """The value of a key, which may contain dots, or of a key inside the object of another key."""
    if not isinstance(place, Mapping):
        return None
    if field in place:
        return place[field]
    keys = field.split(".")
    for end in range(len(keys) - 1, 0, -1):
        inner = place.get(".".join(keys[:end]))
        if inner is not None:
            return _inside(inner, ".".join(keys[end:]))
    return None
