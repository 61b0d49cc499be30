"""The encoder judge's network: a shared body, nets over turn vectors, and heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from medal_judges.models.base.heads import Head, heads_of
from medal_judges.models.base.turn_features import (
    ALL_FEATURES,
    FEATURE_NAMES,
    ROLE_INDEX,
    turn_features,
    turn_similarities,
)
from medal_judges.models.batching import SpecialTokens, pad_rows
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

Logits = dict[str, Tensor]
_FEATURE_LIMIT = 4.0  # standard deviations; real logs hold 600-turn dialogues and pasted pages
MARK = -1  # segment of the tokenizer's own marks and of padding


@dataclass(slots=True)
class EncodedDialogue:
    """A dialogue as input of the net: ``texts``, ``roles`` [turns] and ``features`` [turns,
    features] (float32) of the turns that fit, the number of older turns ``dropped``, and the
    number of turns that are ``cut``.

    Of a flat dialogue also ``ids``, the token ids of the whole sequence, and ``segments``, the
    index of each token's turn (MARK: no turn).
    """

    texts: list[str]
    roles: np.ndarray
    features: np.ndarray
    dropped: int = 0
    cut: int = 0
    ids: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)


@dataclass(slots=True)
class TurnBatch:
    """Padded tensors of several dialogues: ``roles`` [B, T] (1 = assistant), ``mask`` [B, T]
    (bool), ``features`` [B, T, F]."""

    roles: Tensor
    mask: Tensor
    features: Tensor

    def to(self, device: torch.device | str) -> TurnBatch:
        return TurnBatch(self.roles.to(device), self.mask.to(device), self.features.to(device))


class TurnTokenizer:
    """Encodes dialogues, and splits texts into token pieces that fit the body's window."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: TurnsConfig) -> None:
        self.tokenizer, self.config = tokenizer, config
        self.marks = SpecialTokens(tokenizer)
        # Ids that the tokenizer puts before and after a single sequence.
        bare = tokenizer("a", add_special_tokens=False)["input_ids"]
        full = tokenizer("a")["input_ids"]
        starts = range(len(full) - len(bare) + 1)
        start = next((i for i in starts if full[i : i + len(bare)] == bare), None)
        self.prefix: list[int] = [] if start is None else list(full[:start])
        self.suffix: list[int] = [] if start is None else list(full[start + len(bare) :])
        self.limit = config.max_tokens - len(self.prefix) - len(self.suffix)

    def encode(self, dialogue: Dialogue) -> EncodedDialogue:
        """Returns the newest turns of the dialogue that fit."""
        fitting: list[list[int]] = []  # role-marked token ids by turn, the newest turn first
        cut = 0
        if self.config.shape == "flat":
            marked = [f"{t.role}: {self.marks.broken_up(t.content)}" for t in dialogue.turns]
            ids = self.tokenizer(marked, add_special_tokens=False, verbose=False)["input_ids"]
            separator, room = self.tokenizer.sep_token_id, self.limit
            for words in reversed(ids):
                line = words if separator is None else [*words, separator]
                if fitting and len(line) > room:
                    break
                fitting.append(line[: self.limit])  # a newest turn beyond the window is cut
                cut += len(words) > self.limit
                room -= len(line)
        lines = fitting[::-1]
        seen = len(lines) or min(len(dialogue.turns), self.config.max_turns)
        dropped = len(dialogue.turns) - seen
        turns = dialogue.turns[dropped:]
        features = np.zeros((len(dialogue.turns), len(FEATURE_NAMES)), dtype=np.float32)
        if self.config.net != "sequence" and set(self.config.features) & set(FEATURE_NAMES):
            features = turn_features(dialogue)
        encoded = EncodedDialogue(
            texts=[t.content for t in turns],
            roles=np.array([ROLE_INDEX[t.role] for t in turns], dtype=np.int64),
            features=features[dropped:],
            dropped=dropped,
            cut=cut,
        )
        if lines:
            begin, end = [MARK] * len(self.prefix), [MARK] * len(self.suffix)
            encoded.ids = [*self.prefix, *(i for line in lines for i in line), *self.suffix]
            inner = [position for position, line in enumerate(lines) for _ in line]
            encoded.segments = begin + inner + end
        return encoded

    def pieces(self, texts: Sequence[str]) -> list[list[list[int]]]:
        """Returns the token pieces, with the tokenizer's marks, of each text. A text longer than
        the window has several pieces."""
        if not texts:
            return []
        plain = [self.marks.broken_up(text) for text in texts]
        if self.tokenizer.is_fast:
            # The library under transformers' class, whose masks, offsets and objects take as long
            # as the tokens. An earlier call may have left truncation and padding on.
            backend: Any = self.tokenizer.backend_tokenizer
            backend.no_truncation()
            backend.no_padding()
            rows = [e.ids for e in backend.encode_batch_fast(plain, add_special_tokens=False)]
        else:
            rows = self.tokenizer(plain, add_special_tokens=False, verbose=False)["input_ids"]
        return [
            [
                [*self.prefix, *ids[start : start + self.limit], *self.suffix]
                for start in range(0, max(1, len(ids)), self.limit)
            ]
            for ids in rows
        ]


