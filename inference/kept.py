"""Fields of a dialogue that travel to its judgements: what ``--keep`` names.

A report by version or by chatbot needs them beside the scores, and the file of judgements should
say it by itself, without the chats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.languages import UNKNOWN_LANGUAGE


def kept_of(dialogue: Dialogue, fields: Sequence[str]) -> dict[str, Any]:
    """The value of each field, None where the dialogue has none.

    ``lang``, ``chatbot`` and ``source`` are the dialogue's own; all else is looked for in its meta
    (a key, or ``user.plan`` for a key of an object there), then in its context, and under
    ``meta.``, ``context.`` and ``models.``.
    """
    return {field: _value(dialogue, field) for field in fields}


def with_kept(
    dialogues: Iterable[Dialogue],
    judged: Callable[[Iterable[Dialogue]], Iterator[Judgement]],
    fields: Sequence[str],
) -> Iterator[Judgement]:
    """``judged(dialogues)`` with the fields in each judgement's meta; judgements stand in the order
    of the dialogues, one or several each. Holds what the judge has read ahead."""
    waiting: deque[tuple[str, dict[str, Any]]] = deque()

    def noted() -> Iterator[Dialogue]:
        for dialogue in dialogues:
            if isinstance(dialogue, Dialogue):  # the judge says what is wrong with anything else
                waiting.append((dialogue.id, kept_of(dialogue, fields)))
            yield dialogue

    for judgement in judged(noted() if isinstance(dialogues, Iterator) else [*noted()]):
        while waiting[0][0] != judgement.id:
            waiting.popleft()
        kept = waiting[0][1]
        if "lang" in kept and judgement.detected_language is not None:
            kept = {**kept, "lang": judgement.detected_language}
        yield replace(judgement, meta=kept)


def _value(dialogue: Dialogue, field: str) -> object:
    if field == "lang":
        return None if dialogue.lang == UNKNOWN_LANGUAGE else dialogue.lang
    if field == "chatbot":
        return dialogue.chatbot
    if field == "source" and "source" not in dialogue.meta:
        return dialogue.source
    found = _inside(dialogue.meta, field)
    if found is None:
        found = _inside(dialogue.context, field)
    if found is None and "." in field:
        places = {"meta": dialogue.meta, "context": dialogue.context, "models": dialogue.models}
        place, _, rest = field.partition(".")
        found = _inside(places.get(place, {}), rest)
    return found


def _inside(place: object, field: str) -> object:
    """The value of a key, which may hold dots itself, or of a key inside the object of another."""
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
