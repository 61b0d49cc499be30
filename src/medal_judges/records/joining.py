"""Joins labels with the scores of the same chat.

A label and a score are of the same chat if their ids are equal and their hashes of the chat's roles
and words are equal. If one of them has no hash, the id alone decides.
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
    """What a score rates: a dialogue, or one turn of it.

    Attributes:
        id: Id of the dialogue.
        turn: Index of the turn, None for the whole dialogue.
        chat: Hash of the roles and words of the dialogue, up to and including ``turn``. None if
            unknown.
    """

    id: str
    turn: int | None
    chat: str | None

    def may_match_text(self, dialogue: Dialogue) -> bool:
        """Returns whether the score can be of ``dialogue``, by the hash of its roles and words up
        to ``turn``. True if the hash of the score is unknown. Ids are not compared."""
        return self.chat in (None, dialogue.upto(self.turn).chat_hash)


@dataclass(slots=True)
class JoinedLabels:
    """Which scores belong to each labelled dialogue, and which labelled dialogues have none.

    Attributes:
        score_rows: For each labelled dialogue, in order, the indices of its scores in the list of
            scores.
        of_other_chats: Labelled dialogues whose id has scores, but only for another text.
        repeated: Labelled dialogues whose scores already belong to an earlier labelled dialogue of
            the same chat.
        absent: Labelled dialogues whose id has no scores.
        by_id: Number of pairs (labelled dialogue, score) that were joined by id alone, because the
            text of one is unknown.
    """

    score_rows: list[list[int]] = field(default_factory=list)
    of_other_chats: list[LabelledDialogue] = field(default_factory=list)
    repeated: list[LabelledDialogue] = field(default_factory=list)
    absent: list[LabelledDialogue] = field(default_factory=list)
    by_id: int = 0

    def check_and_describe(self, name: str) -> list[str]:
        """Returns messages for the user about labels that were left out or joined by id alone. Each
        reason gives one message.

        Args:
            name: File of the labels, which the messages name.

        Raises:
            MedalError: More than 5% of the labels have an id that was scored for a different chat.
        """
        other_count = len(self.of_other_chats)
        count = sum(map(bool, self.score_rows)) + other_count
        other_ids = _first_ids_as_text(self.of_other_chats)
        if other_count > MOST_OTHER * count:
            raise MedalError(
                f"{name}: the labels of {other_count:,} of {count:,} chats are of other chats "
                f"than those that were scored under their ids: {other_ids}",
                hint="Give the labels of the chats that were scored. Two chats need two ids",
            )
        notes = []
        if self.of_other_chats:
            reason = "Labels of other chats than the scored ones, left out"
            notes.append(f"{reason}: {other_count:,} ({name}: {other_ids})")
        if self.repeated:
            reason = "Labels of chats that have labels already, left out"
            ids = _first_ids_as_text(self.repeated)
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
    """Finds the scores of each labelled dialogue, by its id and the hash of its text.

    If the text of a label or of a score is unknown, only the ids are compared, and only if a single
    chat has this id. ``d1#2``, the second ``d1`` of a file, counts as ``d1``.

    Args:
        labels: The labelled dialogues.
        scores: Id, turn and hash of the chat of each score.
        may_meet: A function that returns whether a labelled dialogue and a score may be joined. It
            can keep a label of turn 1 from a score of turn 3. By default all may.

    Returns:
        The indices in ``scores`` for each labelled dialogue, and the dialogues without scores.
    """
    first_ids = _map_to_unnumbered_ids({label.id for label in labels}, scores)
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
                is_fitting = scores[row].may_match_text(label.dialogue)
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


def _map_to_unnumbered_ids(ids: set[str], scores: Sequence[ScoreKey]) -> dict[str, str]:
    """Returns id -> id without the number of a repeated id, for ``ids`` and the ids in ``scores``:
    ``d1#2`` -> ``d1`` if ``d1`` occurs too, otherwise unchanged."""
    ids = ids.union(score.id for score in scores)
    first_ids = {}
    for id in ids:
        first, _, number = id.rpartition("#")
        first_ids[id] = id
        if number.isdecimal() and first in ids:
            first_ids[id] = first
    return first_ids


def _first_ids_as_text(labels: Sequence[LabelledDialogue]) -> str:
    """Returns the ids of the first five of ``labels`` and the number of the others: ``d1, d2, d3,
    d4, d5 and 7 more``."""
    ids = ", ".join(label.id for label in labels[:_NAMED])
    if len(labels) > _NAMED:
        ids += f" and {len(labels) - _NAMED:,} more"
    return ids
