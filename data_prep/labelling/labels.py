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

Values = tuple[float | None, ...]
LABELS_BY = "labels_by"
COMMENTS = "comments"
FAILURE = "label_failure"
EARLIER = "earlier_labels"
ANNOTATORS = "annotators"
MALFORMED = "malformed"
USER_CHECK = "user_check"
WRONG_LANGUAGE = "wrong_language"  # a dimension of the user check


def values_of(
    judgement: Judgement, dimensions: Sequence[Dimension], repeats: int = 1
) -> dict[str, Values]:
    """Dimension -> one value per repeat on the dimension's scale, None for an answer without a
    number. A dimension without any number is absent."""
    labels: dict[str, Values] = {}
    for d in dimensions:
        values: Values = (judgement.scores.get(d.name),)
        if repeats > 1:
            given = judgement.details.get(d.name, {}).get("repeats")
            values = tuple(given or (None,) * repeats)
        if any(value is not None for value in values):
            labels[d.name] = values
    return labels


def comments_of(judgement: Judgement) -> dict[str, str]:
    """Dimension -> the judge's comment."""
    return {n: d["comment"] for n, d in judgement.details.items() if d.get("comment")}


def labelled(
    row: LabelledDialogue, judgement: Judgement, dimensions: Sequence[Dimension], repeats: int = 1
) -> LabelledDialogue:
    """``row`` with the judge's labels, comments and signature; its own labels join the list
    ``extra["earlier_labels"]``. ``extra["label_failure"]`` says why a label is missing. Without any
    label only that is changed."""
    values = values_of(judgement, dimensions, repeats)
    if not values:
        return replace(row, extra={**row.extra, FAILURE: judgement.failure or "no reason given"})
    scales = {d.name: (d.low, d.high) for d in dimensions if d.name in values}
    extra = {**row.extra, **earlier_labels(row)}
    extra.pop(ANNOTATORS, None)  # these labels are not theirs
    extra |= {COMMENTS: comments_of(judgement), LABELS_BY: judgement.judge}
    extra.pop(FAILURE, None)
    if judgement.failure is not None:
        extra[FAILURE] = judgement.failure
    return replace(row, labels=values, scales=scales, aggregated=False, extra=extra)


def earlier_labels(row: LabelledDialogue) -> dict[str, Any]:
    """``earlier_labels`` with the row's own labels appended; empty if it has no labels."""
    if not row.labels:
        return {}
    record = row.to_record()
    kept = {name: record[name] for name in ("labels", "scales", "aggregated") if name in record}
    source = {k: row.extra[k] for k in (COMMENTS, LABELS_BY, ANNOTATORS) if k in row.extra}
    return {EARLIER: [*row.extra.get(EARLIER, ()), kept | source]}


def malformed_reasons(check: Judgement) -> tuple[str, ...]:
    """The dimensions that the check found (a score of at least 0.5), in the rubric's order."""
    return tuple(name for name, score in check.scores.items() if score is not None and score >= 0.5)


def with_check(row: LabelledDialogue, check: Judgement) -> LabelledDialogue:
    """``row`` with ``extra["malformed"]`` (``reasons``, ``comments``, ``by``), or, if its user is
    in order, with ``extra["user_check"]`` (``by``, and the ``failure`` of an incomplete check)."""
    note: dict[str, Any] = {"by": check.judge}
    if check.failure is not None:
        note["failure"] = check.failure
    if not (reasons := malformed_reasons(check)):
        return replace(row, extra={**row.extra, USER_CHECK: note})
    why = {"reasons": list(reasons), "comments": comments_of(check), "by": check.judge}
    return replace(row, extra={**row.extra, MALFORMED: why})


def languages_to_label(
    rows: Iterator[LabelledDialogue], *, replace_labels: bool, need_lang: bool
) -> tuple[str, ...]:
    """The languages of all rows, sorted.

    Raises MedalError for rows about single turns, for rows that have labels unless
    ``replace_labels``, and for rows without ``lang`` if ``need_lang``.
    """
    count, langs, had = 0, set(), 0
    for row in rows:
        count += 1
        langs.add(row.dialogue.lang)
        had += bool(row.labels)
        if row.level != "dialogue":
            raise MedalError(
                f"row {row.id!r} is about one turn (level {row.level!r}); medal label judges whole "
                "dialogues",
                hint="medal score --level last judges the last answer of each row",
            )
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
    return tuple(sorted(langs))
