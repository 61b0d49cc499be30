"""Labels meet the scores of their own chat: by id and, if both sides have the chat, by a hash of
its roles and words."""

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
    """What a score is of. ``chat``: Dialogue.chat_hash up to ``turn``, None if not known."""

    id: str
    turn: int | None
    chat: str | None
    system: str = ""

    def is_of(self, dialogue: Dialogue) -> bool:
        """Returns whether the score is of this chat, as far as it is known."""
        return self.chat in (None, dialogue.upto(self.turn).chat_hash)


@dataclass(slots=True)
class JoinedLabels:
    """``score_rows``: for each label the indices of its scores. Labels that have none: ``other``
    (their ids were scored, but with other chats), ``repeated`` (an earlier label is of the same
    chat) and ``absent``. ``by_id`` labels have scores that do not say of which chat they are."""

    score_rows: list[list[int]] = field(default_factory=list)
    other: list[LabelledDialogue] = field(default_factory=list)
    repeated: list[LabelledDialogue] = field(default_factory=list)
    absent: list[LabelledDialogue] = field(default_factory=list)
    by_id: int = 0

    def notes(self, name: str) -> list[str]:
        """Says which labels of the file ``name`` were left out. Raises MedalError if more than
        MOST_OTHER of them are of other chats."""
        joined = sum(map(bool, self.score_rows))
        count = joined + len(self.other)
        if len(self.other) > MOST_OTHER * count:
            raise MedalError(
                f"{name}: the labels of {len(self.other):,} of {count:,} chats are of other chats "
                f"than those that were scored under their ids: {_listed(self.other)}",
                hint="give the labels of the chats that were scored, or score the chats of the "
                "labels; ids that begin again need other names",
            )
        left_out = {
            "Labels of other chats than the scored ones, left out": self.other,
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
    """Finds the scores of each label: those of its id whose chat is the label's.

    An id that reading has numbered (``d1#2``) is the same id as ``d1``: which of them belong
    together is decided by the chats, never by their order. Without a chat on both sides, an id that
    is repeated has no scores. ``may_meet`` can exclude pairs, such as those of different turns.
    """
    plain = _plain_ids({label.id for label in labels} | {score.id for score in scores})
    repeated = {plain[id] for id in plain if plain[id] != id}
    by_id: dict[str, list[int]] = {}
    for place, score in enumerate(scores):
        by_id.setdefault(plain[score.id], []).append(place)
    joined = JoinedLabels()
    labelled: set[int] = set()
    for label in labels:
        id = plain[label.id]
        candidates = [place for place in by_id.get(id, ()) if may_meet(label, scores[place])]
        fitting: list[int] = []
        for place in candidates:
            if scores[place].chat is None or not label.dialogue.turns:
                fits = id not in repeated
                joined.by_id += fits
            else:
                fits = scores[place].is_of(label.dialogue)
            if fits:
                fitting.append(place)
        unlabelled = [place for place in fitting if place not in labelled]
        # Of equal chats under one repeated id, the one with the very same id comes first.
        unlabelled.sort(key=lambda place: scores[place].id != label.id)
        chosen = [place for place in unlabelled if scores[place].id == scores[unlabelled[0]].id]
        if not candidates:
            joined.absent.append(label)
        elif not fitting:
            joined.other.append(label)
        elif not chosen:
            joined.repeated.append(label)
        labelled.update(chosen)
        joined.score_rows.append(chosen)
    return joined


def _plain_ids(ids: Set[str]) -> dict[str, str]:
    """Returns each id without the number that reading has added (``d1`` of ``d1#2``), which it does
    only if there is the id without it."""
    plain = {}
    for id in ids:
        first, sign, number = id.rpartition("#")
        plain[id] = first if sign and number.isdecimal() and first in ids else id
    return plain


def _listed(labels: Sequence[LabelledDialogue]) -> str:
    ids = [label.id for label in labels[:_NAMED]]
    more = f" and {len(labels) - _NAMED:,} more" if len(labels) > _NAMED else ""
    return ", ".join(ids) + more