def collate(encoded: Sequence[EncodedDialogue]) -> TurnBatch:
    """Returns roles, mask and features padded to the longest dialogue."""
    longest = max(len(e.roles) for e in encoded)
    width = encoded[0].features.shape[1]
    roles = np.zeros((len(encoded), longest), dtype=np.int64)
    mask = np.zeros((len(encoded), longest), dtype=bool)
    features = np.zeros((len(encoded), longest, width), dtype=np.float32)
    for row, one in enumerate(encoded):
        turns = len(one.roles)
        roles[row, :turns], mask[row, :turns], features[row, :turns] = one.roles, True, one.features
    return TurnBatch(torch.from_numpy(roles), torch.from_numpy(mask), torch.from_numpy(features))


def collate_sequences(
    encoded: Sequence[EncodedDialogue], pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ids [B, L], their mask (1 = token) and segments [B, L] of the flat shape."""
    ids, mask = pad_rows([e.ids for e in encoded], pad)
    segments = torch.full_like(ids, MARK)
    for row, one in enumerate(encoded):
        segments[row, : len(one.segments)] = torch.tensor(one.segments)
    return ids, mask, segments


# Reactions: how the user reacts to an answer, and how a user would be expected to. An answer is
# good if "Tell me more about that." is a likelier next turn than "That makes no sense." This is
# DIET's idea of follow-ups on turn embeddings instead of a language model: user turns are compared
# with positive and negative reactions, and for assistant turns a small model predicts the next user
# turn. It learns from conversations alone, without ratings, and is cross-fitted over two halves of
# the training groups.
HALVES = 2  # each reply model learns from one half, and reads the other half in training
_SHARPNESS = 10.0  # of the contrast on user turns; the reply model learns its own
_VECTOR, _PRODUCT = 6.0, 60.0  # scale entries and products of entries to a similar size


class ReplyModel(nn.Module):
    """Maps an assistant turn, the two turns before it and its features to a unit vector, which is
    trained to be near the user's next turn."""

    def __init__(self, hidden: int, features: int, width: int) -> None:
        super().__init__()
        self.answer = nn.Linear(hidden, hidden, bias=False)
        self.next_turn = nn.Linear(hidden, hidden, bias=False)
        for layer in (self.answer, self.next_turn):  # begins as the identity
            nn.init.zeros_(layer.weight)
            layer.weight.data.diagonal().fill_(1.0)
        self.context = nn.Sequential(
            nn.Linear(4 * hidden + features, width),
            nn.GELU(),
            nn.Dropout(0.2),
            nn.Linear(width, hidden),
        )
        last = self.context[3]
        nn.init.zeros_(last.weight)  # type: ignore[arg-type]
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]
        self.log_sharpness = nn.Parameter(torch.tensor(2.5))

    def expect(self, now: Tensor, before: Tensor, earlier: Tensor, measures: Tensor) -> Tensor:
        """Returns the expected replies: unit vectors [..., H], from unit turn vectors [..., H] and
        features [..., F]."""
        products = [_PRODUCT * now * before, _PRODUCT * now * earlier]
        inputs = [_VECTOR * now, _VECTOR * before, *products, measures]
        return functional.normalize(self.answer(now) + self.context(torch.cat(inputs, -1)), dim=-1)

    def replies(self, vectors: Tensor) -> Tensor:
        """Returns turn vectors [..., H] mapped to the space of ``expect``."""
        return functional.normalize(self.next_turn(vectors), dim=-1)

    def contrast(self, expected: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Returns the log-mean likelihood of positive reactions minus that of negative reactions
        [...]."""
        sharpness = self.log_sharpness.exp()
        return contrast(expected, self.replies(positive), self.replies(negative), sharpness)


def contrast(
    vectors: Tensor, positive: Tensor, negative: Tensor, sharpness: Tensor | float = _SHARPNESS
) -> Tensor:
    """Returns log mean exp(s cos) over ``positive`` [P, H] minus the same over ``negative`` [N,
    H]."""

    def log_mean(reactions: Tensor) -> Tensor:
        scores = vectors @ reactions.T * sharpness
        return torch.logsumexp(scores, dim=-1) - math.log(len(reactions))

    return log_mean(positive) - log_mean(negative)


def context_of(unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (turn, turn before, turn before that) for unit turn vectors [B, T, H]; a turn before
    the beginning is replaced by the first turn."""
    before = torch.cat([unit[:, :1], unit[:, :-1]], dim=1)
    earlier = torch.cat([unit[:, :2], unit[:, :-2]], dim=1)[:, : unit.shape[1]]
    return unit, before, earlier


class TurnsNet(nn.Module):
    """``body`` computes token vectors, and ``nets`` (the ensemble members) logits per dimension."""

    shares: Tensor
    feature_mean: Tensor
    feature_std: Tensor
    embedding_mean: Tensor
    positive: Tensor
    negative: Tensor

    def __init__(
        self,
        body: PreTrainedModel,
        hidden: int,
        config: TurnsConfig,
        dimensions: Sequence[Dimension],
    ) -> None:
        super().__init__()
        self.config, self.hidden = config, hidden
        self.body: Any = body  # a module with the attributes of its family
        self.names = [d.name for d in dimensions]
        self.columns = [ALL_FEATURES.index(name) for name in config.features]
        count = len(config.feature_groups) or config.members
        kind = {"transformer": TurnNet, "linear": LinearNet}.get(config.net)
        self.nets = nn.ModuleList(
            SequenceNet(hidden, config, dimensions, body.config)
            if kind is None
            else kind(hidden, config, dimensions)
            for _ in range(count)
        )
        # Share of each member in each dimension's score; 0 if its feature group has no label.
        shares = [[e.weight] for e in config.feature_groups] or [[1.0]] * count
        self.register_buffer("shares", torch.tensor([each * len(self.names) for each in shares]))
        self.reply: nn.ModuleList | None = None
        if config.reply is not None:
            width = config.reply.width
            self.reply = nn.ModuleList(
                ReplyModel(hidden, len(self.columns), width) for _ in range(HALVES)
            )
            self.register_buffer("positive", torch.zeros(len(config.reply.positive), hidden))
            self.register_buffer("negative", torch.zeros(len(config.reply.negative), hidden))
        # Of the training set, per role: a new domain must not be re-centred on itself. At least one
        # column: saving confuses empty tensors.
        columns = max(1, len(config.feature_names))
        self.register_buffer("feature_mean", torch.zeros(2, columns))
        self.register_buffer("feature_std", torch.ones(2, columns))
        self.register_buffer("embedding_mean", torch.zeros(2, hidden))

    @property
    def heads(self) -> list[dict[str, Head]]:
        """The heads of each member, by dimension."""
        return [cast("dict[str, Head]", dict(net.heads.items())) for net in self.nets]  # type: ignore[operator, union-attr]

    def piece_sums(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the sum of the token vectors [P, H] of padded pieces, and their number of tokens
        [P, 1]."""
        weights = mask.unsqueeze(-1).float()
        vectors = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        return (vectors.float() * weights).sum(1), weights.sum(1)

    def sequence_vectors(self, ids: Tensor, mask: Tensor, segments: Tensor, turns: int) -> Tensor:
        """Returns the mean token vector of each turn [B, turns, H] of flat dialogues ``ids`` [B,
        L]; for ``net: sequence`` one vector per dialogue [B, H]."""
        vectors: Tensor = self.body(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        if self.config.net == "sequence":
            weights = mask.unsqueeze(-1).float()
            mean = self.config.pooling == "mean"
            return (vectors * weights).sum(1) / weights.sum(1) if mean else vectors[:, 0]
        index = segments.clamp_min(0).unsqueeze(-1)
        inside = (segments >= 0).unsqueeze(-1).float()
        empty = vectors.new_zeros(len(ids), turns, vectors.shape[-1])
        total = empty.scatter_add(1, index.expand_as(vectors), vectors * inside)
        count = empty[..., :1].scatter_add(1, index, inside)
        return total / count.clamp_min(1)

    def forward(self, vectors: Tensor, batch: TurnBatch) -> list[tuple[Logits, Logits, Logits]]:
        """Returns (logits, evidence, pooling weights) per dimension for each member. ``vectors``
        are turn vectors, or the result of ``sequence_vectors``."""
        if self.config.net == "sequence":
            return [net(vectors) for net in self.nets]
        if self.config.net == "linear":
            vectors, features = self.linear_inputs(vectors, batch)
        else:
            features = self.standardised(self.raw_features(vectors, batch), batch)
        return [net(vectors, features, batch) for net in self.nets]

    def linear_inputs(
        self, vectors: Tensor, batch: TurnBatch, halves: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns (unit embeddings, features), both centred, so that a side without turns adds
        nothing."""
        unit = functional.normalize(vectors.float(), dim=-1) - self.embedding_mean[batch.roles]
        features = self.standardised(self.raw_features(vectors, batch, halves), batch)
        return unit * batch.mask.unsqueeze(-1), features

    def combine(self, members: Sequence[Logits], name: str) -> Tensor:
        """Returns the weighted mean of the members' values for dimension ``name``."""
        weights = self.shares[:, self.names.index(name)]
        stacked = torch.stack([member[name].float() for member in members])
        return torch.einsum("m,m...->...", weights / weights.sum(), stacked)

    def measures(self, vectors: Tensor, batch: TurnBatch) -> Tensor:
        """Returns the features in ``config.features`` [B, T, F], not standardised."""
        similar = turn_similarities(vectors, batch.roles, batch.mask)
        return torch.cat([batch.features, similar], dim=-1)[..., self.columns]

    def standardised(self, raw: Tensor, batch: TurnBatch) -> Tensor:
        """Returns features [B, T, F] standardised by the training set; 0 on padding."""
        mean, std = self.feature_mean[..., : raw.shape[-1]], self.feature_std[..., : raw.shape[-1]]
        z = (raw - mean[batch.roles]) / std[batch.roles]
        return z.clamp(-_FEATURE_LIMIT, _FEATURE_LIMIT) * batch.mask.unsqueeze(-1)

    def raw_features(
        self, vectors: Tensor, batch: TurnBatch, halves: Tensor | None = None
    ) -> Tensor:
        """Returns all features [B, T, F]. ``halves`` [B] selects the reply model for each dialogue
        (cross-fitting, in training); None uses the mean of both."""
        raw = self.measures(vectors, batch)
        if self.reply is None:
            return raw
        reactions = self.reactions(vectors, self.standardised(raw, batch), batch, halves)
        return torch.cat([raw, reactions], dim=-1)

    def reactions(
        self, vectors: Tensor, measures: Tensor, batch: TurnBatch, halves: Tensor | None
    ) -> Tensor:
        """Returns (reaction, expected_reaction) of each turn [B, T, 2]; 0 for turns of the other
        side."""
        assert self.reply is not None
        unit = functional.normalize(vectors.float(), dim=-1)
        user = (batch.roles == 0) & batch.mask
        reaction = contrast(unit, self.positive, self.negative) * user
        context = context_of(unit)
        each = torch.stack(
            [
                model.contrast(model.expect(*context, measures), self.positive, self.negative)
                for model in cast("Sequence[ReplyModel]", self.reply)
            ]
        )
        expected = each.mean(0)
        if halves is not None:
            expected = each[halves, torch.arange(len(halves), device=halves.device)]
        # The opening turn answers nothing: it has no context.
        answers = (batch.roles == 1) & batch.mask
        answers[:, 0] = False
        return torch.stack([reaction, expected * answers], dim=-1)


class LinearNet(nn.Module):
    """Heads on each turn's embedding and features: a linear model of their means."""

    def __init__(self, hidden: int, config: TurnsConfig, dimensions: Sequence[Dimension]) -> None:
        super().__init__()
        self.embedding = config.embedding
        width = 2 * (len(config.feature_names) + (hidden if config.embedding else 0))
        attention = config.pooling == "attention"
        self.heads = heads_of(dimensions, config.heads, width, attention=attention)

    def inputs(self, vectors: Tensor, features: Tensor) -> Tensor:
        """Returns the input of the heads for each turn [B, T, W/2]: features, then embedding."""
        return torch.cat([features, vectors], dim=-1) if self.embedding else features

    def forward(
        self, vectors: Tensor, features: Tensor, batch: TurnBatch
    ) -> tuple[Logits, Logits, Logits]:
        """See TurnNet.forward."""
        return _apply(self.heads, self.inputs(vectors, features), batch.roles, batch.mask)


class TurnNet(nn.Module):
    """A few transformer layers over turn vectors and features, then the heads."""

    def __init__(self, hidden: int, config: TurnsConfig, dimensions: Sequence[Dimension]) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.embed = nn.Linear(hidden, width) if config.embedding else None
        self.embed_norm = nn.LayerNorm(hidden) if config.embedding else None
        self.embed_dropout = nn.Dropout(config.embedding_dropout)
        count = len(config.feature_names)
        self.measure = nn.Linear(count, width) if count else None
        self.role = nn.Embedding(2, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                config.attention_heads,
                2 * width,
                config.dropout,
                batch_first=True,
                norm_first=True,
            )
            for _ in range(config.layers)
        )
        self.turn = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Dropout(config.dropout)
        )
        skip = count if config.skip else 0
        attention = config.pooling == "attention"
        self.heads = heads_of(dimensions, config.heads, 2 * (width + skip), attention=attention)

    def forward(
        self, vectors: Tensor, features: Tensor, batch: TurnBatch
    ) -> tuple[Logits, Logits, Logits]:
        """Returns logits {dimension: [B, outputs]}, evidence and pooling weights {...: [B, T]}."""
        mask = batch.mask
        if self.training and self.config.turn_dropout:
            keep = torch.rand(mask.shape, device=mask.device) >= self.config.turn_dropout
            keep[:, :2] = True  # never an empty dialogue
            mask = mask & keep
        state = self.role(batch.roles)
        if self.embed is not None and self.embed_norm is not None:
            state = state + self.embed(self.embed_dropout(self.embed_norm(vectors)))
        if self.measure is not None:
            state = state + self.measure(features)
        for layer in self.layers:
            state = layer(state, src_key_padding_mask=~mask)
        state = self.turn(state)
        if self.config.feature_names and self.config.skip:
            state = torch.cat([state, features], dim=-1)
        return _apply(self.heads, state, batch.roles, mask)


