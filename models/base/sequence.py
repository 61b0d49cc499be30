"""Judges that are a sequence classifier of transformers: one text per dialogue, one row of logits.

Every dimension reads its own slice of the logits. The network is a plain
``AutoModelForSequenceClassification``, so that transformers loads the saved folder without this
package.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from medal_judges.models.base.heads import OutputHead
from medal_judges.models.base.judge import DimensionScore, ScoreRequest, as_judgement
from medal_judges.models.base.learned import LearnedJudge
from medal_judges.models.batching import pad_rows
from medal_judges.models.device import (
    Device,
    cast_weights,
    set_fastest_attention,
    torch_device,
    torch_dtype,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.rendered import RenderedDialogue

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def classifier_settings(heads: Sequence[OutputHead]) -> dict[str, Any]:
    """Returns the fields of transformers' config that describe the logits of all ``heads``, such as
    ``num_labels`` and ``id2label``.

    Args:
        heads: The output heads, one for each dimension.
    """
    names = [name for head in heads for name in head.output_names]
    kinds = {head.config.kind for head in heads}
    problem = "regression"  # no activation
    if kinds == {"binary"}:
        problem = "multi_label_classification"
    elif kinds == {"classification"} and len(heads) == 1:
        problem = "single_label_classification"
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
        "problem_type": problem,
        # CrossEncoder of sentence-transformers would put a sigmoid on a single logit.
        "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
    }


class SequenceJudge(LearnedJudge):
    """A judge whose network is a sequence classifier of transformers, with or without a
    PEFT adapter.

    Attributes:
        net: The network, which reads one text per dialogue.
        tokenizer: The network's tokenizer.
        heads: One output head for each dimension, in the order of their logits in the network's
            output.
        device: Where the network runs.
    """

    device: torch.device

    def __init__(
        self,
        net: Any,
        tokenizer: PreTrainedTokenizerBase,
        config: Any,
        heads: Sequence[OutputHead],
        *,
        device: Device = None,
        dtype: str = "fp32",
        **state: Any,
    ) -> None:
        dimensions = [head.dimension for head in heads]
        self.set_state(dimensions, **state)
        self.net, self.tokenizer, self.config = net, tokenizer, config
        self.heads = list(heads)
        self.truncation = f"oldest turns beyond {config.max_tokens} tokens"
        self.move_to(device, dtype)

    @property
    def pad_id(self) -> int:
        """The id of the padding token, or 0 if the tokenizer has none. Padding is masked."""
        return int(self.tokenizer.pad_token_id or 0)

    def move_to(self, device: Device, dtype: str) -> None:
        self.device, self.dtype = torch_device(device), dtype
        self.set_batch_sizes(self.device)
        self.net = self.net.to(self.device).eval()
        cast_weights(self.net, torch_dtype(dtype))
        set_fastest_attention(self.net, self.device, dtype)

    @abstractmethod
    def render(self, dialogues: Sequence[Dialogue]) -> list[RenderedDialogue]:
        """Returns the text that the network reads for each of ``dialogues``, with its token ids.

        The oldest turns of a dialogue that is too long are left out.
        """

    @abstractmethod
    def network_with_weights(self, state: Mapping[str, Tensor]) -> Any:
        """Returns a new network with the architecture of ``net`` and the trained weights
        ``state`` (parameter name -> tensor)."""

    def replace_network(self, network: Any, dtype: str) -> SequenceJudge:
        """Replaces ``net`` in this judge with the trained ``network``, cast to ``dtype``, and
        returns this judge.

        Args:
            dtype: ``fp32``, ``bf16`` or ``fp16``.
        """
        self.net = network
        self.move_to(self.device, dtype)
        return self

    def outputs_by_dimension(self, logits: Tensor) -> dict[str, Tensor]:
        """Splits the logits of the network by dimension.

        Args:
            logits: The network's output for B dialogues, [B, logits of all heads].

        Returns:
            Dimension name -> [B, logits of the dimension's head]. A regression head has one logit,
            which is shifted by 0.5, so that 0 and 1 are the ends of the scale. The other logits are
            unchanged.
        """
        units: dict[str, Tensor] = {}
        parts = torch.split(logits, [head.outputs for head in self.heads], dim=1)
        for head, part in zip(self.heads, parts, strict=True):
            middle = 0.5 if head.config.kind == "regression" else 0.0
            units[head.dimension.name] = part.float() + middle
        return units

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns the loss of each of B dialogues, summed over all heads, [B].

        Args:
            logits: The network's output, [B, logits of all heads].
            targets: [B, target values of all heads]. A regression or binary head has one target
                value, the label on [0, 1]. An ordinal or classification head has the probability of
                each rating. NaN means no label: the loss of that head is 0.
        """
        units = self.outputs_by_dimension(logits)
        parts = torch.split(targets, [head.targets for head in self.heads], dim=1)
        losses = []
        for head, part in zip(self.heads, parts, strict=True):
            losses.append(head.losses(units[head.dimension.name], part))
        return torch.stack(losses).sum(dim=0)

    # -- the hooks of Judge ----------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        rendered = self.render([request.dialogue for request in requests])
        for request, text in zip(requests, rendered, strict=True):
            request.payload, request.tokens = text.ids, len(text.ids)
            request.truncated_turns, request.cut_turns = text.dropped, text.cut

    @torch.inference_mode()
    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        ids, mask = pad_rows([request.payload for request in requests], self.pad_id)
        output = self.net(
            input_ids=ids.to(self.device), attention_mask=mask.to(self.device)
        )
        logits = output.logits.float().cpu()
        units = self.outputs_by_dimension(logits)
        results: list[dict[str, DimensionScore]] = [{} for _ in logits]
        heads = {head.dimension.name: head for head in self.heads}
        for name in dimensions:
            answers = heads[name].calibrated_outputs(
                units[name], self.calibration_of(name)
            )
            rows = zip(results, *answers, strict=True)
            for result, score, chances, raw in rows:
                details = self.details_of(heads[name].dimension, score, raw)
                result[name] = DimensionScore(score, chances, details)
        return [as_judgement(result) for result in results]
