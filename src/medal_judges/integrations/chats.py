"""What every tool hands over: chats in its own form, and a judge by name, folder or object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError, DataError, MissingExtraError, RecordError
from medal_judges.eval.report.figures import compute_figures
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.scores import Scores, load_scores
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.serving.body import parse_row
from medal_judges.models.base.judge import Judge, ScoreLevel, requests_at
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.shipped import BOXED
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.judgements import to_frame

# A dialogue, the messages of a chat, or a row that has them under messages or dialogue.
Chat = Dialogue | Sequence[Mapping[str, Any]] | Mapping[str, Any]
JudgeSource = Judge | str | Path
_OPTIONS = ReportOptions(scores="(chats)")


@dataclass(frozen=True, slots=True)
class ScoredChats:
    """``judgements`` of ``dialogues`` by ``judge``; ``chats`` (judgements,) is the index of the
    chat that each is of: at level turn a chat has several."""

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
        """Share of the judgements with a number in every dimension; None where there are none."""
        total = len(self.judgements)
        return sum(each.scored for each in self.judgements) / total if total else None

    def scores(self) -> Scores:
        """The scores as ``medal report`` reads them, on the judge's own scales."""
        known = {dimension.name: dimension for dimension in self.dimensions}
        scores = load_scores(to_frame(self.judgements), _OPTIONS)
        own = {name: known[name] for name in scores.dimensions}
        return replace(scores, dimensions=own, assumed=())

    def figures(self) -> dict[str, Estimate]:
        """As in ``medal report``: of a graded dimension the mean, of an issue the share of chats
        that have it, with 95% intervals; None with its reason where nothing is scored."""
        overall = compute_figures(self.scores(), _OPTIONS).overall
        nothing = Estimate(None, reason="nothing is scored")
        return {each.name: overall.get(each.name, nothing) for each in self.dimensions}


def load_judge(judge: JudgeSource = BOXED, *, max_cost: float | None = None) -> Judge:
    """``judge`` itself, or the one of that shipped name, folder, YAML file or hub id.

    ``max_cost``: US dollars that a judge behind an API may spend. Raises ConfigError for a limit
    where nothing is paid, or on a judge that is loaded already, and JudgeLoadError.
    """
    if not isinstance(judge, Judge):
        return choose_judge(str(judge)).spending(max_cost).load()
    if max_cost is not None:
        raise ConfigError(
            "max_cost goes with a judge that is named, not with one that is loaded",
            hint="give the judge's name or folder, or set max_cost in its settings (llm.max_cost)",
        )
    return judge


def as_dialogue(chat: Chat, place: str = "chat", **known: object) -> Dialogue:
    """The dialogue of ``chat``; ``known`` (id, lang, ...) is said of it beside its messages.

    Raises DataError that names ``place``, the message and its field.
    """
    if isinstance(chat, Dialogue):
        return chat
    given = {name: value for name, value in known.items() if value is not None}
    row = chat if isinstance(chat, Mapping) else {"messages": _listed(chat)}
    try:
        return parse_row({**given, **row})
    except RecordError as error:
        raise DataError(place, None, error.message) from error


def _listed(chat: object) -> object:
    return list(chat) if isinstance(chat, Sequence) and not isinstance(chat, str) else chat


def as_dialogues(chats: Sequence[Chat], place: str = "chats") -> list[Dialogue]:
    """The dialogues of ``chats``. Raises DataError that names the chat, the message and its field:
    ``chats[3]: field 'messages[0].role': ...``; RecordError for what is no list of chats."""
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
    """Every chat judged, in order; see ``as_dialogues``, ``load_judge`` and ``Judge.score``."""
    dialogues = as_dialogues(chats, place)
    loaded = load_judge(judge, max_cost=max_cost)
    judgements = tuple(loaded.score(dialogues, level=level, dimensions=dimensions))
    owners = [i for i, dialogue in enumerate(dialogues) for _ in requests_at(dialogue, level)]
    names = dimensions or [dimension.name for dimension in loaded.dimensions]
    judged = tuple(loaded.dimension(name) for name in names)
    return ScoredChats(loaded, tuple(dialogues), judgements, tuple(owners), judged)


def goodness(dimension: Dimension, score: float | None) -> float | None:
    """``score`` from 0 (the end that a user does not want) to 1; None where there is none."""
    if score is None:
        return None
    share = dimension.to_unit(score)
    return 1 - share if dimension.good == "low" else share


def require_extra(package: str, extra: str, purpose: str) -> None:
    """Raise MissingExtraError where the tool is not installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise MissingExtraError(package, extra, purpose)
