"""The LoRA judge that scores: heads on the last token of a causal language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from medal_judges.dialogue import Dialogue
from medal_judges.dimension import Dimension
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.attention import set_attention
from medal_judges.models.base.calibration import Calibration
from medal_judges.models.base.heads import Head, default_head
from medal_judges.models.base.judge import Judge, Prediction, ScoreRequest
from medal_judges.models.base.saving import read_config, write_config
from medal_judges.models.base.weights import load_weights
from medal_judges.models.encoder.judge import DTYPES
from medal_judges.models.encoder.turn_batch import collate_pieces
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.protocol import Message
from medal_judges.models.llm.truncation import oldest_kept
from medal_judges.models.lora.base import (
    TOKENIZER,
    adapted,
    load_adapter,
    load_base,
    load_tokenizer,
    save_adapter,
)
from medal_judges.models.lora.config import LoraConfig
from medal_judges.signature import Signature, content_hash

HEADS_NAME = "heads.safetensors"


class LoraNet(nn.Module):
    """``body`` (a PEFT model) gives token vectors; one head a dimension reads the last of them."""

    def __init__(self, body: nn.Module, hidden: int, scorers: Mapping[str, Head]) -> None:
        super().__init__()
        self.body: Any = body
        self.hidden = hidden
        self.scorers = nn.ModuleDict(scorers)

    @property
    def heads(self) -> list[dict[str, Head]]:
        """One member's heads by dimension."""
        return [dict(self.scorers.items())]  # type: ignore[arg-type]

    def last_vectors(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Vector [B, H] of each row's last token that is not padding, found by ``mask`` [B, L]."""
        vectors = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        places = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
        last = (places * mask).argmax(dim=1)
        found: Tensor = vectors[torch.arange(len(ids), device=ids.device), last].float()
        return found

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Logits [B, outputs] per dimension."""
        turns = self.last_vectors(ids, mask).unsqueeze(1)
        whole = turns.new_ones(len(turns), 1)
        return {name: head(turns, whole)[0] for name, head in self.scorers.items()}

    def combine(self, members: Sequence[Mapping[str, Tensor]], name: str) -> Tensor:
        """The one member's logits."""
        return members[0][name].float()


class LoraJudge(Judge):
    """Reads a dialogue as a chat and scores it from the state in which the next speaker begins."""

    family = "lora"

    def __init__(
        self,
        net: LoraNet,
        tokenizer: Any,
        config: LoraConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str = "lora",
        calibration: Mapping[str, Calibration] | None = None,
        facts: Mapping[str, Any] | None = None,
        device: str | torch.device | None = None,
        dtype: str = "fp32",
    ) -> None:
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.dtype, self.config, self.name = dtype, config, name
        self.net = net.eval() if config.quantize else net.to(self.device).eval()
        if dtype != "fp32" and not config.quantize:
            self.net.body.to(DTYPES[dtype])
        set_attention(self.net.body, config.attention, self.device, dtype)
        self.dimensions, self.tokenizer = tuple(dimensions), tokenizer
        self.template = ChatTemplate(tokenizer)
        self.calibration = dict(calibration or {})
        self.facts = dict(facts or {})

    # -- making, saving, loading ---------------------------------------------------------------

    @classmethod
    def create(
        cls,
        config: LoraConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str = "lora",
        device: str | torch.device | None = None,
    ) -> LoraJudge:
        """A fresh judge on ``config.base``; adapters and heads drawn from torch's seed."""
        base = load_base(config, device=device)
        net = _net(adapted(base, config), base.config.hidden_size, config, dimensions)
        return cls(net, load_tokenizer(config), config, dimensions, name=name, device=device)

    def _save(self, folder: Path) -> None:
        from safetensors.torch import save_file

        save_adapter(self.net.body, self.config, folder)
        state = {
            k: v.detach().cpu().float().contiguous()
            for k, v in self.net.scorers.state_dict().items()
        }
        save_file(state, folder / HEADS_NAME, metadata={"format": "pt"})
        calibration = {k: v.model_dump() for k, v in self.calibration.items()}
        files = sorted(folder.rglob("*.safetensors"))
        weights = [content_hash(path.read_bytes()) for path in files]
        self.facts["weights"] = content_hash([weights, calibration])
        self.tokenizer.save_pretrained(folder / TOKENIZER)
        settings = {
            "name": self.name,
            "lora": self.config.model_dump(),
            "calibration": calibration,
            "facts": self.facts,
        }
        write_config(folder, self, settings)

    @staticmethod
    def load(
        folder: Path, *, device: str | torch.device | None = None, dtype: str = "fp32"
    ) -> Judge:
        """The judge saved in ``folder``, scoring or generative. Its base comes from the Hub's cache
        (or the Hub) unless it was merged.

        Raises JudgeLoadError when weights are missing or any key of adapters or heads does not fit.
        """
        saved = read_config(folder)
        config = LoraConfig(**saved["lora"])
        if dtype not in DTYPES:
            raise JudgeLoadError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
        dimensions = [Dimension(**d) for d in saved["dimensions"]]
        if config.head == "generative":
            from medal_judges.models.lora.generative import GenerativeLoraJudge

            return GenerativeLoraJudge.load_saved(folder, saved, config, dimensions, device, dtype)
        body = load_adapter(config, folder)
        net = _net(body, body.config.hidden_size, config, dimensions)
        load_weights(net.scorers, folder / HEADS_NAME)
        return LoraJudge(
            net,
            load_tokenizer(config, folder / TOKENIZER),
            config,
            dimensions,
            name=saved["name"],
            calibration={k: Calibration(**v) for k, v in saved["calibration"].items()},
            facts=saved["facts"],
            device=device,
            dtype=dtype,
        )

    def signature(self) -> Signature:
        from medal_judges import __version__

        return Signature(
            judge=self.name,
            revision=self.facts.get("weights", "unsaved"),
            base=self.config.base,
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            dtype=self.config.quantize or self.dtype,
            truncation=f"oldest turns beyond {self.config.max_tokens} tokens",
            seed=self.facts.get("seed"),
            version=__version__,
        )

    # -- the hooks of Judge ----------------------------------------------------------------------

    def encode(self, dialogue: Dialogue) -> tuple[list[int], int]:
        """(token ids, whole oldest turns dropped). A last turn too long alone keeps its end."""
        messages = [Message(t.role, t.content) for t in dialogue.turns]
        limit = self.config.max_tokens

        def ids(start: int) -> list[int]:
            return self.template.prefix(messages[start:], self.config.speaks)

        start = oldest_kept(len(messages) - 1, lambda k: len(ids(k)) <= limit)
        return ids(start)[-limit:], start

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        for item in items:
            item.payload, item.truncated_turns = self.encode(item.dialogue)
            item.tokens = len(item.payload)

    @torch.inference_mode()
    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        ids, mask = collate_pieces([item.payload for item in items], self.pad)
        logits = self.net(ids.to(self.device), mask.to(self.device))
        answers: list[Prediction] = [Prediction({}, {}) for _ in items]
        for name in dimensions:
            head = self.net.heads[0][name]
            fitted = self.calibration.get(name, Calibration())
            scores, chances = head.answers(logits[name].cpu(), fitted)
            for answer, score, row in zip(answers, scores, chances, strict=True):
                answer.scores = {**answer.scores, name: score}
                if row:
                    answer.distributions = {**answer.distributions, name: row}
        return answers

    @property
    def pad(self) -> int:
        """The id that fills rows up; the mask tells it from a token."""
        return int(self.tokenizer.pad_token_id or 0)


def _net(body: Any, hidden: int, config: LoraConfig, dimensions: Sequence[Dimension]) -> LoraNet:
    heads = {
        d.name: Head(d, config.heads.get(d.name) or default_head(d), hidden, attention=False)
        for d in dimensions
    }
    return LoraNet(body, hidden, heads)
