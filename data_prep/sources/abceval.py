"""ABC-Eval: behaviours of bot turns, labelled by two people and by ChatGPT, as MEDAL's issues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product

from medal_judges.records.labelled import LabelledDialogue

# MEDAL issue -> its behaviours; any of them marks the issue.
ISSUE_BEHAVIOURS = {
    "lacks_commonsense": ("commonsense_contradiction",),
    "nonfactual": ("incorrect_fact",),
    "repetitive": ("redundant",),
    "irrelevant": ("irrelevant",),
    "incoherent": ("self_contradiction", "partner_contradiction"),
    "lacks_empathy": ("lack_of_empathy",),
}


def to_dialogue_issues(
    rows: Iterable[LabelledDialogue],
) -> Iterator[LabelledDialogue]:
    """Converts the turns of ABC-Eval, labelled with behaviours, to dialogues labelled with
    MEDAL's issues.

    A label has one rating for each annotator. It is 1 if any turn shows a behaviour of that issue.
    Otherwise it is None if a rating is missing, else 0.

    Args:
        rows: Turns of ABC-Eval, labelled with behaviours such as ``redundant``.

    Yields:
        One row for each conversation. ``extra["machine_labels"]`` has the labels by models, as
        issue -> model -> 0, 1 or None.
    """
    conversations: dict[str, list[LabelledDialogue]] = defaultdict(list)
    for row in rows:
        conversations[row.group].append(row)
    for turns in conversations.values():
        labels = {}
        machine: dict[str, dict[str, float | None]] = {}
        for issue, behaviours in ISSUE_BEHAVIOURS.items():
            people = []
            models = []
            for row, name in product(turns, behaviours):
                if name in row.labels:
                    people.append(row.labels[name])
                models.append(row.extra.get("machine_labels", {}).get(name, {}))
            if people:
                labels[issue] = _combine_any(people)
            machine[issue] = {}
            for model in dict.fromkeys(chain.from_iterable(models)):
                column = [[answers.get(model)] for answers in models]
                (machine[issue][model],) = _combine_any(column)
        yield replace(
            max(turns, key=lambda row: len(row.dialogue.turns)),
            labels=labels,
            scales=dict.fromkeys(labels, (0.0, 1.0)),
            level="dialogue",
            extra={"machine_labels": machine},
        )


def _combine_any(columns: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    """Combines the ratings of several turns into one rating for each annotator: 1 if any rating is
    1, otherwise None if any is missing, otherwise 0.

    Args:
        columns: [turns, annotators] ratings, None for a missing rating.
    """
    labels: list[float | None] = []
    for answers in zip(*columns, strict=True):
        if any(answers):
            labels.append(1.0)
        else:
            labels.append(None if None in answers else 0.0)
    return tuple(labels)
