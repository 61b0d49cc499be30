"""Label Studio: the labelling interface as XML and the tasks as JSON.

Checked against Label Studio 1.23.2 (see tests/data_prep/annotation/README.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from medal_judges.data_prep.annotation.questions import (
    COMMENT,
    OTHER,
    OTHER_TEXT,
    YES,
    Asks,
    Question,
)
from medal_judges.labelled import LabelledDialogue

DIALOGUE = "dialogue"  # the tag that shows the dialogue; all questions are about it
EMPTY = "[empty message]"
# What Label Studio shows of a turn beyond its speaker and text (times of a recording, a button to
# mark a region, a filter) means nothing here. Its class names end in a hash: partial matches.
_STYLE = """
.medal-columns { display: flex; gap: 24px; align-items: flex-start; flex-wrap: wrap; }
.medal-dialogue { flex: 1 1 420px; position: sticky; top: 0; max-height: 88vh; overflow-y: auto; }
.medal-dialogue [class*="time--"], .medal-dialogue [class*="selectAllBtnWrapper"],
.medal-dialogue [class*="wrapper_header"] { display: none; }
.medal-dialogue [class*="dialoguetext"] { white-space: pre-wrap; }
.medal-questions { flex: 1 1 380px; }
.medal-question { border-top: 1px solid #8884; padding: 2px 0 8px; }
.medal-question h3 { font-size: 16px; margin: 6px 0 2px !important; }
.medal-question h4 { font-size: 14px; font-weight: 400; margin: 0 0 4px !important; }
"""


def config_xml(asked: Sequence[Question], asks: Asks) -> str:
    """The labelling interface: the dialogue on one side, the questions on the other.

    Every dimension is a required single choice under its own name, with ``yes`` and ``no`` or the
    numbers of its scale as values; the free texts are ``other_text`` and ``comment``.
    """
    root = ET.Element("View")
    ET.SubElement(root, "Style").text = _STYLE
    columns = ET.SubElement(root, "View", className="medal-columns")
    left = ET.SubElement(columns, "View", className="medal-dialogue")
    ET.SubElement(left, "Header", value="Conversation $number ($lang)", size="4")
    ET.SubElement(
        left,
        "Paragraphs",
        name=DIALOGUE,
        value="$dialogue",
        layout="dialogue",
        nameKey="speaker",
        textKey="text",
    )
    right = ET.SubElement(columns, "View", className="medal-questions")
    for question in asked:
        _add_question(right, question, asks)
    _add_text(ET.SubElement(right, "View", className="medal-question"), COMMENT, asks.comment)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _add_question(parent: ET.Element, question: Question, asks: Asks) -> None:
    block = ET.SubElement(parent, "View", className="medal-question")
    ET.SubElement(block, "Header", value=question.title, size="4")
    ET.SubElement(block, "Header", value=question.dimension.definition, size="6")
    binary = question.dimension.kind == "binary"
    if not binary:
        ET.SubElement(block, "Header", value=question.ask, size="6")
    choices = ET.SubElement(
        block,
        "Choices",
        name=question.name,
        toName=DIALOGUE,
        choice="single-radio",
        showInline="true" if binary else "false",
        required="true",
        requiredMessage=f"{question.title}: choose an answer",
    )
    for i, answer in enumerate(question.answers):
        said = f"{answer}. {question.grades[i]}" if question.grades else answer
        # what is exported is the alias, so that the words may change
        choice = ET.SubElement(choices, "Choice", value=said, alias=answer)
        if hint := _hint(question, answer):
            choice.set("hint", hint)
    if question.name == OTHER:
        shown = {"visibleWhen": "choice-selected", "whenTagName": OTHER, "whenChoiceValue": YES}
        _add_text(ET.SubElement(block, "View", shown), OTHER_TEXT, asks.other_text)


def _hint(question: Question, answer: str) -> str:
    if question.dimension.kind != "binary":
        return ""
    criteria = question.mark if answer == YES else question.leave
    return f"{answer.capitalize()} if {criteria}" if criteria else ""


def _add_text(parent: ET.Element, name: str, ask: str) -> None:
    ET.SubElement(parent, "Header", value=ask, size="6")
    ET.SubElement(
        parent,
        "TextArea",
        name=name,
        toName=DIALOGUE,
        rows="2",
        maxSubmissions="1",
        editable="true",
    )


def tasks(
    rows: Iterable[tuple[str, LabelledDialogue]], annotator: str | None = None
) -> list[dict[str, Any]]:
    """Tasks of (key, row) pairs in their order. An annotator sees key, language and turns: no id,
    model, source or label, which could give away who speaks or what a machine thought."""
    found = []
    for number, (key, row) in enumerate(rows, 1):
        turns = [{"speaker": t.role, "text": t.content or EMPTY} for t in row.dialogue.turns]
        data = {"key": key, "number": number, "lang": row.dialogue.lang, "dialogue": turns}
        # Label Studio calls the person who answered `annotator` in its short export
        found.append({"data": data | ({"assigned_to": annotator} if annotator else {})})
    return found


def tasks_json(found: Sequence[dict[str, Any]]) -> str:
    """Tasks as the file that Label Studio imports."""
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"
