"""Scores chats with a judge, for all integrations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medal_judges.config import BOXED
from medal_judges.errors import ConfigError, DataError, RecordError
from medal_judges.eval.report.estimates import compute_estimates
from medal_judges.eval.scores.scores import scores_from_frame
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.reading.dialogues import parse_dialogue
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.stats.intervals import Estimate
from medal_judges.storage.judgements import to_frame

# A dialogue, the messages of a chat, or a row that has them under messages or dialogue.
Chat = Dialogue | Sequence[Mapping[str, Any]] | Mapping[str, Any]
JudgeSource = Judge | str | Path


@dataclass(frozen=True, slots=True)
class ScoredChats:
    """The scores of chats by a judge.

    Attributes:
        judge: The loaded judge.
        judgements: Judgements in the order of the chats. If each assistant turn was scored, a chat
            has several.
        dimensions: Dimensions that were scored.
    """

    judge: Judge
    judgements: tuple[Judgement, ...]
    dimensions: tuple[Dimension, ...]

    @property
    def judge_signature(self) -> str:
        """A string that identifies the judge, its version and its settings, such as
        ``judge:length|seed:0``."""
        return str(self.judge.signature())

    @property
    def coverage(self) -> float | None:
        """The share of judgements, from 0 to 1, with a score in every dimension. None without
        judgements."""
        if not self.judgements:
            return None
        scored = [judgement for judgement in self.judgements if judgement.scored]
        return len(scored) / len(self.judgements)

    def mean(self, dimension: str) -> float:
        """Returns the mean of all scores in ``dimension``, NaN if there are none."""
        scores = [judgement.scores[dimension] for judgement in self.judgements]
        numbers = [score for score in scores if score is not None]
        if numbers:
            return sum(numbers) / len(numbers)
        return math.nan

    def estimates(self) -> dict[str, Estimate]:
        """Returns dimension -> its mean score with the 95% interval.

        For a binary dimension, the mean is the share of chats with the issue. Without scores, the
        estimate's ``value`` is None.
        """
        overall = compute_estimates(
            scores_from_frame(to_frame(self.judgements))
        ).total.by_judge
        nothing = Estimate(None, reason="nothing is scored")
        names = [dimension.name for dimension in self.dimensions]
        return {name: overall.get(name, nothing) for name in names}


def load_judge(judge: JudgeSource = BOXED, *, max_cost: float | None = None) -> Judge:
    """Loads a judge of dialogues. A judge that is loaded already is returned unchanged.

    Args:
        judge: Shipped name, folder, YAML file, Hub id or loaded judge. The default is ``boxed``.
        max_cost: The most US dollars that a judge behind an API may spend. None sets no limit.

    Raises:
        JudgeLoadError: The judge cannot be loaded.
        ConfigError: ``max_cost`` is given for a judge that is loaded already or costs nothing.
    """
    if not isinstance(judge, Judge):
        return choose_judge(str(judge)).with_spending(max_cost).load()
    if max_cost is not None:
        raise ConfigError(
            "max_cost needs the name of a judge, not a loaded judge",
            hint="Give the judge's name or folder, or set llm.max_cost in its settings",
        )
    return judge


def as_dialogue(
    chat: Chat,
    name: str = "chat",
    changes: Counter[str] | None = None,
    lang: str | None = None,
) -> Dialogue:
    """Converts ``chat`` to a Dialogue. A Dialogue is returned unchanged.

    Args:
        chat: A list of messages with ``role`` and ``content``, or a mapping that has such a list
            under ``messages``.
        name: What error messages call the chat.
        changes: A counter of content that was left out, such as ``{"tool calls": 2}``. The function
            adds to it.
        lang: Language of the chat, such as ``de``, used if ``chat`` names none.

    Raises:
        DataError: A message cannot be read. The error names the message and the field.
    """
    if isinstance(chat, Dialogue):
        return chat
    row: dict[str, Any] = {}
    if lang is not None:
        row["lang"] = lang
    if isinstance(chat, Mapping):
        row |= chat
    elif isinstance(chat, Sequence) and not isinstance(chat, str):
        row["messages"] = list(chat)
    else:
        row["messages"] = chat
    try:
        return parse_dialogue(row, changes=changes)
    except RecordError as error:
        raise DataError(name, None, error.message) from error


def as_dialogues(chats: Sequence[Chat], name: str = "chats") -> list[Dialogue]:
    """Converts ``chats``, such as lists of messages, to Dialogues.

    Args:
        name: What error messages call the list. With ``chats``, an error begins with ``chats[3]``.

    Raises:
        DataError: A message cannot be read.
        RecordError: ``chats`` is not a list.
    """
    if isinstance(chats, str | Mapping | Dialogue) or not isinstance(chats, Sequence):
        raise RecordError(
            name, "a list of chats, each a list of {role, content}", chats
        )
    return [as_dialogue(chat, f"{name}[{i}]") for i, chat in enumerate(chats)]


def score_chats(
    chats: Sequence[Chat],
    judge: JudgeSource = BOXED,
    *,
    level: ScoreLevel = "dialogue",
    dimensions: Sequence[str] | None = None,
    max_cost: float | None = None,
    name: str = "chats",
) -> ScoredChats:
    """Scores ``chats`` with ``judge``.

    Args:
        chats: Dialogues, or lists of messages with ``role`` and ``content``.
        judge: Shipped name, folder, YAML file, Hub id or loaded judge. The default is ``boxed``.
        level: What gets a score: ``dialogue``, ``turn`` (each assistant turn) or ``last`` (the last
            assistant turn).
        dimensions: Names of the dimensions to score. None means all.
        max_cost: The most US dollars that a judge behind an API may spend. None sets no limit.
        name: What error messages call the list of chats.

    Raises:
        RecordError: ``chats`` is not a list.
        DataError: A message cannot be read.
        JudgeLoadError: The judge cannot be loaded.
        ConfigError: A dimension is unknown, or ``max_cost`` is given for a judge that is loaded
            already or costs nothing.
    """
    dialogues = as_dialogues(chats, name)
    loaded = load_judge(judge, max_cost=max_cost)
    judgements = tuple(loaded.score(dialogues, level=level, dimensions=dimensions))
    scored = loaded.dimensions
    if dimensions:
        scored = tuple(map(loaded.dimension, dimensions))
    return ScoredChats(loaded, judgements, scored)


def goodness(dimension: Dimension, score: float | None) -> float | None:
    """Returns ``score`` mapped linearly to a scale from 0 (bad) to 1 (good). None if ``score`` is
    None.

    Args:
        dimension: Dimension of the score. Its ``good`` says whether high or low scores are good.
    """
    if score is None:
        return None
    share = dimension.to_unit(score)
    if dimension.good == "low":
        return 1 - share
    return share
