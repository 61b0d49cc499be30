"""The encoder judge: a Hugging Face encoder as body, and one small head for each dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from medal_judges.models.base.heads import HeadKind
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.base.learned import NetworkJudge, centred, learned_state, unit_of
from medal_judges.models.base.saving import (
    WEIGHTS_NAME,
    load_weights,
    read_config,
    require_enough_weights,
    write_weights,
)
from medal_judges.models.batching import budget_batches, pad_rows, retry_on_oom
from medal_judges.models.model_files import base_hash, require_base
from medal_judges.models.turns.body import (
    PASS_TOKENS,
    body_of,
    can_pack,
    check_window,
    load_body,
    load_tokenizer,
    packed_sums,
    settings_of,
)
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.models.turns.net import (
    EncodedDialogue,
    Logits,
    TurnsNet,
    TurnTokenizer,
    collate,
    collate_sequences,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Contributions, Judgement, Unit

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOKENIZER = "tokenizer"
BODY = "body."  # prefix of the body's weights in the net's
_UNITS: dict[HeadKind, Unit] = {
    "regression": "score",
    "binary": "logit",
    "ordinal": "mean logit",
    "classification": "logit per level",
}


class TurnsJudge(NetworkJudge):
    """Scores dialogues with one forward pass over each distinct turn (``shape: flat``: each
    dialogue).

    Contributions add up to the raw score of a regression head, else to logits, relative to
    average turns of the training data: ``turn_means`` holds, for each dimension, what an average
    user turn and an average assistant turn add to ``Head.linear``.
    """

    family = "turns"
    config: TurnsConfig
    net: TurnsNet

    def __init__(
        self,
        net: TurnsNet,
        tokenizer: PreTrainedTokenizerBase,
        dimensions: Sequence[Dimension],
        *,
        turn_means: Mapping[str, Sequence[float]] | None = None,
        **state: Any,
    ) -> None:
        super().__init__(net, tokenizer, net.config, dimensions, **state)
        self.turns = TurnTokenizer(tokenizer, net.config)
        self.turn_means = {k: (float(u), float(a)) for k, (u, a) in (turn_means or {}).items()}
        flat = self.config.shape == "flat"
        limit = f"{self.config.max_tokens} tokens" if flat else f"{self.config.max_turns} turns"
        self.truncation = f"oldest turns beyond {limit}"

    @property
    def network_body(self) -> Any:
        return self.net.body

    @classmethod
    def create(
        cls,
        config: TurnsConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str | None = None,
        device: str | torch.device | None = None,
    ) -> TurnsJudge:
        """Returns a new judge on the pretrained ``config.base``, with random heads by torch's
        seed."""
        body, tokenizer = load_body(config.base, config.base_revision)
        check_window(config, body.config)
        net = TurnsNet(body, body.config.hidden_size, config, dimensions)
        return cls(net, tokenizer, dimensions, name=name, device=device)

    def _save(self, folder: Path) -> None:
        state = self.net.state_dict()
        if self.config.reply is not None and self.config.reply.half:  # rounded when it was learnt
            state |= {k: v.half() for k, v in state.items() if k.startswith("reply.")}
        if self.config.save_body:
            self.tokenizer.save_pretrained(folder / TOKENIZER)
            self.write_state(folder, body=settings_of(self.net.body), turn_means=self.turn_means)
        else:
            state = {k: v for k, v in state.items() if not k.startswith(BODY)}
            hashed = base_hash(self.config.base, self.config.base_revision)
            self.write_state(folder, body_hash=hashed, turn_means=self.turn_means)
        write_weights(state, folder / WEIGHTS_NAME)

    @classmethod
    def load(
        cls, folder: Path, *, device: str | torch.device | None = None, dtype: str = "fp32"
    ) -> TurnsJudge:
        """Loads the judge saved in ``folder``. If the body was not saved with it, the body is
        loaded from its package, folder or hub id.

        Raises JudgeLoadError if weights are missing or do not fit the config, or if the body's
        weights are not those that the judge was trained on.
        """
        saved = read_config(folder)
        state, config = learned_state(saved), TurnsConfig(**saved["turns"])
        weights = folder / WEIGHTS_NAME

        def around(body: PreTrainedModel) -> TurnsNet:
            return TurnsNet(body, body.config.hidden_size, config, state["dimensions"])

        if config.save_body:
            require_enough_weights(lambda: around(body_of(saved["body"])), weights)
            body, tokenizer = body_of(saved["body"]), load_tokenizer(str(folder / TOKENIZER))
        else:
            body, tokenizer = load_body(config.base, config.base_revision)
            require_base(folder, saved["body_hash"], config.base, config.base_revision)
            require_enough_weights(lambda: around(body), weights, besides=BODY)
        net = around(body)
        load_weights(net, weights, besides="" if config.save_body else BODY)
        means = saved["turn_means"]
        return cls(net, tokenizer, turn_means=means, device=device, dtype=dtype, **state)

    # -- the hooks of Judge ----------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        encoded = [self.turns.encode(request.dialogue) for request in requests]
        lengths: dict[str, int] = {}
        if self.config.shape == "hierarchical":  # each distinct turn is encoded once
            texts = list(dict.fromkeys(text for one in encoded for text in one.texts))
            pieces = self.turns.pieces(texts)
            lengths = {t: sum(map(len, p)) for t, p in zip(texts, pieces, strict=True)}
            table, rows = self._embedded(pieces), {text: row for row, text in enumerate(texts)}
        for request, one in zip(requests, encoded, strict=True):
            # Rows of the one table: a dialogue's turns are in many requests at level turn.
            own = (table, [rows[text] for text in one.texts]) if lengths else None
            request.payload = (one, own)
            request.truncated_turns, request.cut_turns = one.dropped, one.cut
            request.tokens = len(one.ids) if one.ids else sum(lengths[t] for t in one.texts)

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Returns the mean token vector [len(texts), H] (fp32, CPU) of each text."""
        return self._embedded(self.turns.pieces(texts))

    @torch.inference_mode()
    def _embedded(self, pieces: Sequence[Sequence[list[int]]]) -> Tensor:
        """Returns the mean token vectors of texts in token ``pieces``, in batches by token
        budget."""
        sums = torch.zeros(len(pieces), self.net.hidden)
        if not self.config.embedding:  # features only: the body is not needed
            return sums
        packing = can_pack(self.net.body)

        def piece_sums(batch: Sequence[tuple[int, list[int]]]) -> list[tuple[list[int], Tensor]]:
            rows, texts = [row for row, _ in batch], [piece for _, piece in batch]
            if packing:
                return [(rows, packed_sums(self.net.body, texts))]
            ids, mask = pad_rows(texts, self.pad)
            return [(rows, self.net.piece_sums(ids.to(self.device), mask.to(self.device))[0].cpu())]

        flat = [(row, piece) for row, parts in enumerate(pieces) for piece in parts]
        budget = min(self.token_budget, PASS_TOKENS) if packing else self.token_budget
        for batch in budget_batches(flat, lambda entry: len(entry[1]), budget, tight=not packing):
            for rows, total in retry_on_oom(piece_sums, batch):
                sums.index_add_(0, torch.tensor(rows), total)
        counts = torch.tensor([[float(sum(map(len, parts)))] for parts in pieces])
        return sums / counts.clamp_min(1) if len(pieces) else sums

    @torch.inference_mode()
    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        members = self.members(requests)
        scores: list[dict[str, float | None]] = [{} for _ in requests]
        distributions: list[dict[str, list[float]]] = [{} for _ in requests]
        contributions: list[dict[str, Contributions]] = [{} for _ in requests]
        details: list[dict[str, dict[str, Any]]] = [{} for _ in requests]
        for name in dimensions:
            logits, evidence, pooling = (
                self.net.combine([member[k] for member in members], name) for k in range(3)
            )
            head, fitted = self.net.heads[0][name], self.fitted(name)
            answers = head.answers(logits, fitted)
            for row, (score, chances, raw) in enumerate(zip(*answers, strict=True)):
                scores[row][name], details[row][name] = score, self.details_of(name, score, raw)
                if chances:
                    distributions[row][name] = chances
            if not evidence.shape[1]:  # the net ``sequence`` does not tell turns apart
                continue
            # In the units that the head and its calibration have.
            dimension, regression = head.dimension, head.config.kind == "regression"
            factor = dimension.high - dimension.low if regression else 1 / fitted.temperature
            unit = unit_of(_UNITS[head.config.kind], mapped=fitted.isotonic is not None)
            means = self.turn_means.get(name, (0.0, 0.0))
            accounts = (head.linear(logits).tolist(), evidence.tolist(), pooling.tolist())
            for row, (value, turns, weights) in enumerate(zip(*accounts, strict=True)):
                one: EncodedDialogue = requests[row].payload[0]
                before, seen = [0.0] * one.dropped, len(one.roles)
                contributions[row][name] = centred(
                    [*before, *(factor * each for each in turns[:seen])],
                    [*before, *weights[:seen]],
                    [*before, *(factor * means[role] for role in one.roles)],
                    factor * value + (dimension.low if regression else 0.0),
                    unit,
                )
        return [
            Judgement(
                scores=scores[row],
                distributions=distributions[row],
                contributions=contributions[row],
                details=details[row],
            )
            for row in range(len(requests))
        ]

    def members(self, requests: Sequence[ScoreRequest]) -> list[tuple[Logits, Logits, Logits]]:
        """Returns each ensemble member's output for ``requests``; see TurnsNet.forward."""
        encoded: list[EncodedDialogue] = [request.payload[0] for request in requests]
        batch = collate(encoded).to(self.device)
        longest = batch.mask.shape[1]
        if self.config.shape == "flat":
            sequences = collate_sequences(encoded, self.pad)
            ids, mask, segments = (part.to(self.device) for part in sequences)
            vectors = self.net.sequence_vectors(ids, mask, segments, longest)
        else:
            vectors = torch.zeros(len(requests), longest, self.net.hidden)
            for row, request in enumerate(requests):
                table, numbers = request.payload[1]
                vectors[row, : len(numbers)] = table[numbers]
        members: list[tuple[Logits, Logits, Logits]] = self.net(vectors.to(self.device), batch)
        return members
