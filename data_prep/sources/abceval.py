"""ABC-Eval: behaviours of bot turns, labelled by two people and by ChatGPT, as MEDAL's issues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from medal_judges.records.judgement import Judgement
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


def to_issues(row: LabelledDialogue) -> LabelledDialogue:
    """The turn row with MEDAL issue labels: per annotator position, any of the behaviours.

    An annotator position is not the same person in every row.
    """
    labels = {
        issue: _any([row.labels[b] for b in behaviours if b in row.labels])
        for issue, behaviours in ISSUE_BEHAVIOURS.items()
        if any(b in row.labels for b in behaviours)
    }
    return replace(row, labels=labels, scales=dict.fromkeys(labels, (0.0, 1.0)))


def lift_to_dialogues(rows: Iterable[LabelledDialogue]) -> Iterator[LabelledDialogue]:
    """Yields one dialogue-level row per conversation, with label 1 if any turn has the issue.

    A label is None if no turn has the issue and a turn has no answer.
    """
    for turns in _conversations(rows):
        whole = _longest(turns)
        labels = {
            name: _any([row.labels[name] for row in turns if name in row.labels])
            for name in whole.labels
            if name in ISSUE_BEHAVIOURS
        }
        scales = {name: whole.scales[name] for name in labels}
        yield LabelledDialogue(whole.dialogue, labels, scales, "dialogue", whole.split, whole.group)


def published_judgements(
    rows: Iterable[LabelledDialogue], labeller: str = "gpt"
) -> Iterator[Judgement]:
    """Yields the published model labels (``gpt`` is ChatGPT) of the turn rows as dialogue-level
    judgements. An issue with missing labels is unscored; ``failure`` names it."""
    for turns in _conversations(rows):
        scores: dict[str, float | None] = {}
        for issue, behaviours in ISSUE_BEHAVIOURS.items():
            marks = [
                row.extra.get("machine_labels", {}).get(behaviour, {}).get(labeller)
                for row in turns
                for behaviour in behaviours
            ]
            scores[issue] = None if None in marks else float(max(marks))
        unknown = [issue for issue, score in scores.items() if score is None]
        failure = f"no published label: {', '.join(unknown)}" if unknown else None
        yield Judgement(_longest(turns).id, f"judge:{labeller}-published", scores, failure=failure)


def _conversations(rows: Iterable[LabelledDialogue]) -> Iterable[list[LabelledDialogue]]:
    conversations: dict[str, list[LabelledDialogue]] = {}
    for row in rows:
        conversations.setdefault(row.group, []).append(row)
    return conversations.values()


def _longest(rows: Sequence[LabelledDialogue]) -> LabelledDialogue:
    return max(rows, key=lambda row: len(row.dialogue.turns))


def _any(columns: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    """By position: 1 if any column has 1, else None if one is missing, else 0."""
    return tuple(
        1.0 if any(answers) else None if None in answers else 0.0
        for answers in zip(*columns, strict=True)
    )
