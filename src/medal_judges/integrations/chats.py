"""Scores chats with a judge, for all integrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medal_judges.config import BOXED
from medal_judges.errors import ConfigError, DataError, RecordError
from medal_judges.eval.report.figures import compute_figures
from medal_judges.eval.scores.options import ScoreOptions
from medal_judges.eval.scores.scores import Scores, load_scores
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.base.judge import Judge, ScoreLevel, requests_at
from medal_judges.reading.dialogues import parse_dialogue
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.judgements import to_frame

# A dialogue, the messages of a chat, or a row that has them under messages or dialogue.
Chat = Dialogue | Sequence[Mapping[str, Any]] | Mapping[str, Any]
JudgeSource = Judge | str | Path
_OPTIONS = ScoreOptions(scores=("(chats)",))


@dataclass(frozen=True, slots=True)
class ScoredChats:
    """``judgements`` of ``dialogues`` by ``judge``; ``chats`` holds for each judgement the index of
    its chat (at level turn a chat has several)."""

    judge: Judge
    dialogues: tuple[Dialogue, ...]
    judgements: tuple[Judgement, ...]
    chats: tuple[int, ...]
    dimensions: tuple[Dimension, ...]

    @property
    def signature(self) -> str:
        return str(self.judge.signature())

    @property
    def coverage(self) -> float | None:
        """Share of the judgements with a number in every dimension; None without judgements."""
        total = len(self.judgements)
        return sum(each.scored for each in self.judgements) / total if total else None

    def scores(self) -> Scores:
        """Returns the scores as ``medal report`` reads them."""
        return load_scores(to_frame(self.judgements), _OPTIONS)

    def figures(self) -> dict[str, Estimate]:
        """Returns the mean of each graded dimension and the share of chats with each issue, with
        95% intervals, as ``medal report`` does."""
        overall = compute_figures(self.scores(), _OPTIONS).overall
        nothing = Estimate(None, reason="nothing is scored")
        return {each.name: overall.get(each.name, nothing) for each in self.dimensions}


def load_judge(judge: JudgeSource = BOXED, *, max_cost: float | None = None) -> Judge:
    """Loads the judge of a shipped name, folder, YAML file or hub id; a loaded Judge is returned as
    it is.

    ``max_cost``: US dollars that a judge behind an API may spend. Raises JudgeLoadError, and
    ConfigError for a limit on a judge without cost or on a loaded judge.
    """
    if not isinstance(judge, Judge):
        return choose_judge(str(judge)).spending(max_cost).load()
    if max_cost is not None:
        raise ConfigError(
            "max_cost needs the name of a judge, not a loaded judge",
            hint="give the judge's name or folder, or set max_cost in its settings (llm.max_cost)",
        )
    return judge


def as_dialogue(
    chat: Chat, place: str = "chat", folded: Counter[str] | None = None, **known: object
) -> Dialogue:
    """Returns the dialogue of ``chat``, with the fields ``known`` (id, lang, ...) unless the chat
    has them. ``folded`` counts the parts of messages that are not judged. Raises DataError that
    names ``place``, the message and its field."""
    if isinstance(chat, Dialogue):
        return chat
    given = {name: value for name, value in known.items() if value is not None}
    if isinstance(chat, Mapping):
        row: Mapping[str, Any] = chat
    else:
        listed = isinstance(chat, Sequence) and not isinstance(chat, str)
        row = {"messages": list(chat) if listed else chat}
    try:
        return parse_dialogue({**given, **row}, folded=folded)
    except RecordError as error:
        raise DataError(place, None, error.message) from error


def as_dialogues(chats: Sequence[Chat], place: str = "chats") -> list[Dialogue]:
    """Returns the dialogues of ``chats``. Raises DataError that names the chat, the message and its
    field: ``chats[3]: field 'messages[0].role': ...``."""
    if isinstance(chats, str | Mapping | Dialogue) or not isinstance(chats, Sequence):
        raise RecordError(place, "a list of chats, each a list of {role, content}", chats)
    return [as_dialogue(chat, f"{place}[{i}]") for i, chat in enumerate(chats)]


def score_chats(
    chats: Sequence[Chat],
    judge: JudgeSource = BOXED,
    *,
    level: ScoreLevel = "dialogue",
    dimensions: Sequence[str] | None = None,
    max_cost: float | None = None,
    place: str = "chats",
) -> ScoredChats:
    """Scores every chat, in order; see ``as_dialogues``, ``load_judge`` and ``Judge.score``."""
    dialogues = as_dialogues(chats, place)
    loaded = load_judge(judge, max_cost=max_cost)
    judgements = tuple(loaded.score(dialogues, level=level, dimensions=dimensions))
    owners = [i for i, dialogue in enumerate(dialogues) for _ in requests_at(dialogue, level)]
    names = dimensions or [dimension.name for dimension in loaded.dimensions]
    scored = tuple(loaded.dimension(name) for name in names)
    return ScoredChats(loaded, tuple(dialogues), judgements, tuple(owners), scored)


def goodness(dimension: Dimension, score: float | None) -> float | None:
    """Returns ``score`` on a scale from 0 (bad) to 1 (good); None for None."""
    if score is None:
        return None
    share = dimension.to_unit(score)
    return 1 - share if dimension.good == "low" else share
