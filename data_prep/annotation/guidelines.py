"""The guidelines as a document, in Markdown and in the HTML that Label Studio shows."""

from __future__ import annotations

import html
from collections.abc import Sequence

from medal_judges.data_prep.annotation.questions import Guidelines, Question


def markdown(guidelines: Guidelines, asked: Sequence[Question]) -> str:
    """The guidelines for ``asked`` as Markdown."""
    parts = [f"# {guidelines.title}", *guidelines.intro]
    for question in asked:
        parts += [f"## {question.title}", question.dimension.definition, question.ask]
        criteria = _criteria(question)
        if criteria:
            parts.append("\n".join(f"- **{name}** {text}" for name, text in criteria))
    return "\n\n".join(parts) + "\n"


def instructions(guidelines: Guidelines, asked: Sequence[Question]) -> str:
    """The same as HTML for the instructions of a Label Studio project."""
    parts = [f"<h2>{html.escape(guidelines.title)}</h2>"]
    parts += [f"<p>{html.escape(paragraph)}</p>" for paragraph in guidelines.intro]
    for question in asked:
        parts.append(f"<h3>{html.escape(question.title)}</h3>")
        parts.append(f"<p>{html.escape(question.dimension.definition)}</p>")
        parts.append(f"<p>{html.escape(question.ask)}</p>")
        items = "".join(
            f"<li><b>{html.escape(name)}</b> {html.escape(text)}</li>"
            for name, text in _criteria(question)
        )
        parts.append(f"<ul>{items}</ul>" if items else "")
    return "\n".join(part for part in parts if part) + "\n"


def _criteria(question: Question) -> list[tuple[str, str]]:
    if question.grades:
        return list(zip(question.answers, question.grades, strict=True))
    pairs = (("yes if", question.mark), ("no if", question.leave))
    return [(name, text) for name, text in pairs if text]
