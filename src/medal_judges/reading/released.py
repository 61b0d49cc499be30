"""Converts rows of MEDAL's released code to the line format.

A released row has no ``id``. These fields differ from the line format: ``models`` (one name for
each turn), ``lang`` (an English word), ``scene`` (the whole request for the first message, with its
language), ``source`` (the id of that request, which ends in the number of the context), ``ended``
(a flag), and the labels, which are the JSON of the evaluation prompt (Table 11).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.columns import parsed_cell
from medal_judges.reading.forms import CONTEXT_NUMBER
from medal_judges.reading.names import Fields, Record
from medal_judges.records.dialogue import language_code
from medal_judges.records.dimension import load_rubric
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import mapping, text

_rubric = cache(load_rubric)
_LABEL_FIELDS = ("labels", "evaluation", "annotation", "gpt-4.1", "judgement")
_SCENE_PART = re.compile(r"\W*(Scene Description|Persona|Gender|Language/Culture)\W*?:[*\s]*", re.I)
_CONTEXT_KEYS = {"scene description": "scene", "persona": "persona", "gender": "gender"}
_LONGEST = 10  # turns of a dialogue that nobody ended: five of each side
_REPLACED = {"id", "source", "scene", "lang", "dialogue", "models", "ended", *_LABEL_FIELDS}


def line_of_released(record: Record) -> Fields:
    """Converts a released row to the line format, with ``form`` and ``labels_by``.

    Rows of one context are one group in all languages. The id consists of the request's id and the
    chatbot's name; no two released rows share both. The released code sets ``ended`` if the user
    model ends the dialogue, and also if none of its attempts was accepted; the flag does not tell
    the two apart. Raises RecordError that names the field.
    """
    turns, request, ended = record.get("dialogue"), record.get("source"), record.get("ended")
    models = _models_by_role(record.get("models"), turns)
    found = CONTEXT_NUMBER.search(request) if isinstance(request, str) else None
    number, scene = found[1] if found else None, _scene_parts(record.get("scene"))
    id, group = record.get("id"), record.get("group")
    if id is None and number is not None:
        chatbot = models.get("assistant")
        id = f"{str(request).strip()}--{chatbot}" if chatbot else str(request).strip()
    if not group and number is not None:
        group = f"medal-{int(number)}"
    elif not group and scene:  # without its line of the language
        group = f"medal-{content_hash(scene)}"
    if isinstance(ended, bool):
        is_long = isinstance(turns, list) and len(turns) >= _LONGEST
        ended = "user or rejected" if ended else "cap" if is_long else "open"
    line: Fields = {k: v for k, v in record.items() if k not in _REPLACED}
    line |= {
        "id": id,
        "source": "medal" if number else request,
        "lang": language_code(record.get("lang")),
        "dialogue": turns,
        "models": models,
        "context": record.get("context") or scene,
        "meta": mapping(record, "meta") | ({"request": request} if number else {}),
        "group": group or None,
        "ended": None if ended is None else str(ended),
        "form": "medal-released",
    }
    return {k: v for k, v in (line | label_fields(record)).items() if v is not None}


def _models_by_role(names: object, turns: object) -> dict[str, str | None]:
    """Returns role -> name from ``names``, a list with a name or null for each turn. A role whose
    turns are all null is left out."""
    if names is None:
        return {}
    count = len(turns) if isinstance(turns, list) else 0
    if not isinstance(names, list) or not isinstance(turns, list) or len(names) != count:
        raise RecordError("models", f"one name for each of the {count} turns", names)
    models: dict[str, str | None] = {}
    for index, (name, turn) in enumerate(zip(names, turns, strict=True)):
        role = turn.get("role") if isinstance(turn, Mapping) else None
        if not name or not isinstance(role, str):
            continue
        if models.setdefault(role, text(f"models[{index}]", name, "a text or null")) != name:
            expected = f"the name that the other {role} turns have ({models[role]!r})"
            raise RecordError(f"models[{index}]", expected, name)
    return models


def _scene_parts(scene: object) -> dict[str, str]:
    """Returns scene, persona and gender from the request's text. A text without marked lines is the
    scene; the line of the language is dropped."""
    parts: dict[str, list[str]] = {}
    key: str | None = "scene"
    for line in [] if scene is None else text("scene", scene).splitlines():
        if match := _SCENE_PART.match(line):
            key = _CONTEXT_KEYS.get(match[1].lower())
            line = line[match.end() :]
        if key and line.strip():
            parts.setdefault(key, []).append(line.strip())
    return {name: "\n".join(lines) for name, lines in parts.items()}


def label_fields(record: Record) -> Fields:
    """Returns the label fields of the line format.

    The row has labels in the line format, or GPT-4.1's JSON of MEDAL's evaluation prompt (Table
    11), as an object or a text. There a label is a number (``"unsafe": 1``) or an object with a
    comment. Raises RecordError for a text that is not JSON and for a label outside its scale.
    """
    stated = record.get("labels")
    if stated and isinstance(stated, Mapping) and all(isinstance(v, list) for v in stated.values()):
        return {"labels": stated}
    value: Any = next((record[name] for name in _LABEL_FIELDS if record.get(name)), record)
    value = parsed_cell(value, "")
    if not isinstance(value, Mapping):
        raise RecordError("labels", "an object of dimension: {label, comment}", value)
    labels: dict[str, list[float]] = {}
    scales: dict[str, list[float]] = {}
    comments: dict[str, str] = {}
    for dimension in _rubric("medal"):
        name, low, high = dimension.name, dimension.low, dimension.high
        entry = value.get("overall_quality_rating" if name == "overall" else name)
        label = entry.get("label") if isinstance(entry, Mapping) else entry
        if label is None:
            continue
        try:
            number = float("nan") if isinstance(label, bool) else float(label)
        except (TypeError, ValueError):
            number = float("nan")
        if not low <= number <= high:
            raise RecordError(f"labels.{name}", f"a number from {low:g} to {high:g}", label)
        labels[name], scales[name] = [number], [low, high]
        if isinstance(entry, Mapping) and entry.get("comment"):
            comments[name] = str(entry["comment"])
    if not labels:
        return {}
    return {"labels": labels, "scales": scales, "comments": comments, "labels_by": "gpt-4.1"}
