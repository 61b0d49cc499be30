"""Answers out of what Label Studio exports: JSON, or its short form JSON_MIN."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medal_judges.data_prep.annotation.answers import Answer
from medal_judges.data_prep.annotation.questions import COMMENT, OTHER_TEXT
from medal_judges.errors import DataError

ACCOUNT = "account-"
_TEXTS = (OTHER_TEXT, COMMENT)
_HINT = "in Label Studio: Export, JSON"
# What the short form has beside the task's own data and the answers.
_MIN = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"}
_DATA = {"key", "number", "lang", "dialogue", "assigned_to"}


def read_label_studio(path: Path) -> Iterator[Answer]:
    """Every finished annotation of an export, in its order.

    The annotator is the one to whom the task was assigned, else who completed it: the e-mail
    address where the export has it, or ``account-`` and the number of the account. Drafts,
    predictions and skipped tasks are no answers. Raises DataError for a file of another form.
    """
    try:
        tasks = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError) as error:
        raise DataError(path, None, f"not a JSON export: {error}", hint=_HINT) from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(path, None, "expected a list of tasks", hint=_HINT)
    for number, task in enumerate(tasks, 1):
        where = f"{path}: task {task.get('id', number)}"
        try:
            if "annotations" in task:
                yield from _full(task, where)
            elif task.get("annotation_id") is not None:
                yield _short(task, where)
            elif "annotation_id" not in task:
                raise TypeError("it has no annotations")
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise DataError(
                path,
                None,
                f"task {number} is not as Label Studio exports it: {error!r}",
                hint=_HINT,
            ) from error


def _full(task: Mapping[str, Any], where: str) -> Iterator[Answer]:
    data = task["data"]
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            continue
        values: dict[str, str] = {}
        texts: dict[str, str] = {}
        for part in annotation["result"]:
            name = part.get("from_name")
            if name is None:  # a relation between regions
                continue
            (texts if name in _TEXTS else values)[name] = _text(part["value"])
        yield Answer(
            where=f"{where}, annotation {annotation.get('id')}",
            key=_key(data),
            annotator=_annotator(data, annotation.get("completed_by")),
            values=values,
            texts=texts,
        )


def _short(task: Mapping[str, Any], where: str) -> Answer:
    given = {k: v for k, v in task.items() if k not in _MIN and k not in _DATA}
    return Answer(
        where=f"{where}, annotation {task['annotation_id']}",
        key=_key(task),
        annotator=_annotator(task, task.get("annotator")),
        values={k: _shown(v) for k, v in given.items() if k not in _TEXTS},
        texts={k: _shown(v) for k, v in given.items() if k in _TEXTS},
    )


def _key(data: Mapping[str, Any]) -> str:
    return str(data.get("key") or "")


def _annotator(data: Mapping[str, Any], by: Any) -> str:
    if data.get("assigned_to"):
        return str(data["assigned_to"])
    if isinstance(by, dict):
        by = by.get("email") or by.get("id")
    account = "" if by is None else str(by)
    return f"{ACCOUNT}{account}" if account.isdigit() else account


def _text(value: Mapping[str, Any]) -> str:
    """The answer in the ``value`` of a Choices, Rating, Number or TextArea result."""
    for kind in ("choices", "text", "rating", "number"):
        if kind in value:
            return _shown(value[kind])
    raise KeyError(f"no answer among {', '.join(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):  # several choices in the short form
        value = value.get("choices", list(value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " / ".join(map(str, value))
    return "" if value is None else str(value)
