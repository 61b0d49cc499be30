"""Label Studio: the labelling interface as XML, tasks as JSON, and the answers in its exports.

Checked against Label Studio 1.23.2 (see tests/data_prep/annotation/README.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from medal_judges.data_prep.annotation.questions import (
    COMMENT,
    OTHER_TEXT,
    TEMPLATES,
    AnnotationQuestion,
    Asks,
    RawAnswer,
)
from medal_judges.errors import DataError
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.page import fragment

EMPTY = "[empty message]"
ACCOUNT = "account-"
_TEXTS = (OTHER_TEXT, COMMENT)
_EXPORT = "in Label Studio: Export, JSON"
# Fields of the short export form beside the task's data and the answers.
_MIN = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"}
_DATA = {"key", "number", "lang", "dialogue", "assigned_to"}


def config_xml(asked: Sequence[AnnotationQuestion], asks: Asks) -> str:
    """The labelling interface. Each dimension is a required single choice under its name (``yes``
    and ``no``, or the numbers of its scale); the free texts are ``other_text`` and ``comment``."""
    root = ET.fromstring(fragment(TEMPLATES, "label_studio.xml", asked=asked, asks=asks))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def tasks(
    rows: Iterable[tuple[str, LabelledDialogue]], annotator: str | None = None
) -> list[dict[str, Any]]:
    """Tasks of (key, row) pairs in their order. They contain no id, model, source or label, which
    could reveal the chatbot or a model's opinion."""
    listed = []
    for number, (key, row) in enumerate(rows, 1):
        turns = [{"speaker": t.role, "text": t.content or EMPTY} for t in row.dialogue.turns]
        data = {"key": key, "number": number, "lang": row.dialogue.lang, "dialogue": turns}
        # Label Studio uses `annotator` itself in its short export
        listed.append({"data": data | ({"assigned_to": annotator} if annotator else {})})
    return listed


def read_label_studio(path: Path) -> Iterator[RawAnswer]:
    """Yields every finished annotation of an export, in its order.

    The annotator is the one the task was assigned to, else the account that completed it: its
    e-mail address, or ``account-`` and its number. Drafts, predictions and skipped tasks are
    ignored. Raises DataError for another kind of file.
    """
    try:
        tasks = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, RecursionError) as error:
        raise DataError(path, None, f"not a JSON export: {error}", hint=_EXPORT) from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(path, None, "expected a list of tasks", hint=_EXPORT)
    for number, task in enumerate(tasks, 1):
        try:
            yield from _answers(task, f"{path}: task {task.get('id', number)}")
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            problem = f"task {number} is not as Label Studio exports it: {error!r}"
            raise DataError(path, None, problem, hint=_EXPORT) from error


def _answers(task: Mapping[str, Any], where: str) -> Iterator[RawAnswer]:
    if "annotations" not in task:  # the short form: one annotation beside the task's data
        if task["annotation_id"] is not None:
            given = {k: _shown(v) for k, v in task.items() if k not in _MIN and k not in _DATA}
            yield _answer(where, task, given, task["annotation_id"], task.get("annotator"))
        return
    for annotation in task["annotations"]:
        if not annotation.get("was_cancelled"):
            given = {
                part["from_name"]: _text(part["value"])
                for part in annotation["result"]
                if part.get("from_name") is not None  # else a relation between regions
            }
            by = annotation.get("completed_by")
            yield _answer(where, task["data"], given, annotation.get("id"), by)


def _answer(
    where: str, data: Mapping[str, Any], given: Mapping[str, str], id: object, by: object
) -> RawAnswer:
    return RawAnswer(
        where=f"{where}, annotation {id}",
        key=str(data.get("key") or ""),
        annotator=str(data.get("assigned_to") or _account(by)),
        values={name: text for name, text in given.items() if name not in _TEXTS},
        texts={name: text for name, text in given.items() if name in _TEXTS},
    )


def _account(by: object) -> str:
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


def _shown(value: object) -> str:
    if isinstance(value, dict):  # several choices in the short form
        value = value.get("choices", list(value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " / ".join(map(str, value))
    return "" if value is None else str(value)
