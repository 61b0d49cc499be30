"""The LoRA judge that scores: a classification head on the last token of a causal language model
with adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from medal_judges.models.base.heads import make_output_heads
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.learned import constructor_arguments
from medal_judges.models.base.saving import read_config
from medal_judges.models.base.sequence import SequenceJudge, classifier_settings
from medal_judges.models.device import Device
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.protocol import Message, first_fitting_start
from medal_judges.models.lora.adapters import (
    MIXED,
    PROMPT,
    RUBRIC,
    LoraConfig,
    hash_with_base,
    load_adapted_model,
    move_and_cast_network,
    rebuild_trained_network,
    save_adapters,
    with_absolute_base,
)
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.rendered import RenderedDialogue
from medal_judges.records.signature import Signature


class LoraJudge(SequenceJudge):
    """A judge that reads a dialogue as a chat. A classification head computes the scores from the
    chat's last token. The head sits on a causal language model with low-rank adapters.

    Make a new judge with ``create``, and read a saved one with ``load``.
    """

    family = "lora"
    config: LoraConfig

    @cached_property
    def template(self) -> ChatTemplate:
        """The chat template of the tokenizer, which renders a dialogue as the model's input."""
        return ChatTemplate(self.tokenizer)

    def move_to(self, device: Device, dtype: str) -> None:
        self.net = move_and_cast_network(self.net, self.config, device, dtype)
        self.device, self.dtype = self.net.device, self.config.quantize or dtype
        self.set_batch_sizes(self.device)

    @classmethod
    def create(
        cls,
        config: LoraConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str | None = None,
        device: Device = None,
        dtype: torch.dtype = torch.float32,
    ) -> LoraJudge:
        """Returns a new judge: the base model of ``config`` with an untrained classification head
        and untrained adapters, both in fp32.

        Args:
            config: The settings of the judge.
            dimensions: What the judge scores.
            name: The name of the judge. None is ``lora``.
            device: The device of the network, such as ``cuda``. None is the GPU if there is one.
            dtype: The dtype of the base model.

        Raises:
            ConfigError: The settings do not fit the base model or the dimensions.
            JudgeLoadError: The base model cannot be loaded.
            MissingExtraError: A package is missing, such as PEFT.
        """
        config = with_absolute_base(config)
        heads = make_output_heads(dimensions, config.heads)
        labels = classifier_settings(heads)
        model, tokenizer = load_adapted_model(
            config, device, labels=labels, dtype=dtype
        )
        kind = "fp32" if dtype == torch.float32 else MIXED
        return cls(
            model, tokenizer, config, heads, name=name, device=device, dtype=kind
        )

    def signature(self) -> Signature:
        return replace(
            super().signature(), revision=hash_with_base(self.revision, self.config)
        )

    def network_with_weights(self, state: Mapping[str, Tensor]) -> Any:
        labels = classifier_settings(self.heads)
        return rebuild_trained_network(self.config, self.device, state, labels)

    def _save(self, folder: Path) -> None:
        save_adapters(self.net, self.tokenizer, self.config, folder)
        self.write_state(folder)

    @staticmethod
    def load(folder: Path, *, device: Device = None, dtype: str = "fp32") -> Judge:
        """Returns the judge saved in ``folder``. It is a GenerativeLoraJudge if the judge was
        trained with ``head: generative``, otherwise a LoraJudge.

        The base model is not in ``folder``. It is loaded from the Hub, from the Hub's cache on this
        machine, or from the folder that the settings name.

        Args:
            device: The device of the network, such as ``cuda``. None is the GPU if there is one.
            dtype: ``fp32``, ``bf16`` or ``fp16``.

        Raises:
            JudgeLoadError: Weights are missing or do not fit the settings, or the base model cannot
                be loaded.
            MissingExtraError: A package is missing, such as PEFT.
        """
        saved = read_config(folder)
        config, state = LoraConfig(**saved["lora"]), constructor_arguments(saved)
        dimensions = state.pop("dimensions")
        if config.head == "generative":
            from medal_judges.models.lora.generative import (
                GenerativeLoraJudge,
                prompted_config,
            )

            model, tokenizer = load_adapted_model(config, device, folder)
            rubric, prompt = str(folder / RUBRIC), str(folder / PROMPT)
            prompted = prompted_config(
                config, state["name"], rubric, prompt, dimensions
            )
            facts = state["facts"]
            return GenerativeLoraJudge(
                model,
                tokenizer,
                config,
                prompted,
                facts=facts,
                device=device,
                dtype=dtype,
            )
        heads = make_output_heads(dimensions, config.heads)
        labels = classifier_settings(heads)
        model, tokenizer = load_adapted_model(config, device, folder, labels=labels)
        judge = LoraJudge(
            model, tokenizer, config, heads, device=device, dtype=dtype, **state
        )
        # a broken template fails now
        judge.render([Dialogue("", (Turn("user", "?"),))])
        return judge

    # -- the text of a dialogue --------------------------------------------------------------------

    def render(self, dialogues: Sequence[Dialogue]) -> list[RenderedDialogue]:
        return [self._render(dialogue) for dialogue in dialogues]

    def _render(self, dialogue: Dialogue) -> RenderedDialogue:
        """Returns the chat text and token ids of the newest turns of ``dialogue`` that fit
        ``config.max_tokens``. If the last turn alone is too long, its beginning is cut."""
        messages = [Message(turn.role, turn.content) for turn in dialogue.turns]
        limit, last = self.config.max_tokens, len(messages) - 1

        def text_of(messages: Sequence[Message]) -> str:
            return self.template.prefix_text(messages, "user")

        def fits(start: int) -> bool:
            return len(self.template.encode_prompt(text_of(messages[start:]))) <= limit

        start = first_fitting_start(last, fits)
        text = text_of(messages[start:])
        ids = self.template.encode_prompt(text)
        if len(ids) <= limit:
            return RenderedDialogue(text, ids, dropped=start)
        return RenderedDialogue(text, ids[-limit:], dropped=start, cut=1)
