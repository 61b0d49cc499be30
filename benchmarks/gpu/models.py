"""The architectures of the checks, with random weights, and chats of made-up words for them.

A folder of weights and tokenizer is made where there is none, on the device: a machine with a GPU
mostly has no network. Fewer layers only where the memory of the machine says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.storage.files import atomic_path, output_lock

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_BYTES_A_WEIGHT = (
    24  # of a LoRA run in host memory and on the device: fp32 weights, and their load
)


@dataclass(frozen=True, slots=True)
class Architecture:
    """``kind`` is transformers' name; ``sizes`` are the released model's, ``small`` those that show
    on a CPU that a check works."""

    kind: str
    sizes: Mapping[str, int]
    small: Mapping[str, int]

    @property
    def causal(self) -> bool:
        """Whether it is a language model; else an encoder."""
        return self.kind != "modernbert"

    def config(self, sizes: Mapping[str, int]) -> Any:
        """transformers' config of a model of ``sizes`` whose marks are MARKS."""
        from transformers import AutoConfig

        own = {
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 5 if self.causal else 3,
        }
        own |= (
            {"tie_word_embeddings": True}
            if self.causal
            else {"cls_token_id": 2, "sep_token_id": 3}
        )
        return AutoConfig.for_model(self.kind, **sizes, **own)


_SMALL_ENCODER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 2048,
    "max_position_embeddings": 1024,
}
ARCHITECTURES = {
    "ModernBERT-base": Architecture(
        "modernbert",
        {
            "hidden_size": 768,
            "num_hidden_layers": 22,
            "num_attention_heads": 12,
            "intermediate_size": 1152,
            "vocab_size": 50368,
            "max_position_embeddings": 8192,
        },
        _SMALL_ENCODER,
    ),
    "ModernBERT-large": Architecture(
        "modernbert",
        {
            "hidden_size": 1024,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "intermediate_size": 2624,
            "vocab_size": 50368,
            "max_position_embeddings": 8192,
        },
        _SMALL_ENCODER,
    ),
    "Qwen3-4B": Architecture(
        "qwen3",
        {
            "hidden_size": 2560,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 9728,
            "vocab_size": 151936,
            "max_position_embeddings": 40960,
        },
        {
            "hidden_size": 64,  # blocks of 4-bit weights are 64 wide
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "intermediate_size": 128,
            "vocab_size": 2048,
            "max_position_embeddings": 4096,
        },
    ),
}


def layers_that_fit(sizes: Mapping[str, int], memory: float) -> int:
    """How many of a language model's layers a training run has room for in ``memory`` bytes."""
    hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
    heads = sizes["num_attention_heads"] + sizes["num_key_value_heads"]
    layer = 2 * hidden * sizes["head_dim"] * heads + 3 * hidden * inner
    left = memory / _BYTES_A_WEIGHT - sizes["vocab_size"] * hidden
    return max(2, min(sizes["num_hidden_layers"], int(left // layer)))


def model_folder(name: str, models: Path, *, small: bool, device: torch.device) -> Path:
    """The folder of an architecture's weights (encoders fp32, language models bf16) and tokenizer
    below ``models``, made where there is none."""
    from transformers import AutoModel, AutoModelForCausalLM

    about = ARCHITECTURES[name]
    sizes = dict(about.small if small else about.sizes)
    if about.causal and device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
        sizes["num_hidden_layers"] = layers_that_fit(sizes, memory)
    folder = models / f"{name}-{sizes['num_hidden_layers']}x{sizes['hidden_size']}"
    if folder.is_dir():
        return folder
    with output_lock(folder, wait=True), atomic_path(folder) as unfinished:
        torch.manual_seed(0)
        kind = AutoModelForCausalLM if about.causal else AutoModel
        dtype = torch.bfloat16 if about.causal else torch.float32
        with device:
            network = kind.from_config(about.config(sizes), dtype=dtype)
        unfinished.mkdir()
        network.save_pretrained(unfinished)
        save_tokenizer(unfinished, chat=about.causal)
    return folder


def save_tokenizer(folder: Path, *, chat: bool) -> None:
    """A byte-level BPE learnt from the made-up words; ``chat``: with a chat template."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=list(MARKS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rng = np.random.default_rng(1)
    tokenizer.train_from_iterator([said(rng, 30) for _ in range(400)], trainer)
    marks = {"unk_token": "[UNK]", "pad_token": "[PAD]"}
    if chat:
        marks |= {"eos_token": "<|im_end|>"}
    else:
        marks |= {"cls_token": "[CLS]", "sep_token": "[SEP]"}
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks)
    if chat:
        made.chat_template = TEMPLATE
    made.save_pretrained(folder)


@cache
def _words() -> list[str]:
    """600 words of two or three syllables."""
    rng = np.random.default_rng(0)
    syllables = [c + v for c in "bdfghklmnprstvz" for v in "aeiou"]
    return ["".join(rng.choice(syllables, rng.integers(2, 4))) for _ in range(600)]


def said(rng: np.random.Generator, words: int) -> str:
    """A sentence of so many words."""
    return " ".join(rng.choice(_words(), words)).capitalize() + "."


def dialogues(count: int, words: tuple[int, int], *, seed: int = 0) -> list[Dialogue]:
    """``count`` chats whose lengths lie evenly between the two numbers of words, in turns of about
    thirty; each ends with the assistant's."""
    rng = np.random.default_rng(seed)
    lengths = np.linspace(*words, count).round().astype(int)
    chats = []
    for number, length in enumerate(rng.permutation(lengths)):
        turns = max(2, 2 * round(int(length) / 60))
        each = max(1, int(length) // turns)
        made = []
        for turn in range(turns):
            made.append(Turn(("user", "assistant")[turn % 2], said(rng, each)))
        chats.append(Dialogue(f"chat-{number}", tuple(made)))
    return chats


def shares(count: int) -> Sequence[float]:
    """Labels on [0, 1] that mean nothing."""
    return [float(x) for x in np.random.default_rng(2).random(count)]
