"""Joins labels with the scores of the same chat.

Id and, if both sides have it, a hash of the chat's roles and words must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
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
        """Says whether the score belongs to this chat, as far as the chat is known."""
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

    def fitting_rows(
        self,
        label: LabelledDialogue,
        candidates: Sequence[int],
        scores: Sequence[ScoreKey],
        *,
        is_repeated: bool,
    ) -> list[int]:
        """Returns the candidates whose chat is the label's. If a side lacks the chat, the id
        decides, unless it is repeated; such pairs are counted in ``by_id``."""
        fitting: list[int] = []
        for row in candidates:
            has_both_chats = scores[row].chat is not None and label.dialogue.turns
            if has_both_chats:
                is_fitting = scores[row].is_of(label.dialogue)
            else:
                is_fitting = not is_repeated
                self.by_id += is_fitting
            if is_fitting:
                fitting.append(row)
        return fitting

    def notes(self, name: str) -> list[str]:
        """Says which labels of the file ``name`` were left out. Raises MedalError if more than
        MOST_OTHER of them are of other chats."""
        other_count = len(self.of_other_chats)
        count = sum(map(bool, self.score_rows)) + other_count
        if other_count > MOST_OTHER * count:
            raise MedalError(
                f"{name}: the labels of {other_count:,} of {count:,} chats are of other chats "
                f"than those that were scored under their ids: {_listed(self.of_other_chats)}",
                hint="give the labels of the chats that were scored, or score the chats of the "
                "labels; ids that begin again need other names",
            )
        left_out = {
            "Labels of other chats than the scored ones, left out": self.of_other_chats,
            "Labels of chats that have labels already, left out": self.repeated,
        }
        notes = []
        for reason, labels in left_out.items():
            if labels:
                notes.append(f"{reason}: {len(labels):,} ({name}: {_listed(labels)})")
        if self.by_id:
            reason = "Labels that meet their scores by id alone, because a side lacks the chats"
            notes.append(f"{reason}: {self.by_id:,} ({name})")
        return notes


def join_labels(
    labels: Sequence[LabelledDialogue],
    scores: Sequence[ScoreKey],
    may_meet: Callable[[LabelledDialogue, ScoreKey], bool] = lambda label, score: True,
) -> JoinedLabels:
    """Finds the scores of each label: scores with its id whose chat is the label's chat.

    Reading numbers repeated ids (``d1#2``). Such an id counts as ``d1``, and the hash of the chat
    decides which score belongs to which label, never their order. If one side has no hash, a
    repeated id has no scores. ``may_meet`` can exclude pairs, such as those of different turns.
    """
    ids = {label.id for label in labels} | {score.id for score in scores}
    first_ids = _first_ids(ids)
    repeated = {first for id, first in first_ids.items() if first != id}
    by_id: dict[str, list[int]] = {}
    for row, score in enumerate(scores):
        by_id.setdefault(first_ids[score.id], []).append(row)
    joined = JoinedLabels()
    labelled: set[int] = set()
    for label in labels:
        id = first_ids[label.id]
        candidates = [row for row in by_id.get(id, ()) if may_meet(label, scores[row])]
        fitting = joined.fitting_rows(
            label, candidates, scores, is_repeated=id in repeated
        )
        unlabelled = [row for row in fitting if row not in labelled]
        chosen = _nearest_ids(label.id, unlabelled, scores)
        if not candidates:
            joined.absent.append(label)
        elif not fitting:
            joined.of_other_chats.append(label)
        elif not chosen:
            joined.repeated.append(label)
        labelled.update(chosen)
        joined.score_rows.append(chosen)
    return joined


def _nearest_ids(id: str, rows: Sequence[int], scores: Sequence[ScoreKey]) -> list[int]:
    """Returns the rows with exactly the ``id``, or if there are none, those with the first row's
    id.
    """
    exact = [row for row in rows if scores[row].id == id]
    return exact or [row for row in rows if scores[row].id == scores[rows[0]].id]


def _first_ids(ids: Set[str]) -> dict[str, str]:
    """Returns each id without the number that reading has added (``d1`` for ``d1#2``).

    Reading adds a number only if the id without it exists.
    """
    first_ids = {}
    for id in ids:
        first, sign, number = id.rpartition("#")
        first_ids[id] = id
        if sign and number.isdecimal() and first in ids:
            first_ids[id] = first
    return first_ids


def _listed(labels: Sequence[LabelledDialogue]) -> str:
    ids = ", ".join(label.id for label in labels[:_NAMED])
    if len(labels) > _NAMED:
        ids += f" and {len(labels) - _NAMED:,} more"
    return ids
