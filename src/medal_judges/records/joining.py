"""Joins labels with the scores of the same chat.

Id and, if both sides have it, a hash of the chat's roles and words must be equal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from medal_judges.errors import MedalError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.labelled import LabelledDialogue

MOST_OTHER = 0.05  # a larger share of labels of other chats is an error
_NAMED = 5  # ids in a message


class ScoreKey(NamedTuple):
    """What a score belongs to. ``chat`` is Dialogue.chat_hash up to ``turn``, None if unknown."""

    id: str
    turn: int | None
    chat: str | None
    system: str = ""

    def is_of(self, dialogue: Dialogue) -> bool:
        """Says whether the score belongs to ``dialogue``, as far as the chat is known."""
        return self.chat in (None, dialogue.upto(self.turn).chat_hash)


@dataclass(slots=True)
class JoinedLabels:
    """``score_rows`` has the indices of the scores of each label.

    Labels without a score are ``of_other_chats`` (their ids were scored, but with other chats),
    ``repeated`` (an earlier label is of the same chat) or ``absent``. ``by_id`` counts the scores
    that do not say which chat they are of, and were joined by the id alone.
    """

    score_rows: list[list[int]] = field(default_factory=list)
    of_other_chats: list[LabelledDialogue] = field(default_factory=list)
    repeated: list[LabelledDialogue] = field(default_factory=list)
    absent: list[LabelledDialogue] = field(default_factory=list)
    by_id: int = 0

    def notes(self, name: str) -> list[str]:
        """Says which labels of the file ``name`` were left out. Raises MedalError if more than
        MOST_OTHER of them are of other chats."""
        other_count = len(self.of_other_chats)
        count = sum(map(bool, self.score_rows)) + other_count
        other_ids = _list_ids(self.of_other_chats)
        if other_count > MOST_OTHER * count:
            raise MedalError(
                f"{name}: the labels of {other_count:,} of {count:,} chats are of other chats "
                f"than those that were scored under their ids: {other_ids}",
                hint="give the labels of the chats that were scored, or score the chats of the "
                "labels; ids that begin again need other names",
            )
        notes = []
        if self.of_other_chats:
            reason = "Labels of other chats than the scored ones, left out"
            notes.append(f"{reason}: {other_count:,} ({name}: {other_ids})")
        if self.repeated:
            reason = "Labels of chats that have labels already, left out"
            ids = _list_ids(self.repeated)
            notes.append(f"{reason}: {len(self.repeated):,} ({name}: {ids})")
        if self.by_id:
            reason = "Labels that meet their scores by id alone, because a side lacks the chats"
            notes.append(f"{reason}: {self.by_id:,} ({name})")
        return notes


def join_labels(
    labels: Sequence[LabelledDialogue],
    scores: Sequence[ScoreKey],
    may_meet: Callable[[LabelledDialogue, ScoreKey], bool] = lambda label, score: True,
) -> JoinedLabels:
    """Finds the ``scores`` of each of ``labels``: scores with its id whose chat is its chat.

    Reading numbers repeated ids (``d1#2``). Such an id counts as ``d1``, and the hash of the chat
    decides which score belongs to which label, never their order. If one side has no hash, a
    repeated id has no scores. ``may_meet`` can exclude pairs, such as those of different turns.
    """
    first_ids = _first_ids({label.id for label in labels}, scores)
    repeats = Counter(first_ids.values())
    rows_by_id = defaultdict(list)
    for row, score in enumerate(scores):
        rows_by_id[first_ids[score.id]].append(row)
    joined = JoinedLabels()
    labelled: set[int] = set()
    for label in labels:
        id = first_ids[label.id]
        candidates = [row for row in rows_by_id[id] if may_meet(label, scores[row])]
        fitting = []
        for row in candidates:
            has_chats = scores[row].chat is not None and bool(label.dialogue.turns)
            is_fitting = repeats[id] == 1
            if has_chats:
                is_fitting = scores[row].is_of(label.dialogue)
            if is_fitting:
                joined.by_id += not has_chats
                fitting.append(row)
        # the rows with exactly the id, or if there are none, those with the first row's id
        nearest = sorted(
            set(fitting) - labelled, key=lambda r: (scores[r].id != label.id, r)
        )
        chosen = [row for row in nearest if scores[row].id == scores[nearest[0]].id]
        if not chosen:
            unjoined = joined.repeated if fitting else joined.of_other_chats
            (unjoined if candidates else joined.absent).append(label)
        labelled.update(chosen)
        joined.score_rows.append(chosen)
    return joined


def _first_ids(ids: set[str], scores: Sequence[ScoreKey]) -> dict[str, str]:
    """Returns each of ``ids`` and of the ids of ``scores`` without the number that reading has
    added, ``d1`` for ``d1#2``. It adds one only if there is the id without it."""
    ids = ids.union(score.id for score in scores)
    first_ids = {}
    for id in ids:
        first, _, number = id.rpartition("#")
        first_ids[id] = id
        if number.isdecimal() and first in ids:
            first_ids[id] = first
    return first_ids


def _list_ids(labels: Sequence[LabelledDialogue]) -> str:
    ids = ", ".join(label.id for label in labels[:_NAMED])
    if len(labels) > _NAMED:
        ids += f" and {len(labels) - _NAMED:,} more"
    return ids
