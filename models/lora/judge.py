"""The LoRA judge that scores: heads on the last token of a causal language model with adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from medal_judges.models.base.heads import Calibration, Head, heads_of
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.base.learned import NetworkJudge, learned_state
from medal_judges.models.base.saving import (
    load_weights,
    read_config,
    write_weights,
)
from medal_judges.models.batching import pad_rows
from medal_judges.models.device import set_attention
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.protocol import Message, oldest_kept
from medal_judges.models.lora.adapters import (
    PROMPT,
    RUBRIC,
    LoraConfig,
    load_adapted,
    save_adapted,
    with_base,
)
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

HEADS_NAME = "heads.safetensors"


class LoraNet(nn.Module):
    """``body`` (a PEFT model) computes token vectors; one head per dimension reads the last one."""

    def __init__(
        self, body: PreTrainedModel, config: LoraConfig, dimensions: Sequence[Dimension]
    ) -> None:
        super().__init__()
        self.body: Any = body  # a module with the attributes of its family
        self.hidden: int = body.config.hidden_size
        self.scorers = heads_of(dimensions, config.heads, self.hidden)

    @property
    def heads(self) -> list[dict[str, Head]]:
        """The heads by dimension, in a list of one member."""
        return [dict(self.scorers.items())]  # type: ignore[arg-type]

    def last_vectors(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Returns the vector [B, H] of each row's last token that is not padding by ``mask`` [B,
        L]."""
        vectors: Tensor = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        places = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
        last = (places * mask).argmax(dim=1)
        return vectors[torch.arange(len(ids), device=ids.device), last].float()

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Returns logits [B, outputs] per dimension."""
        turns = self.last_vectors(ids, mask).unsqueeze(1)
        whole = turns.new_ones(len(turns), 1)
        return {name: head(turns, whole)[0] for name, head in self.scorers.items()}

    def combine(self, members: Sequence[Mapping[str, Tensor]], name: str) -> Tensor:
        """Returns the logits of the one member."""
        return members[0][name].float()


class TokenisedDialogue(NamedTuple):
    """The token ``ids`` that the network reads, and the numbers of turns that are ``dropped`` and
    of turns that are ``cut``."""

    ids: list[int]
    dropped: int
    cut: int


class LoraJudge(NetworkJudge):
    """Reads a dialogue as a chat and scores it from the state in which the next speaker begins."""

    family = "lora"
    config: LoraConfig
    net: LoraNet

    def __init__(
        self,
        net: LoraNet,
        tokenizer: PreTrainedTokenizerBase,
        config: LoraConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str = "lora",
        calibration: Mapping[str, Calibration] | None = None,
        facts: Mapping[str, object] | None = None,
        device: str | torch.device | None = None,
        dtype: str = "fp32",
    ) -> None:
        self.describe(dimensions, name, calibration, facts)
        self.net, self.config, self.tokenizer = net, config, tokenizer
        self.place(device, dtype)
        self.template = ChatTemplate(tokenizer)
        self.truncation = f"oldest turns beyond {config.max_tokens} tokens"

    def place(self, device: str | torch.device | None, dtype: str) -> None:
        """Moves the net; a quantised body cannot be moved, so the heads go to its device."""
        if self.config.quantize is None:
            super().place(device, dtype)
            return
        self.device, self.dtype = self.net.body.device, self.config.quantize
        self.net.scorers.to(self.device)
        self.net.eval()
        set_attention(self.net.body, self.config.attention, self.device, dtype)

    @classmethod
    def create(
        cls,
        config: LoraConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str = "lora",
        device: str | torch.device | None = None,
    ) -> LoraJudge:
        """Returns a new judge on ``config.base``; adapters and heads are random by torch's seed."""
        model, tokenizer = load_adapted(config, device)
        net = LoraNet(model, config, dimensions)
        return cls(net, tokenizer, config, dimensions, name=name, device=device)

    def signature(self) -> Signature:
        return replace(super().signature(), revision=with_base(self.revision, self.config))

    def _save(self, folder: Path) -> None:
        save_adapted(self.net.body, self.tokenizer, self.config, folder)
        heads = {k: v.float() for k, v in self.net.scorers.state_dict().items()}
        write_weights(heads, folder / HEADS_NAME)
        self.write_state(folder)

    @staticmethod
    def load(
        folder: Path, *, device: str | torch.device | None = None, dtype: str = "fp32"
    ) -> Judge:
        """Loads the judge saved in ``folder``, scoring or generative; its base model comes from the
        Hub or its cache. Raises JudgeLoadError for weights that are missing or do not fit."""
        saved = read_config(folder)
        config, state = LoraConfig(**saved["lora"]), learned_state(saved)
        model, tokenizer = load_adapted(config, device, folder)
        if config.head == "generative":
            from medal_judges.models.lora.generative import GenerativeLoraJudge, prompted_config

            rubric, prompt = str(folder / RUBRIC), str(folder / PROMPT)
            prompted = prompted_config(config, state["name"], rubric, prompt, state["dimensions"])
            facts = state["facts"]
            return GenerativeLoraJudge(
                model, tokenizer, config, prompted, facts=facts, device=device, dtype=dtype
            )
        net = LoraNet(model, config, state["dimensions"])
        load_weights(net.scorers, folder / HEADS_NAME)
        judge = LoraJudge(net, tokenizer, config, device=device, dtype=dtype, **state)
        judge.encode(Dialogue("", (Turn("user", "?"),)))  # a broken template fails now
        return judge

    # -- the hooks of Judge ----------------------------------------------------------------------

    def encode(self, dialogue: Dialogue) -> TokenisedDialogue:
        """Returns the tokens of the newest turns that fit. A last turn that is too long loses its
        beginning."""
        messages = [Message(t.role, t.content) for t in dialogue.turns]
        limit = self.config.max_tokens

        def ids(start: int) -> list[int]:
            return self.template.prefix(messages[start:], self.config.speaks)

        start = oldest_kept(len(messages) - 1, lambda k: len(ids(k)) <= limit)
        fitting = ids(start)
        return TokenisedDialogue(fitting[-limit:], start, int(len(fitting) > limit))

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        for request in requests:
            encoded = self.encode(request.dialogue)
            request.payload, request.tokens = encoded.ids, len(encoded.ids)
            request.truncated_turns, request.cut_turns = encoded.dropped, encoded.cut

    @torch.inference_mode()
    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        ids, mask = pad_rows([request.payload for request in requests], self.pad)
        logits = self.net(ids.to(self.device), mask.to(self.device))
        scores: list[dict[str, float | None]] = [{} for _ in requests]
        distributions: list[dict[str, list[float]]] = [{} for _ in requests]
        details: list[dict[str, dict[str, Any]]] = [{} for _ in requests]
        for name in dimensions:
            head: Head = self.net.heads[0][name]
            answers = head.answers(logits[name], self.fitted(name))
            for row, (score, chances, raw) in enumerate(zip(*answers, strict=True)):
                scores[row][name], details[row][name] = score, self.details_of(name, score, raw)
                if chances:
                    distributions[row][name] = chances
        return [
            Judgement(scores=s, distributions=d, details=each)
            for s, d, each in zip(scores, distributions, details, strict=True)
        ]
