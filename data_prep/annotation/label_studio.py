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
    EMPTY,
    OTHER_TEXT,
    TEMPLATES,
    Annotation,
    AnnotationQuestion,
)
from medal_judges.errors import DataError, printable
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.page import render_template

ACCOUNT = "account-"
_EXPORT = "in Label Studio: Export, JSON"


def config_xml(questions: Sequence[AnnotationQuestion], asks: Mapping[Any, str]) -> str:
    """Returns the labelling interface of Label Studio as XML. It has a required choice for each of
    ``questions``, then two text fields.

    Args:
        questions: The questions with their possible answers.
        asks: ``other_text`` and ``comment`` -> heading of that text field. Other keys are ignored.
    """
    template = render_template(
        TEMPLATES, "label_studio.xml", questions=questions, asks=asks
    )
    root = ET.fromstring(printable(template))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def make_tasks(
    rows: Iterable[tuple[str, LabelledDialogue]], annotator: str | None = None
) -> list[dict[str, Any]]:
    """Returns one task for each dialogue in ``rows``, as a JSON object that Label Studio imports.

    A task has the key, the language and the turns. Id, model, source and labels are left out,
    because they could reveal the chatbot.

    Args:
        rows: (key, dialogue) pairs. Annotators see the key in place of the id.
        annotator: The person to whom the tasks are assigned, if any.
    """
    tasks = []
    for number, (key, row) in enumerate(rows, 1):
        turns = []
        for turn in row.dialogue.turns:
            turns.append({"speaker": turn.role, "text": turn.content or EMPTY})
        data = {
            "key": key,
            "number": number,
            "lang": row.dialogue.lang,
            "dialogue": turns,
        }
        if annotator:
            data["assigned_to"] = annotator  # Label Studio uses `annotator` itself
        tasks.append({"data": data})
    return tasks


def read_label_studio(path: Path) -> Iterator[Annotation]:
    """Yields every finished annotation in ``path``, a JSON export of Label Studio (not JSON-MIN).

    The annotator is the person to whom the task was assigned, otherwise the account that completed
    it: an e-mail address or ``account-NUMBER``.

    Raises:
        DataError: The file is missing, or does not have the form of a JSON export.
    """
    try:
        tasks = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, RecursionError) as error:
        raise DataError(
            path, None, f"not a JSON export: {error}", hint=_EXPORT
        ) from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(
            path, None, "expected a list of tasks in the file", hint=_EXPORT
        )
    for number, task in enumerate(tasks, 1):
        try:
            yield from _task_annotations(task, f"{path}: task {task.get('id', number)}")
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            problem = f"task {number} is not as Label Studio exports it: {error!r}"
            raise DataError(path, None, problem, hint=_EXPORT) from error


def _task_annotations(task: Mapping[str, Any], where: str) -> Iterator[Annotation]:
    """Yields the finished annotations of ``task``, one task of a Label Studio export.

    Args:
        where: File and task, such as ``export.json: task 7``, for error messages.
    """
    data = task["data"]
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            continue
        values = {}
        for result in annotation["result"]:
            name = result.get("from_name")
            if name is not None:  # else a relation between regions
                values[name] = _answer_text(result["value"])
        texts = {
            name: values.pop(name) for name in (OTHER_TEXT, COMMENT) if name in values
        }
        yield Annotation(
            where=f"{where}, annotation {annotation.get('id')}",
            key=str(data.get("key") or ""),
            annotator=str(
                data.get("assigned_to") or _account_name(annotation.get("completed_by"))
            ),
            texts=texts,
            values=values,
        )


def _answer_text(value: Mapping[str, Any]) -> str:
    """Returns the answer in ``value``, such as ``{"choices": ["yes"]}``, as text (``yes``).

    Raises:
        ValueError: The answer is not a choice, text, rating or number.
    """
    kinds = [kind for kind in ("choices", "text", "rating", "number") if kind in value]
    if not kinds:
        raise ValueError(
            f"a tag with {', '.join(value)}, which is unknown. Leave it out"
        )
    answer = value[kinds[0]]
    if isinstance(answer, list):
        return " / ".join(map(str, answer))
    return str(answer)


def _account_name(completed_by: Any) -> str:
    """Returns the name of the Label Studio account ``completed_by``: an e-mail address
    or ``account-NUMBER``.

    Args:
        completed_by: The account's number, or an object with ``email`` or ``id``. None gives an
            empty name.
    """
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("id")
    account = "" if completed_by is None else str(completed_by)
    if account.isdigit():
        return f"{ACCOUNT}{account}"
    return account