def _apply(
    heads: nn.ModuleDict, state: Tensor, roles: Tensor, mask: Tensor
) -> tuple[Logits, Logits, Logits]:
    split, weights = by_role(state, roles, mask)
    answers = {name: head(split, weights) for name, head in heads.items()}
    logits, evidence, pooling = ({k: v[i] for k, v in answers.items()} for i in range(3))
    return logits, evidence, pooling


def by_role(state: Tensor, roles: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Returns turn vectors [B, T, 2W] (user half, assistant half) and weights [B, T] = 1 / number
    of turns of the role: the weighted sum is the mean user turn and the mean assistant turn."""
    assistant = (roles == 1).unsqueeze(-1)
    split = torch.cat([state * ~assistant, state * assistant], dim=-1)
    counts = torch.stack([((roles == r) & mask).sum(-1) for r in (0, 1)], dim=-1).clamp_min(1)
    weights = mask.float() / counts.gather(1, roles).float()
    return split, weights


class SequenceNet(nn.Module):
    """The classifier layers of transformers' ``...ForSequenceClassification``: ModernBERT's
    prediction head (dense, GELU, norm), or for other bodies BERT's pooler (dense, tanh); then the
    heads. It has no contributions: the evidence has no columns."""

    def __init__(
        self,
        hidden: int,
        config: TurnsConfig,
        dimensions: Sequence[Dimension],
        body: PretrainedConfig,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden, bias=getattr(body, "classifier_bias", True))
        self.activation: nn.Module = nn.Tanh()
        self.norm: nn.Module = nn.Identity()
        if body.model_type == "modernbert":
            from transformers.activations import ACT2FN

            shape: Any = body
            self.activation = ACT2FN[shape.classifier_activation]
            self.norm = nn.LayerNorm(hidden, eps=shape.norm_eps, bias=shape.norm_bias)
        self.dropout = nn.Dropout(config.dropout)
        self.heads = heads_of(dimensions, config.heads, hidden)

    def forward(self, pooled: Tensor) -> tuple[Logits, Logits, Logits]:
        """Returns logits {dimension: [B, outputs]} of ``pooled`` [B, H]; evidence and pooling
        weights are [B, 0]."""
        state = self.dropout(self.norm(self.activation(self.dense(pooled)))).unsqueeze(1)
        one = state.new_ones(len(state), 1)
        logits = {name: head(state, one)[0] for name, head in self.heads.items()}
        none = {name: state.new_zeros(len(state), 0) for name in logits}
        return logits, none, none
