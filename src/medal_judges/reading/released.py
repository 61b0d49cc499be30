"""Converts rows of MEDAL's released code to our JSONL format.

A released row has no ``id``. These fields differ from our format: ``models`` (one name for each
turn), ``lang`` (an English word), ``scene`` (the whole request for the first message, with its
language), ``source`` (the id of that request, which ends in the number of the context), and the
labels, which are the JSON of the evaluation prompt (Table 11).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from medal_judges.errors import RecordError
from medal_judges.reading.columns import parse_if_json
from medal_judges.reading.names import Fields, Record
from medal_judges.records.dialogue import language_code
from medal_judges.records.dimension import load_rubric
from medal_judges.records.labelled import choose_split
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import parse_text

_CONTEXT_NUMBER = re.compile(r"-(\d+)\s*\Z")  # of a released row's ``source``
_rubric = cache(load_rubric)
_SCENE_PART = re.compile(
    r"\W*(Scene Description|Persona|Gender|Language/Culture)\W*?:[*\s]*", re.I
)
_CONTEXT_KEYS = {"scene description": "scene", "persona": "persona", "gender": "gender"}
# dimension -> its key in the JSON
_RELEASED_NAMES = {"overall": "overall_quality_rating"}
_REPLACED = ("scene", "labels")


def is_released_row(record: Record) -> bool:
    """Returns whether ``record`` is a row of MEDAL's released data.

    Such a row has a list under ``models``. Otherwise it has a ``scene``, no ``id``, and a
    ``source`` that ends in a number.
    """
    if isinstance(record.get("models"), list):
        return True
    # A scene, no id, and a source that ends in the number of a context.
    source = record.get("source")
    if record.get("id") is not None or not isinstance(record.get("scene"), str):
        return False
    return isinstance(source, str) and _CONTEXT_NUMBER.search(source) is not None


def convert_released_row(record: Record) -> Fields:
    """Converts ``record``, a row of MEDAL's released data, to an object in this project's
    JSONL format.

    Rows with the same scene and persona get the same ``group`` and ``split`` in every language.

    Raises:
        RecordError: A role has two models, there are more or fewer models than turns, the labels
            are not JSON, or the language is unknown.
    """
    request = record.get("source")
    models = _models_by_role(record.get("models"), record.get("dialogue"))
    scene = _split_scene(record.get("scene"))
    line = {name: value for name, value in record.items() if name not in _REPLACED}
    line |= {
        "lang": language_code(record.get("lang")),
        "dialogue": record.get("dialogue"),
        "models": models,
        "context": record.get("context") or scene,
        "form": "medal-released",
        **_convert_labels(record.get("labels")),
    }
    group = None
    number = _CONTEXT_NUMBER.search(str(request))
    if number is not None:
        line["source"] = "medal"
        line["meta"] = (record.get("meta") or {}) | {"request": request}
        group = f"medal-{int(number[1])}"
        names = str(request).strip(), models.get("assistant")
        line["id"] = line.get("id") or "--".join(map(str, filter(None, names)))
    elif scene:  # without its line of the language
        group = f"medal-{content_hash(scene)}"
    group = line.get("group") or group
    if group:
        line["group"] = group
        line["split"] = line.get("split") or choose_split(str(group), seed=0)
    return line


def _models_by_role(names: object, turns: object) -> dict[str, str]:
    """Returns role -> model name, without roles that have no name: ``{"assistant": "gpt-4.1"}``.

    Args:
        names: The model's name or None, for each of ``turns``.
        turns: The turns, each with its role.

    Raises:
        RecordError: A role has two names, or ``names`` and ``turns`` differ in number.
    """
    models: dict[str, str] = {}
    if names is None or not isinstance(turns, list):
        return models
    if not isinstance(names, list) or len(names) != len(turns):
        expected = f"one name for each of the {len(turns)} turns"
        raise RecordError("models", expected, names)
    for name, turn in zip(names, turns, strict=True):
        role = str(isinstance(turn, Mapping) and turn.get("role"))
        if name and models.setdefault(role, name) != name:
            expected = f"one name for all {role} turns ({models[role]!r})"
            raise RecordError("models", expected, name)
    return models


def _split_scene(scene: object) -> dict[str, str]:
    """Returns the parts of ``scene``, the text from which MEDAL generated a dialogue's
    first message.

    A part begins with a line such as ``Persona: ...``. Lines before the first such line belong to
    ``scene``.

    Returns:
        ``scene``, ``persona`` or ``gender`` -> text, for the parts that are there.
    """
    parts: dict[str, list[str]] = {}
    key: str | None = "scene"
    for line in parse_text("scene", scene or "").splitlines():
        match = _SCENE_PART.match(line)
        if match:
            key = _CONTEXT_KEYS.get(match[1].lower())
            line = line[match.end() :]
        if key and line.strip():
            parts.setdefault(key, []).append(line.strip())
    return {name: "\n".join(lines) for name, lines in parts.items()}


def _convert_labels(labels: object) -> Fields:
    """Converts ``labels`` to the fields ``labels``, ``scales`` and ``comments`` of our
    JSONL format.

    Args:
        labels: Dimension -> list of labels, or GPT-4.1's JSON answer to MEDAL's evaluation prompt.

    Raises:
        RecordError: ``labels`` is not a JSON object.
    """
    answer = parse_if_json(labels, "labels")
    if not answer:
        return {}
    if not isinstance(answer, Mapping):
        raise RecordError("labels", "an object of dimension: {label, comment}", answer)
    if all(isinstance(values, list) for values in answer.values()):
        return {"labels": answer}
    line: Fields = {"labels": {}, "scales": {}, "comments": {}, "labels_by": "gpt-4.1"}
    for dimension in _rubric("medal"):
        name = dimension.name
        entry = answer.get(_RELEASED_NAMES.get(name, name))
        if not isinstance(entry, Mapping):
            entry = {"label": entry}
        label = entry.get("label")
        if label is None:
            continue
        with suppress(TypeError, ValueError):
            label = float(label)  # it may be a text
        line["labels"][name] = [label]
        line["scales"][name] = [dimension.low, dimension.high]
        if entry.get("comment"):
            line["comments"][name] = str(entry["comment"])
    return line
