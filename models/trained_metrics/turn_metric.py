"""What UniEval and EnDex share: questions about single assistant turns, pooled over a dialogue.

Both read one answer of the assistant. At level dialogue the score is the mean over all assistant
turns, each read with the turns before it; the papers define no score of a dialogue.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from medal_judges.config import build_config
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.base.learned import rubric_hash
from medal_judges.models.batching import budget_batches, pad_rows, retry_on_oom
from medal_judges.models.model_files import network_hash, tokenizer_hash
from medal_judges.models.special_tokens import SpecialTokens
from medal_judges.models.trained_metrics.checkpoint import (
    CheckpointConfig,
    load_checkpoint,
    public_name,
)
from medal_judges.records.contributions import Contributions
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash
from medal_judges.storage.process_lock import ProcessLock

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TokenIds = tuple[int, ...]
C = TypeVar("C", bound=CheckpointConfig)


@dataclass(slots=True)
class Queries:
    """The inputs of the network for one request.

    ``asked``: (dimension, turn index, token ids); several of one dimension and turn are the turn's
    sentences. ``unseen``: turns left out somewhere for lack of space. ``refused``: dimension -> the
    first reason why a turn has no input for it.
    """

    asked: list[tuple[str, int, TokenIds]] = field(default_factory=list)
    unseen: set[int] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)

    def by_turn(
        self, dimension: str, probabilities: Mapping[TokenIds, float]
    ) -> dict[int, list[float]]:
        """Returns turn index -> probabilities of its sentences (or its one probability)."""
        turns: dict[int, list[float]] = {}
        for name, turn, ids in self.asked:
            if name == dimension:
                turns.setdefault(turn, []).append(probabilities[ids])
        return turns


class TurnMetric(Judge, Generic[C]):
    """A published network that gives a probability for a token sequence.

    A family writes ``_ask`` and ``_probability``. Equal sequences are read once per batch.
    """

    config: C
    config_class: ClassVar[type[CheckpointConfig]]
    network_class: ClassVar[str]
    prompt_hash: str | None = None
    truncation: str

    def __init__(
        self, config: C, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self.config, self.name = config, config.name
        self.network, self.tokenizer = network, tokenizer
        self.marks = SpecialTokens(tokenizer)
        self.computing = ProcessLock()
        self.revision = content_hash([network_hash(network), tokenizer_hash(tokenizer)])

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> TurnMetric[C]:
        """Returns a judge of configs/judges/ from its settings. Raises JudgeLoadError."""
        config: Any = build_config(cls.config_class, dict(settings), where=f"{cls.family} judge")
        judge = cls(config, *load_checkpoint(config, cls.network_class))
        try:  # finds a wrong config now, and not in the first dialogue
            list(judge.score([Dialogue("", (Turn("user", "?"), Turn("assistant", "Yes.")))]))
        except Exception as error:
            raise JudgeLoadError(
                f"{config.model}: its network does not answer: {type(error).__name__}: {error}"[
                    :500
                ],
                hint="copy or download the whole folder again",
            ) from error
        return judge

    def signature(self) -> Signature:
        from medal_judges import __version__

        return Signature(
            judge=self.name,
            revision=self.revision,
            base=public_name(self.config.model),
            prompt=self.prompt_hash,
            rubric=rubric_hash(self.dimensions),
            dtype=self.config.dtype,
            truncation=self.truncation,
            version=__version__,
        )

    @abstractmethod
    def _ask(self, dialogue: Dialogue, turn: int, queries: Queries) -> None:
        """Add the queries about turn index ``turn``, the last turn that they may read."""

    @abstractmethod
    def _probability(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Returns the probability [B] for each row of ``ids`` [B, L]."""

    def plain(self, text: str) -> str:
        """Returns ``text`` with special tokens broken up: a turn cannot add fields."""
        return self.marks.broken_up(text)

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        for request in requests:
            dialogue, turn = request.dialogue, request.turn
            request.payload = queries = Queries()
            for judged in dialogue.assistant_turns if turn is None else (turn,):
                self._ask(dialogue, judged, queries)
            request.tokens = sum(len(ids) for _, _, ids in queries.asked)
            request.truncated_turns = len(queries.unseen)

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        import torch

        def forward(batch: Sequence[TokenIds]) -> list[float]:
            ids, mask = pad_rows(batch, int(self.tokenizer.pad_token_id or 0))
            device = self.network.device
            with torch.inference_mode():
                values: list[float] = self._probability(ids.to(device), mask.to(device)).tolist()
            return values

        needed = self._needed(dimensions)
        asked = [query for request in requests for query in request.payload.asked]
        sequences = sorted({ids for dimension, _, ids in asked if dimension in needed})
        probabilities: dict[TokenIds, float] = {}
        for batch in budget_batches(sequences, len, self.token_budget, tight=True):
            probabilities.update(zip(batch, retry_on_oom(forward, batch), strict=True))
        return [self._judged(request, dimensions, probabilities) for request in requests]

    def _needed(self, dimensions: Sequence[str]) -> set[str]:
        """The dimensions whose queries are needed for ``dimensions``."""
        return set(dimensions)

    def _judged(
        self,
        request: ScoreRequest,
        dimensions: Sequence[str],
        probabilities: Mapping[TokenIds, float],
    ) -> Judgement:
        scores: dict[str, float | None] = dict.fromkeys(dimensions)
        distributions: dict[str, list[float]] = {}
        contributions: dict[str, Contributions] = {}
        details: dict[str, dict[str, Any]] = {}
        queries: Queries = request.payload
        for name in dimensions:
            dimension = self.dimension(name)
            turns = self._turn_values(queries, name, probabilities)
            if not turns:
                continue
            raw = sum(turns.values()) / len(turns)
            if self._unbounded(name):
                scores[name] = dimension.from_unit(raw / (1 + raw))
                details[name] = {"raw": raw}
                continue
            scores[name] = dimension.from_unit(raw)
            if dimension.kind == "binary":
                distributions[name] = [1 - raw, raw]
            if request.turn is None:
                # Around the middle of the scale: the average turn is unknown.
                shares = [0.0] * len(request.dialogue.turns)
                for turn, value in turns.items():
                    shares[turn] = (dimension.high - dimension.low) * (value - 0.5) / len(turns)
                contributions[name] = Contributions(tuple(shares), dimension.from_unit(0.5))
        missing = [name for name, value in scores.items() if value is None]
        # A dimension made of others has their reasons.
        known = [name for name in missing if name in queries.refused] or list(queries.refused)
        reasons = "; ".join(f"{name}: {queries.refused[name]}" for name in known)
        return Judgement(
            scores=scores,
            distributions=distributions,
            contributions=contributions,
            failure=reasons if missing else None,
            details=details,
        )

    def _unbounded(self, dimension: str) -> bool:
        """Whether values have no upper bound: x becomes x / (1 + x) on the scale, which keeps
        ranks, and the value itself is ``raw`` in the details."""
        return False

    def _turn_values(
        self, queries: Queries, dimension: str, probabilities: Mapping[TokenIds, float]
    ) -> dict[int, float]:
        """Returns turn index -> value, the mean over the turn's sentences."""
        parts = queries.by_turn(dimension, probabilities)
        return {turn: sum(values) / len(values) for turn, values in parts.items()}
