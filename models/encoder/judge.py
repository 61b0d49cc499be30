"""The encoder judge: a pretrained encoder with transformers' own classification head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.heads import make_output_heads
from medal_judges.models.base.learned import constructor_arguments
from medal_judges.models.base.pretrained import (
    adapt_and_check_base,
    load_base_model,
    load_saved_model,
)
from medal_judges.models.base.saving import read_config
from medal_judges.models.base.sequence import SequenceJudge, classifier_settings
from medal_judges.models.device import Device
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.text import DialogueRenderer
from medal_judges.models.model_files import resolve_model
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.rendered import RenderedDialogue

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class EncoderJudge(SequenceJudge):
    """A judge that scores a dialogue with one forward pass of an encoder over its text."""

    family = "encoder"
    config: EncoderConfig

    @cached_property
    def renderer(self) -> DialogueRenderer:
        """The object that turns dialogues into text and token ids for the encoder."""
        return DialogueRenderer(self.tokenizer, self.config.max_tokens)

    @classmethod
    def create(
        cls,
        config: EncoderConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str | None = None,
        device: Device = None,
    ) -> EncoderJudge:
        """Returns a new, untrained judge: a pretrained encoder with a classification head of
        random weights.

        Args:
            config: The settings of the judge, such as the encoder (``base``).
            dimensions: The dimensions that the judge scores.
            name: The judge's name. None is ``encoder``.
            device: Where the judge runs, such as ``cpu``. None is the GPU if there is one.

        Raises:
            ConfigError: The settings do not fit the encoder or the dimensions, or this machine does
                not have the device.
            JudgeLoadError: The encoder cannot be loaded.
        """
        heads = make_output_heads(dimensions, config.heads)

        def change(settings: Any) -> None:
            adapt_and_check_base(config, settings)
            settings.update(config.config | classifier_settings(heads))

        net, tokenizer = load_base_model(
            AutoModelForSequenceClassification,
            resolve_model(config.base),
            config,
            change,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # a base with another classification head
        )
        tokenizer.model_max_length = config.max_tokens
        return cls(net, tokenizer, config, heads, name=name, device=device)

    def network_with_weights(self, state: Mapping[str, Tensor]) -> PreTrainedModel:
        """Returns a new network with the architecture of ``net`` and the trained weights
        ``state`` (parameter name -> tensor)."""
        network: PreTrainedModel = type(self.net)(self.net.config)
        network.load_state_dict(dict(state))
        return network

    def _save(self, folder: Path) -> None:
        # The attention of this machine is not a setting of the judge.
        self.net.save_pretrained(folder, safe_serialization=True)
        self.tokenizer.save_pretrained(folder)
        self.write_state(folder)

    @classmethod
    def load(
        cls, folder: Path, *, device: Device = None, dtype: str = "fp32"
    ) -> EncoderJudge:
        """Loads the judge saved in ``folder``.

        Args:
            device: Where the judge runs, such as ``cpu``. None is the GPU if there is one.
            dtype: The precision of the weights: ``fp32``, ``bf16`` or ``fp16``.

        Raises:
            JudgeLoadError: Weights are missing or do not fit the settings.
            ConfigError: The dtype is unknown, or this machine does not have the device.
        """
        saved = read_config(folder)
        state, config = constructor_arguments(saved), EncoderConfig(**saved["encoder"])
        heads = make_output_heads(state.pop("dimensions"), config.heads)
        outputs = sum(head.outputs for head in heads)

        def check(settings: Any) -> None:
            adapt_and_check_base(config, settings)
            if settings.num_labels != outputs:
                raise JudgeLoadError(
                    f"{folder}: config.json has {settings.num_labels} labels, judge.json {outputs}",
                    hint="Copy or download the whole folder again",
                )

        net, tokenizer = load_saved_model(
            AutoModelForSequenceClassification, folder, check
        )
        return cls(net, tokenizer, config, heads, device=device, dtype=dtype, **state)

    def render(self, dialogues: Sequence[Dialogue]) -> list[RenderedDialogue]:
        return self.renderer.render(dialogues)
