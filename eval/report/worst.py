"""The worst chats: their scores, the turn that cost most, and the reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from medal_judges.eval.report.reasons import (
    UNANSWERED,
    WITHOUT_FEATURES,
    Reason,
    find_reason,
)
from medal_judges.eval.scores.scores import Codes, Scores
from medal_judges.models.base.judge import NO_ASSISTANT_TURN
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.joining import ScoreKey
from medal_judges.records.judgement import Judgement
from medal_judges.report.page import Sheet, Turns, shortened_turns
from medal_judges.stats.correlation import Floats

# Worst chats: a tenth of all, but so many.
_LEAST, _MOST = 20, 100
_SEARCHED = 3  # times as many chats are read
_ALIKE = 0.4  # of the worst chats have one mechanism; more only if there are no others


@dataclass(slots=True)
class WorstChat:
    """A bad chat, and why it is bad.

    Attributes:
        judgement: The judgement of the chat.
        dimension: The dimension on which the chat is bad: the main one, such as ``overall``. If the
            judge scores only issues, the most likely issue.
        reason: Why the score is bad.
        turns: (role, text) pairs, empty if the chats were not given.
        columns: Name of a column -> the chat's value as text, such as ``{"version": "v2"}``.
    """

    judgement: Judgement
    dimension: str
    reason: Reason
    turns: Turns = ()
    columns: dict[str, str | None] = field(default_factory=dict)

    @property
    def score(self) -> float | None:
        return self.judgement.scores[self.dimension]

    @property
    def contributions(self) -> Sequence[float]:
        """Returns how much each turn raised or lowered the score, one number for each of ``turns``.
        It is empty if the judge gives no contributions."""
        contributions = self.judgement.contributions.get(self.dimension)
        if contributions is None or len(contributions.turns) != len(self.turns):
            return ()
        return contributions.turns


def distance_from_good_end(scores: Scores, name: str) -> Floats:
    """Returns how bad each row's score on the dimension ``name`` is, [rows], from 0 (good) to 1
    (bad). It is NaN if unscored."""
    dimension = scores.dimensions[name]
    share = (scores.scores[name] - dimension.low) / (dimension.high - dimension.low)
    return share if dimension.good == "low" else 1 - share


def badness(scores: Scores) -> Floats:
    """Returns how bad each row is, [rows], from 0 (good) to 1 (bad). It is NaN if unscored.

    It is computed from the score on the main dimension, such as ``overall``. If the judge scores
    only issues, it is the mean over all issues.
    """
    if scores.headline is not None:
        return distance_from_good_end(scores, scores.headline)
    import pandas

    distances = pandas.DataFrame(index=scores.frame.index)
    for name in scores.issue_names:
        distances[name] = distance_from_good_end(scores, name)
    return np.array(distances.mean(axis=1), dtype=np.float64)


def rows_worst_first(scores: Scores) -> Codes:
    """Returns the indices of all scored rows of ``scores``, the worst first. Chats that the bot
    never answered come before all others."""
    bad = badness(scores)
    bad[scores.frame["failure"] == NO_ASSISTANT_TURN] = math.inf
    rows = np.flatnonzero(~np.isnan(bad))
    return rows[np.argsort(-bad[rows], kind="stable")]


def worst_count(scores: Scores) -> int:
    """Returns the number of worst rows to show: a tenth of all rows, but at
    least 20 and at most 100."""
    return min(_MOST, max(_LEAST, scores.rows // 10))


def collect_worst_candidates(
    scores: Scores,
    judgements: Iterable[Judgement],
    dialogues: Iterable[Dialogue] | None,
) -> list[WorstChat]:
    """Returns candidates for the worst chats of a page, the worst first. There are three times as
    many as the page shows.

    Args:
        scores: The judgements of the chats as arrays.
        judgements: The same judgements, one for each row of ``scores``, in the same order.
        dialogues: The scored dialogues, None if they were not given.
    """
    rows = rows_worst_first(scores)[: _SEARCHED * worst_count(scores)].tolist()
    if not rows or not scores.dimensions:
        return []
    chosen = set(rows)
    judgement_of = {}
    for row, judgement in enumerate(judgements):
        if row in chosen:
            judgement_of[row] = judgement
    turns_of = _turns_by_row(judgement_of, dialogues or ())
    chats = []
    for row in rows:
        judgement = judgement_of[row]
        turns = turns_of.get(row, ())
        name = scores.headline
        if name is None:
            faults = [
                distance_from_good_end(scores, issue)[row]
                for issue in scores.issue_names
            ]
            name = scores.issue_names[int(np.nanargmax(faults))]
        reason = Reason(UNANSWERED, UNANSWERED)
        if judgement.failure != NO_ASSISTANT_TURN:
            reason = find_reason(judgement, turns, scores.dimensions[name])
        columns = {}
        for column in scores.columns:
            if column != "has_chat":
                columns[column] = scores.columns[column].iloc[row]
        chats.append(WorstChat(judgement, name, reason, turns, columns))
    return chats


def choose_varied_chats(chats: Sequence[WorstChat], count: int) -> list[WorstChat]:
    """Returns ``count`` of ``chats`` in their order, so that at most 40% of them
    have the same reason.

    The share may be larger if there are too few other chats, or if the reason is general, such as
    ``the bot never answers``.

    Args:
        chats: Candidates, the worst first.
        count: The number of chats to choose. Fewer are returned if there are fewer candidates.
    """
    sizes: Counter[str] = Counter()
    order = []
    for i, chat in enumerate(chats):
        mechanism = chat.reason.mechanism
        sizes[mechanism] += 1
        is_alike = (
            mechanism not in WITHOUT_FEATURES and sizes[mechanism] > _ALIKE * count
        )
        order.append((is_alike, i))
    chosen = sorted(i for _, i in sorted(order)[:count])
    return [chats[i] for i in chosen]


def _turns_by_row(
    judgement_of: dict[int, Judgement], dialogues: Iterable[Dialogue]
) -> dict[int, Turns]:
    """Returns row -> (role, text) pairs of the turns of its chat.

    Args:
        judgement_of: Row -> judgement.
        dialogues: The chats to search, by id and text.
    """
    rows_of_id: dict[str, list[int]] = {}
    for row, judgement in judgement_of.items():
        rows_of_id.setdefault(judgement.id, []).append(row)
    turns_of: dict[int, Turns] = {}
    for dialogue in dialogues:
        for row in rows_of_id.get(dialogue.id, ()):
            judgement = judgement_of[row]
            if ScoreKey(dialogue.id, judgement.turn, judgement.chat).may_match_text(
                dialogue
            ):
                turns_of[row] = shortened_turns(dialogue)
    return turns_of


def group_by_mechanism(chats: Iterable[WorstChat]) -> dict[str, list[WorstChat]]:
    """Groups ``chats`` by their general reason.

    Returns:
        General reason, such as ``says little`` -> its chats, in the order of ``chats``.
    """
    groups: dict[str, list[WorstChat]] = {}
    for chat in chats:
        groups.setdefault(chat.reason.mechanism, []).append(chat)
    return groups


def worst_sheet(scores: Scores, chats: Sequence[WorstChat]) -> Sheet:
    """Returns the columns and rows of the file worst.csv. Each of ``chats`` has a row with its
    score, its data (such as ``version``), and the turn that worsened the score most."""
    names = [name for name in scores.columns if name != "has_chat"]
    columns = ["id", "judged_turn", "dimension", "score", "low", "high", *names]
    rows = []
    for chat in chats:
        judgement = chat.judgement
        details = judgement.details.get(chat.dimension, {})
        low, high = details.get("interval") or (None, None)
        row = [judgement.id, judgement.turn, chat.dimension, chat.score, low, high]
        row += chat.columns.values()
        turn = chat.reason.turn
        role, text = None, None
        if turn is not None and chat.turns:
            role, text = chat.turns[turn]
        rows.append([*row, turn, role, text, chat.reason.text])
    return [*columns, "turn", "role", "text", "reason"], rows
