"""The encoder judge: any Hugging Face encoder as body, one small head a dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from medal_judges.models.base.heads import Calibration, Head, HeadKind
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.base.learned import NetworkJudge, learned_state
from medal_judges.models.base.network_size import (
    require_countable,
    require_network,
    require_vocabulary,
    saved_shapes,
)
from medal_judges.models.base.saving import (
    WEIGHTS_NAME,
    judge_revision,
    load_weights,
    read_config,
    write_weights,
)
from medal_judges.models.batching import budget_batches, pad_rows, retry_on_oom
from medal_judges.models.device import torch_device
from medal_judges.models.encoder.body import (
    Body,
    body_hash,
    body_of,
    body_to_score,
    check_window,
    load_body,
    require_body,
    saved_tokenizer,
    settings_of,
)
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.net import EncoderNet, Logits
from medal_judges.models.encoder.packed_body import PASS_TOKENS, PackedBody, packed
from medal_judges.models.encoder.precision import advice, place_by_trial
from medal_judges.models.encoder.turn_batch import (
    EncodedDialogue,
    TurnTokenizer,
    collate,
    collate_sequences,
)
from medal_judges.models.tokenizer_file import AnyTokenizer
from medal_judges.records.contributions import Contributions, Unit, centred, unit_of
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement

TOKENIZER = "tokenizer"
BODY = "body."  # begins the names of the body's weights in the net's
_UNITS: dict[HeadKind, Unit] = {
    "regression": "score",
    "binary": "logit",
    "ordinal": "mean logit",
    "classification": "logit per level",
}


class EncoderJudge(NetworkJudge):
    """Scores dialogues with one forward pass over each distinct turn (or each dialogue, ``flat``).

    Contributions are in units of the score for a regression head, in logits otherwise, around the
    average turn of the training data: ``turn_means`` has for each dimension what one of the user
    and one of the assistant adds to ``Head.linear``.
    """

    family = "encoder"
    config: EncoderConfig
    net: EncoderNet
    packed_body: PackedBody | None = None

    def __init__(
        self,
        net: EncoderNet,
        tokenizer: AnyTokenizer,
        dimensions: Sequence[Dimension],
        *,
        name: str = "encoder",
        calibration: Mapping[str, Calibration] | None = None,
        turn_means: Mapping[str, Sequence[float]] | None = None,
        facts: Mapping[str, object] | None = None,
        device: str | torch.device | None = None,
        dtype: str = "fp32",
    ) -> None:
        self.describe(dimensions, name, calibration, facts)
        self.net, self.config, self.tokenizer = net, net.config, tokenizer
        self.place(device, dtype)
        self.turns = TurnTokenizer(tokenizer, net.config)
        self.turn_means = {k: (float(u), float(a)) for k, (u, a) in (turn_means or {}).items()}
        flat = self.config.shape == "flat"
        limit = f"{self.config.max_tokens} tokens" if flat else f"{self.config.max_turns} turns"
        self.truncation = f"oldest turns beyond {limit}"

    @classmethod
    def create(
        cls,
        config: EncoderConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str = "encoder",
        device: str | torch.device | None = None,
    ) -> EncoderJudge:
        """A fresh judge on the pretrained body ``config.base``; heads drawn from torch's seed."""
        body, tokenizer = load_body(config.base, config.base_revision)
        check_window(config, body.config)
        net = EncoderNet(body, body.config.hidden_size, config, dimensions)
        return cls(net, tokenizer, dimensions, name=name, device=device)

    def _save(self, folder: Path) -> None:
        state = self.net.state_dict()
        if self.config.reply is not None and self.config.reply.half:  # rounded when it was learnt
            state |= {k: v.half() for k, v in state.items() if k.startswith("reply.")}
        if not self.config.save_body:
            own = {k: v for k, v in state.items() if not k.startswith(BODY)}
            write_weights(own, folder / WEIGHTS_NAME)
            hashed = body_hash(self.config.base, self.config.base_revision)
            self.write_state(folder, body_hash=hashed, turn_means=self.turn_means)
            return
        write_weights(state, folder / WEIGHTS_NAME)
        self.tokenizer.save_pretrained(folder / TOKENIZER)
        self.write_state(folder, body=settings_of(self.net.body), turn_means=self.turn_means)

    @classmethod
    def load(
        cls, folder: Path, *, device: str | torch.device | None = None, dtype: str = "fp32"
    ) -> EncoderJudge:
        """The judge saved in ``folder``; needs no network, but for a body that was not saved and
        comes from the hub. ``dtype``: fp32, bf16, fp16, or auto (see precision.py).

        Raises JudgeLoadError when the weights are missing or do not fit the config, or the body is
        not the one that the judge was trained on.
        """
        saved = read_config(folder)
        state = learned_state(saved)
        config, weights = EncoderConfig(**saved["encoder"]), folder / WEIGHTS_NAME
        dimensions, tensors = state["dimensions"], saved_shapes(weights)
        require_countable(saved["encoder"], len(tensors), folder)
        plain = torch_device(device).type == "cpu" and config.attention in ("auto", "sdpa")

        def with_nets(body: Body) -> EncoderNet:
            return EncoderNet(body, body.config.hidden_size, config, dimensions)

        if config.save_body:
            require_countable(saved["body"], len(tensors), folder)
            require_network(lambda: with_nets(body_of(saved["body"], plain=plain)), weights)
            net = with_nets(body_of(saved["body"], plain=plain))
            tokenizer = saved_tokenizer(folder / TOKENIZER)
        else:
            load = body_to_score if plain else load_body
            body, tokenizer = load(config.base, config.base_revision)
            require_body(config.base, config.base_revision, saved["body_hash"], folder)
            require_network(lambda: with_nets(body), weights, besides=BODY)
            net = with_nets(body)
        require_vocabulary(tokenizer, net.body, folder)
        load_weights(net, weights, besides="" if config.save_body else BODY)
        means, given = saved["turn_means"], "fp32" if dtype == "auto" else dtype
        judge = cls(net, tokenizer, turn_means=means, device=device, dtype=given, **state)
        if dtype == "auto":
            place_by_trial(judge, judge_revision(folder))
        return judge

    def advice(self) -> str | None:
        """See precision.py."""
        return advice(self)

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
            request.truncated_turns = one.dropped
            request.tokens = len(one.ids) if one.ids else sum(lengths[t] for t in one.texts)

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Mean token vector [len(texts), H] (fp32, CPU) of each text, batched by token budget."""
        return self._embedded(self.turns.pieces(texts))

    @torch.inference_mode()
    def _embedded(self, pieces: Sequence[Sequence[list[int]]]) -> Tensor:
        """``embed_texts`` of texts in token ``pieces``."""
        flat = [(row, piece) for row, parts in enumerate(pieces) for piece in parts]
        if not (pieces and self.config.embedding):  # features only: the body is not asked
            return torch.zeros(len(pieces), self.net.hidden)
        self.packed_body = packed(self.net.body, self.packed_body)
        reader = self.packed_body if self.packed_body and self.packed_body.agrees else None

        def piece_sums(batch: Sequence[tuple[int, list[int]]]) -> list[tuple[list[int], Tensor]]:
            rows, texts = [row for row, _ in batch], [piece for _, piece in batch]
            if reader is not None:
                return [(rows, reader.sums(texts))]
            ids, mask = pad_rows(texts, self.pad)
            return [(rows, self.net.piece_sums(ids.to(self.device), mask.to(self.device))[0].cpu())]

        sums = torch.zeros(len(pieces), self.net.hidden)
        budget = self.token_budget if reader is None else min(self.token_budget, PASS_TOKENS)
        for batch in budget_batches(
            flat, lambda entry: len(entry[1]), budget, tight=reader is None
        ):
            for rows, total in retry_on_oom(piece_sums, batch):
                sums.index_add_(0, torch.tensor(rows), total)
        counts = torch.tensor([[float(sum(map(len, parts)))] for parts in pieces])
        return sums / counts.clamp_min(1)

    @torch.inference_mode()
    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        members = self.members(requests)
        rows: list[tuple[dict[str, float | None], dict[str, list[float]], dict[str, Contributions]]]
        rows = [({}, {}, {}) for _ in requests]
        for name in dimensions:
            logits, evidence, pooling = (
                self.net.combine([member[k] for member in members], name) for k in range(3)
            )
            head: Head = self.net.heads[0][name]
            answers = zip(*head.answers(logits, self.fitted(name)), strict=True)
            accounts = (head.linear(logits).tolist(), evidence.tolist(), pooling.tolist())
            for request, row, (score, chances), account in zip(
                requests, rows, answers, zip(*accounts, strict=True), strict=True
            ):
                row[0][name] = score
                if chances:
                    row[1][name] = chances
                if account[1]:  # the net ``sequence`` does not tell turns apart
                    row[2][name] = self._contributions(head, request.payload[0], *account)
        return [
            Judgement(
                scores=scores,
                distributions=distributions,
                contributions=contributions,
                details=self.interval_details(scores),
            )
            for scores, distributions, contributions in rows
        ]

    def members(self, requests: Sequence[ScoreRequest]) -> list[tuple[Logits, Logits, Logits]]:
        """What each member of the net says of ``requests``: see EncoderNet.forward."""
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

    def _contributions(
        self,
        head: Head,
        one: EncodedDialogue,
        value: float,
        evidence: Sequence[float],
        weights: Sequence[float],
    ) -> Contributions:
        """Contributions of one dialogue, in the units that ``head`` and its calibration have."""
        dimension, seen, fitted = head.dimension, len(one.roles), self.fitted(head.dimension.name)
        regression = head.config.kind == "regression"
        factor = dimension.high - dimension.low if regression else 1 / fitted.temperature
        means = self.turn_means.get(dimension.name, (0.0, 0.0))
        before = [0.0] * one.dropped
        return centred(
            [*before, *(factor * e for e in evidence[:seen])],
            [*before, *weights[:seen]],
            [*before, *(factor * means[role] for role in one.roles)],
            factor * value + (dimension.low if regression else 0.0),
            unit_of(_UNITS[head.config.kind], mapped=fitted.isotonic is not None),
        )
