"""EnDex: how engaging an answer is, learnt from reactions on Reddit (Xu et al., EMNLP 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.trained_metrics.turn_metric import CheckpointConfig, Queries, TurnMetric
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ENGAGING = 1  # label of the class "engaging" (the published model's documentation)


class EnDexConfig(CheckpointConfig):
    """``model``: a RoBERTa that classifies sequences into two classes."""

    family: Literal["endex"] = "endex"
    name: str = "endex"
    rubric: str = "endex"
    max_tokens: int = Field(default=512, ge=8)


class EnDexJudge(TurnMetric[EnDexConfig]):
    """Probability that an answer, read without its context as in the paper, is engaging.

    At level dialogue the mean over all assistant turns. A turn longer than ``max_tokens`` is left
    out and counted; a dialogue without other turns is unscored.
    """

    family = "endex"
    config_class = EnDexConfig
    network_class = "RobertaForSequenceClassification"

    def __init__(
        self, config: EnDexConfig, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        super().__init__(config, network, tokenizer)
        if network.config.num_labels != 2:
            raise ConfigError(
                f"{config.name}: EnDex has two classes, this model {network.config.num_labels}"
            )
        self.dimensions = load_rubric(config.rubric)
        # RoBERTa counts positions from after the padding id: 514 of them hold 512 tokens.
        offset = (network.config.pad_token_id or 0) + 1
        self.max_tokens = min(config.max_tokens, network.config.max_position_embeddings - offset)
        self.truncation = f"turns longer than {self.max_tokens} tokens"

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> TurnMetric[EnDexConfig]:
        model = str(settings["model"])
        if "/" not in model and not Path(model).is_dir():
            raise JudgeLoadError(
                f"no folder {model} here, and EnDex has no hub id",
                hint="github.com/gxxu-ml/EnDex links to the weights: unzip them, and model=FOLDER",
            )
        return super().from_settings(settings)

    def _ask(self, dialogue: Dialogue, turn: int, queries: Queries) -> None:
        ids = tuple(self.tokenizer(self.marks.broken_up(dialogue.turns[turn].content)).input_ids)
        for dimension in self.dimensions:
            if len(ids) <= self.max_tokens:
                queries.asked.append((dimension.name, turn, ids))
            else:
                queries.unseen.add(turn)
                reason = f"a turn of {len(ids)} tokens; {self.max_tokens} fit"
                queries.refused.setdefault(dimension.name, reason)

    def _probability(self, ids: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.network(input_ids=ids, attention_mask=mask).logits.float()
        return logits.softmax(dim=-1)[:, ENGAGING]
