"""The generative LoRA judge: trained to answer a prompt, and used like a prompted judge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from medal_judges.models.base.heads import Calibration
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.base.saving import write_config
from medal_judges.models.device import Device
from medal_judges.models.llm.local.generation import GrammarMask
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import Continuation, Message
from medal_judges.models.llm.settings import llm_config
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
from medal_judges.models.prompted.builder import PromptQuestion
from medal_judges.models.prompted.judge import PromptedConfig, PromptedJudge
from medal_judges.models.prompted.prompt import load_prompt
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class GenerativeLoraJudge(PromptedJudge):
    """A judge whose language model has adapters that are trained to answer the judge's prompt.

    Args:
        network: A causal language model with adapters.
        tokenizer: The tokenizer of the base model.
        config: The settings of the base model and its adapters.
        prompted: The settings of the prompt and the scales.
        facts: What is known about the training run, such as ``{"seed": 0}``.
        device: The device of the network, such as ``cuda``. None is the GPU if there is one.
        dtype: ``fp32``, ``bf16``, ``fp16``, or ``mixed``, which keeps the dtype of every weight.
    """

    family = "lora"
    scores_expected = True

    def __init__(
        self,
        network: PeftModel | PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        config: LoraConfig,
        prompted: PromptedConfig,
        *,
        facts: Mapping[str, object] | None = None,
        device: Device = None,
        dtype: str = "fp32",
    ) -> None:
        self.lora, self.facts, self.prompted = config, dict(facts or {}), prompted
        self.net: Any = network
        self.move_to(device, dtype)
        self.tokenizer = tokenizer
        self.calibration: dict[str, Calibration] = {}  # none: the numbers are written
        # Likelihoods are computed by the body: the layers with adapters, without PEFT's wrapper.
        body: Any = getattr(network, "get_base_model", lambda: network)()
        # ``weights`` can be any text: the judge's revision is a hash of its files.
        model = LocalModel(
            body,
            tokenizer,
            name=config.base.replace(":", "/"),
            thinking=0,
            weights="adapted",
        )
        model.context = min(model.context, config.max_tokens + config.answer_tokens)
        self.template = model.template
        # a broken template fails now
        self.template.prefix_ids([Message("user", "?")], "assistant")
        super().__init__(prompted.model_copy(update={"llm": model}))

    def move_to(self, device: Device, dtype: str) -> None:
        self.net = move_and_cast_network(self.net, self.lora, device, dtype)
        self.device, self.dtype = self.net.device, self.lora.quantize or dtype

    @classmethod
    def create(
        cls,
        config: LoraConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str,
        rubric: str,
        device: Device = None,
        dtype: torch.dtype = torch.float32,
    ) -> GenerativeLoraJudge:
        """Returns a new judge: the base model of ``config`` with untrained adapters.

        Args:
            config: The settings of the base model and its adapters.
            dimensions: What the judge scores.
            name: The name of the judge.
            rubric: A YAML file that describes the dimensions, or the name of a shipped one, such as
                ``medal``.
            device: The device of the network, such as ``cuda``. None is the GPU if there is one.
            dtype: The dtype of the base model. The adapters are in fp32.

        Raises:
            ConfigError: A setting is wrong, or the answers of the base model cannot be restricted
                to JSON.
            JudgeLoadError: The base model cannot be loaded.
            MissingExtraError: A package is missing, such as PEFT.
        """
        config = with_absolute_base(config)
        prompted = prompted_config(config, name, rubric, "lora", dimensions)
        adapted = load_adapted_model(config, device, dtype=dtype)
        kind = "fp32" if dtype == torch.float32 else MIXED
        judge = cls(*adapted, config, prompted, device=device, dtype=kind)
        mask = GrammarMask(judge.tokenizer, [{"type": "object"}])
        # not after the training
        mask(torch.zeros(1, 1), torch.zeros(1, len(judge.tokenizer)))
        return judge

    def network_with_weights(self, state: Mapping[str, Tensor]) -> Any:
        """Loads the base model again, and returns it with the trained adapters in ``state``.

        Args:
            state: Parameter name -> tensor after training. Weights of the base model in it are
                ignored.
        """
        return rebuild_trained_network(self.lora, self.device, state)

    def replace_network(self, network: Any, dtype: str) -> GenerativeLoraJudge:
        """Returns a copy of the judge with another network. The copy has no ``facts`` about the
        training run.

        Args:
            network: The trained network, which is cast to ``dtype``.
            dtype: ``fp32``, ``bf16``, ``fp16``, or ``mixed``, which keeps the dtype of every
                weight.
        """
        return type(self)(
            network,
            self.tokenizer,
            self.lora,
            self.prompted,
            device=self.device,
            dtype=dtype,
        )

    def _save(self, folder: Path) -> None:
        import yaml

        save_adapters(self.net, self.tokenizer, self.lora, folder)
        rubric = {"dimensions": [d.to_record() for d in self.dimensions]}
        texts = {RUBRIC: rubric, PROMPT: self.prompt.model_dump(mode="json")}
        for name, content in texts.items():
            text = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
            (folder / name).write_text(text, encoding="utf-8")
        settings = {
            "name": self.name,
            "lora": self.lora.model_dump(),
            "facts": self.facts,
        }
        write_config(folder, self, settings | {"calibration": {}})

    def signature(self) -> Signature:
        seed = self.facts.get("seed")
        return replace(
            super().signature(),
            revision=hash_with_base(self.revision, self.lora),
            base=self.lora.base,
            dtype=self.dtype,
            seed=seed if isinstance(seed, int) else None,
        )

    # -- what training uses --------------------------------------------------------------------

    def prepare_request(self, dialogue: Dialogue) -> ScoreRequest:
        """Returns the request to score the whole ``dialogue``.

        The ``payload`` of the request is a PromptView with as many of the newest turns as fit the
        model's context. If not even the last turn fits, ``payload.failure`` says so. It is None
        otherwise.
        """
        request = ScoreRequest(dialogue, None)
        self._prepare([request])
        return request

    def sft_example(
        self,
        request: ScoreRequest,
        question: PromptQuestion,
        units: Mapping[str, float],
        comments: Mapping[str, str],
    ) -> tuple[list[int], list[int]]:
        """Returns a training example for supervised fine-tuning: a prompt and the answer to learn.

        Args:
            request: A dialogue to score, from ``prepare_request``.
            question: The question that the prompt asks, about one or several dimensions.
            units: Dimension name -> label on [0, 1], for each dimension of the question.
            comments: Dimension name -> comment to write into the answer. A dimension that is
                missing here gets an empty comment.

        Returns:
            (token ids of the prompt, token ids of the answer with its end token).
        """
        messages = self.messages(request, question)
        text = self.target_answer(question, units, comments)
        sequence = self.template.to_sequence(
            Continuation(messages, text, role="assistant")
        )
        return list(sequence.ids[: sequence.start]), list(
            sequence.ids[sequence.start :]
        )

    def target_answer(
        self,
        question: PromptQuestion,
        units: Mapping[str, float],
        comments: Mapping[str, str],
    ) -> str:
        """Returns the answer that the model is trained to write, as JSON.

        Args:
            question: The question to answer, about one or several dimensions.
            units: Dimension name -> label on [0, 1], for each dimension of the question.
            comments: Dimension name -> comment to write into the answer. A dimension that is
                missing here gets an empty comment.
        """
        builder = self.builder_for(None)
        fields = builder.answer
        values: dict[str, Any] = {}
        for d, w in zip(question.dimensions, question.fields, strict=True):
            low, high = w.scale
            value = low + units[d.name] * (high - low)
            number = (
                int(value + 0.5) if builder.asks_whole_numbers(d) else round(value, 2)
            )
            comment = comments.get(d.name, "")[: self.lora.comment_chars]
            entry = {fields.score: number, fields.comment: comment}
            values[w.key] = entry if fields.comment else number
        if not builder.together:
            only = next(iter(values.values()))
            return json.dumps(only if isinstance(only, dict) else {fields.score: only})
        return json.dumps(values, ensure_ascii=False)


def prompted_config(
    config: LoraConfig,
    name: str,
    rubric: str,
    prompt: str,
    dimensions: Sequence[Dimension],
) -> PromptedConfig:
    """Returns the settings of the prompt for a generative LoRA judge.

    Args:
        config: The settings of the base model and its adapters.
        name: The name of the judge.
        rubric: A YAML file that describes ``dimensions``, or the name of a shipped one, such as
            ``medal``.
        prompt: A YAML file with the prompt, or the name of a shipped one, such as ``lora``.
        dimensions: What the judge scores, some or all of the dimensions in ``rubric``.

    Raises:
        ConfigError: The prompt file is missing or malformed.
    """
    load_prompt(prompt)  # a wrong name fails before weights are read
    return PromptedConfig(
        name=name,
        llm=llm_config(config.base),
        rubric=rubric,
        dimensions=tuple(d.name for d in dimensions),
        prompts=prompt,
        layout=config.layout,
        max_tokens=config.answer_tokens,
        comment_chars=config.comment_chars,
    )
