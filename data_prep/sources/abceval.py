"""ABC-Eval: behaviours of bot turns, labelled by two people and by ChatGPT."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from medal_judges.data_prep.sources.source import Source, SourceFile
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
    scales = dict.fromkeys(labels, (0.0, 1.0))
    return LabelledDialogue(
        row.dialogue, labels, scales, row.level, row.split, row.group, extra=row.extra
    )


def lift_to_dialogues(rows: Iterable[LabelledDialogue]) -> Iterator[LabelledDialogue]:
    """Yields one dialogue-level row per conversation, with label 1 if any turn has the issue.

    A label is None if no turn has the issue and a turn has no answer.
    """
    for group, turns in _conversations(rows):
        whole = max(turns, key=lambda row: len(row.dialogue.turns))
        names = [name for name in whole.labels if name in ISSUE_BEHAVIOURS]
        yield LabelledDialogue(
            whole.dialogue,
            {
                name: _any([row.labels[name] for row in turns if name in row.labels])
                for name in names
            },
            {name: whole.scales[name] for name in names},
            "dialogue",
            whole.split,
            group,
        )


def published_judgements(
    rows: Iterable[LabelledDialogue], labeller: str = "gpt"
) -> Iterator[Judgement]:
    """Yields the published model labels (``gpt`` is ChatGPT) of the turn rows as dialogue-level
    judgements. An issue with missing labels is unscored; ``failure`` names it."""
    for _, turns in _conversations(rows):
        whole = max(turns, key=lambda row: len(row.dialogue.turns))
        scores = {
            issue: _machine(turns, behaviours, labeller)
            for issue, behaviours in ISSUE_BEHAVIOURS.items()
        }
        unknown = [issue for issue, score in scores.items() if score is None]
        failure = f"no published label: {', '.join(unknown)}" if unknown else None
        yield Judgement(whole.id, f"judge:{labeller}-published", scores, failure=failure)


def _conversations(
    rows: Iterable[LabelledDialogue],
) -> Iterable[tuple[str, list[LabelledDialogue]]]:
    conversations: dict[str, list[LabelledDialogue]] = {}
    for row in rows:
        conversations.setdefault(row.group, []).append(row)
    return conversations.items()


def _machine(
    turns: Sequence[LabelledDialogue], behaviours: Sequence[str], labeller: str
) -> float | None:
    marks = [
        row.extra.get("machine_labels", {}).get(behaviour, {}).get(labeller)
        for row in turns
        for behaviour in behaviours
    ]
    known = [mark for mark in marks if mark is not None]
    return float(max(known)) if len(known) == len(marks) and known else None


def _any(columns: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    """By position: 1 if any column has 1, else None if one is missing, else 0."""
    joined: list[float | None] = []
    for answers in zip(*columns, strict=True):
        given = [a for a in answers if a is not None]
        marked = any(a > 0 for a in given)
        joined.append(1.0 if marked else 0.0 if len(given) == len(answers) else None)
    return tuple(joined)


ABCEVAL = Source(
    name="abceval",
    title="ABC-Eval: nine behaviours on every bot turn of 54 chats, two people and ChatGPT",
    licence="none stated: for local testing only",
    citation="Finch, Finch and Choi, 2022 (ABC-Eval); Finch, Paek and Choi, SIGDIAL 2023 (labels "
    "of ChatGPT)",
    languages=("en",),
    parts=(
        SourceFile(
            "turn",
            "turn",
            "abceval_turn.jsonl.gz",
            "f500013693433a281345566ed71235063c3eda4fbdc1f50d0bcd161c5a7ed632",
            why="the project publishes it as pickled Python objects, which are never loaded",
        ),
    ),
    notes=("Split by conversation: the rows of one repeat its beginning.",),
)
