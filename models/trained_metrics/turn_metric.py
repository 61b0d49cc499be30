"""What UniEval and EnDex share: questions about single assistant turns, pooled over a dialogue.

A metric of this kind reads one answer of the assistant. At level dialogue its score is the mean
over all assistant turns, each read in the light of what came before it; the papers define none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medal_judges.contributions import Contributions
from medal_judges.details import Details
from medal_judges.dialogue import Dialogue
from medal_judges.dimension import Dimension
from medal_judges.models.base.judge import Judge, Prediction, ScoreRequest
from medal_judges.models.batching import budget_batches, retry_on_oom

TokenIds = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """One input of the network: token ``ids`` that ask for ``dimension`` of turn index ``turn``.

    Several of one dimension and turn are its sentences.
    """

    dimension: str
    turn: int
    ids: TokenIds


@dataclass(slots=True)
class Asked:
    """All that is asked of one item.

    ``unseen``: turns that were left out somewhere for want of room. ``refused``: dimension -> why
    a turn could not be asked about it.
    """

    queries: list[Query] = field(default_factory=list)
    unseen: set[int] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)

    def refuse(self, dimension: str, reason: str) -> None:
        """Keep the first reason of each dimension."""
        self.refused.setdefault(dimension, reason)


class TurnMetric(Judge):
    """A network that gives a probability for a token sequence.

    A family writes ``_ask`` and ``_forward``. Equal sequences are read once a batch.
    """

    network: Any
    tokenizer: Any
    device: Any

    @abstractmethod
    def _ask(self, dialogue: Dialogue, turn: int, asked: Asked) -> None:
        """Add the queries about turn index ``turn``, the last turn that they may see."""

    @abstractmethod
    def _forward(self, batch: Sequence[TokenIds]) -> list[float]:
        """A probability for each sequence."""

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        for item in items:
            judged = item.dialogue.assistant_turns if item.turn is None else (item.turn,)
            item.payload = asked = Asked()
            for turn in judged:
                self._ask(item.dialogue, turn, asked)
            item.tokens = sum(len(query.ids) for query in asked.queries)
            item.truncated_turns = len(asked.unseen)

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        needed = self._needed(dimensions)
        wanted = {q.ids for item in items for q in item.payload.queries if q.dimension in needed}
        found = self._probabilities(sorted(wanted))
        return [self._scores(item, dimensions, found) for item in items]

    def _needed(self, dimensions: Sequence[str]) -> set[str]:
        """The dimensions that have to be asked for so that ``dimensions`` can be given."""
        return set(dimensions)

    def _probabilities(self, sequences: Sequence[TokenIds]) -> dict[TokenIds, float]:
        found: dict[TokenIds, float] = {}
        for batch in budget_batches(sequences, len, self.token_budget):
            found.update(zip(batch, retry_on_oom(self._forward, batch), strict=True))
        return found

    def _scores(
        self, item: ScoreRequest, dimensions: Sequence[str], found: Mapping[TokenIds, float]
    ) -> Prediction:
        answer: dict[str, float | None] = {}
        distributions: dict[str, list[float]] = {}
        contributions: dict[str, Contributions] = {}
        details: dict[str, Details] = {}
        for name in dimensions:
            dimension = self.dimension(name)
            turns = self._turn_values(item.payload, name, found)
            answer[name] = None
            if not turns:
                continue
            raw = sum(turns.values()) / len(turns)
            if self._unbounded(name):
                answer[name] = dimension.from_unit(raw / (1 + raw))
                details[name] = Details(raw=raw)
                continue
            answer[name] = dimension.from_unit(raw)
            if dimension.kind == "binary":
                distributions[name] = [1 - raw, raw]
            if item.turn is None:
                contributions[name] = _shares(item.dialogue, turns, dimension)
        failure = _failure(answer, item.payload)
        return Prediction(answer, distributions, contributions, failure=failure, details=details)

    def _unbounded(self, dimension: str) -> bool:
        """Whether values run from 0 without end: x becomes x / (1 + x) on the scale, which leaves
        ranks as they are, and the value itself is ``raw`` in the details."""
        return False

    def _turn_values(
        self, asked: Asked, dimension: str, found: Mapping[TokenIds, float]
    ) -> dict[int, float]:
        """Turn index -> value, the mean over the turn's sentences."""
        parts = by_turn(asked, dimension, found)
        return {turn: sum(values) / len(values) for turn, values in parts.items()}


def by_turn(
    asked: Asked, dimension: str, found: Mapping[TokenIds, float]
) -> dict[int, list[float]]:
    """Turn index -> probabilities of its sentences (or its one probability)."""
    turns: dict[int, list[float]] = {}
    for query in asked.queries:
        if query.dimension == dimension:
            turns.setdefault(query.turn, []).append(found[query.ids])
    return turns


def padded(batch: Sequence[TokenIds], pad: int, device: Any) -> tuple[Any, Any]:
    """Ids and attention mask [batch, longest], padded on the right."""
    import torch

    longest = max(map(len, batch))
    ids = torch.full((len(batch), longest), pad)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
    return ids.to(device), mask.to(device)


def _shares(dialogue: Dialogue, turns: Mapping[int, float], dimension: Dimension) -> Contributions:
    """What each turn adds to the middle of the scale: no data say what an average turn has."""
    width = dimension.high - dimension.low
    shares = (
        width * (turns[i] - 0.5) / len(turns) if i in turns else 0.0
        for i in range(len(dialogue.turns))
    )
    return Contributions(tuple(shares), dimension.from_unit(0.5))


def _failure(answer: Mapping[str, float | None], asked: Asked) -> str | None:
    """Why a dimension has no number; one that is made of others has their reasons."""
    missing = [name for name, value in answer.items() if value is None]
    if not missing:
        return None
    named = [name for name in missing if name in asked.refused] or list(asked.refused)
    return "; ".join(f"{name}: {asked.refused[name]}" for name in named)
