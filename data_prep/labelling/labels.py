"""From judgements to rows: labels, and the check of the simulated user.

MEDAL, section 3.4 and appendix C.3: a judge finds the dialogues whose simulated user broke (played
the assistant, or wrote in another language); they are removed before anything is labelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.errors import MedalError
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue

LABELS_BY, COMMENTS, FAILURE = "labels_by", "comments", "label_failure"
EARLIER, ANNOTATORS = "earlier_labels", "annotators"


def labelled(
    row: LabelledDialogue, judgement: Judgement, dimensions: Sequence[Dimension], repeats: int = 1
) -> LabelledDialogue:
    """``row`` with the judge's labels (one value per repeat, None for an answer without a number),
    comments and signature; its own labels join the list ``extra["earlier_labels"]``.

    ``extra["label_failure"]`` says why a label is missing. Without any label only that is changed.
    """
    labels: dict[str, tuple[float | None, ...]] = {}
    for d in dimensions:
        values = (judgement.scores.get(d.name),)
        if repeats > 1:
            given = judgement.details.get(d.name, {}).get("repeats")
            values = tuple(given or (None,) * repeats)
        if any(value is not None for value in values):
            labels[d.name] = values
    if not labels:
        return replace(row, extra={**row.extra, FAILURE: judgement.failure or "no reason given"})
    scales = {d.name: (d.low, d.high) for d in dimensions if d.name in labels}
    extra = {**row.extra, **earlier_labels(row)}
    extra.pop(ANNOTATORS, None)  # these labels are not theirs
    extra |= {COMMENTS: comments_of(judgement), LABELS_BY: judgement.judge}
    extra.pop(FAILURE, None)
    if judgement.failure is not None:
        extra[FAILURE] = judgement.failure
    return replace(row, labels=labels, scales=scales, aggregated=False, extra=extra)


def comments_of(judgement: Judgement) -> dict[str, str]:
    """Dimension -> the judge's comment."""
    return {n: d["comment"] for n, d in judgement.details.items() if d.get("comment")}


def earlier_labels(row: LabelledDialogue) -> dict[str, Any]:
    """``earlier_labels`` with the row's own labels appended; empty if it has no labels."""
    if not row.labels:
        return {}
    record = row.to_record()
    own: dict[str, Any] = {
        name: record[name] for name in ("labels", "scales", "aggregated") if name in record
    }
    own |= {k: row.extra[k] for k in (COMMENTS, LABELS_BY, ANNOTATORS) if k in row.extra}
    return {EARLIER: [*row.extra.get(EARLIER, ()), own]}


def malformed_reasons(check: Judgement) -> tuple[str, ...]:
    """The dimensions that the check found (a score of at least 0.5), in the rubric's order."""
    return tuple(name for name, score in check.scores.items() if score is not None and score >= 0.5)


def with_check(row: LabelledDialogue, check: Judgement) -> LabelledDialogue:
    """``row`` with ``extra["malformed"]`` (``reasons``, ``comments``, ``by``), or, if its user is
    in order, with ``extra["user_check"]`` (``by``, and the ``failure`` of an incomplete check)."""
    if reasons := malformed_reasons(check):
        why = {"reasons": list(reasons), "comments": comments_of(check), "by": check.judge}
        return replace(row, extra={**row.extra, "malformed": why})
    note = {"by": check.judge}
    if check.failure is not None:
        note["failure"] = check.failure
    return replace(row, extra={**row.extra, "user_check": note})


def require_labellable(
    rows: Iterator[LabelledDialogue], *, replace_labels: bool, need_lang: bool
) -> None:
    """Raises MedalError for rows about single turns, for rows that have labels unless
    ``replace_labels``, and for rows without ``lang`` if ``need_lang``."""
    count = had = 0
    for row in rows:
        count += 1
        had += bool(row.labels)
        if row.level != "dialogue":
            problem = f"row {row.id!r} is about one turn; medal label judges whole dialogues"
            raise MedalError(problem, hint="medal score --level last judges last answers")
        if need_lang and row.dialogue.lang == "und":
            raise MedalError(
                f"row {row.id!r} has no 'lang', so its user cannot be checked for another language",
                hint="give each row its ISO 639-1 code, or leave the check out: --no-user-check",
            )
    if had and not replace_labels:
        raise MedalError(
            f"{had} of {count} rows have labels already",
            hint=f"--replace-labels gives them new ones; {EARLIER!r} then holds the old ones, and "
            "FILE stays unchanged",
        )
