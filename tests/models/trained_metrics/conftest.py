"""Tiny checkpoints of the published architectures, random weights, made here."""

from pathlib import Path
from typing import Any

import pytest

TEXT = """question : response dialogue history fact ? . , Is this a natural in the coherent given an
engaging and informative according to consistent with knowledge understandable music film garden
train bread river I like you do hello Yes No"""
WORDS = TEXT.split()


def word_tokenizer(special: dict[str, str], around: str) -> Any:
    """A tokenizer of whole words; ``around`` is the template of a text and its marks."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    marks = list(dict.fromkeys(special.values()))
    numbers = {word: i for i, word in enumerate([*marks, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=special["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=around, special_tokens=[(mark, numbers[mark]) for mark in marks]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def t5_model() -> Any:
    """A T5 v1.1 of two layers with sharp answers: its head is scaled up."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    size = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = T5Config(
        vocab_size=len(WORDS) + 3, **size, dropout_rate=0.1, pad_token_id=0
    )
    config.eos_token_id, config.decoder_start_token_id = 1, 0
    model = T5ForConditionalGeneration(config)
    with torch.no_grad():
        model.shared.weight.mul_(3)
    return model


@pytest.fixture(scope="session")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "unieval"
    t5_model().save_pretrained(folder)
    marks = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    word_tokenizer(marks, "$A </s>").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from transformers import RobertaConfig, RobertaForSequenceClassification

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "endex"
    marks = {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    word_tokenizer(marks, "<s> $A </s>").save_pretrained(folder)
    config = RobertaConfig(
        vocab_size=len(WORDS) + 4,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=66,
        num_labels=2,
        initializer_range=0.4,
    )
    RobertaForSequenceClassification(config).save_pretrained(folder)
    return folder
