"""Fixtures shared by all rooms: a tiny encoder, made here, no hub needed."""

from pathlib import Path

import pytest

WORDS = [
    "music",
    "film",
    "garden",
    "train",
    "bread",
    "river",
    "winter",
    "coffee",
    "book",
    "friend",
    "holiday",
    "city",
]


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers and 32 dimensions with a word tokenizer, as any hub encoder is saved."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "user", "assistant", ":", *WORDS]
    words = models.WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]")
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.1,
    )
    folder = tmp_path_factory.mktemp("models") / "tiny"
    BertModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
