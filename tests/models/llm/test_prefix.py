"""Shared-prefix likelihoods against the plain loop and against a hand-made chain of softmaxes."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.local.likelihood import score_as_tree, score_one_by_one


def tiny(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config).eval()


def random_group(
    rng: np.random.Generator, *, trunk: int, branches: int
) -> list[TokenSequence]:
    """Sequences that leave a trunk at random places, some with a common beginning after it."""
    spine = rng.integers(1, 97, trunk)
    found = []
    for _ in range(branches):
        at = int(rng.integers(1, trunk + 1))
        # few words: branches share beginnings
        own = rng.integers(1, 5, int(rng.integers(1, 9)))
        lead = int(rng.integers(0, len(own)))
        ids = tuple(int(t) for t in (*spine[:at], *own))
        found.append(TokenSequence(ids, at + lead))
    return found


@pytest.mark.parametrize("limit", [1, 16, 512])
@pytest.mark.parametrize("seed", range(4))
def test_same_numbers_as_the_plain_loop(seed: int, limit: int) -> None:
    model = tiny(seed)
    group = random_group(np.random.default_rng(seed), trunk=60, branches=25)
    shared, shared_prefix = score_as_tree(model, group, joint=True, limit=limit)
    plain, plain_prefix = score_one_by_one(model, group, joint=True)
    for ours, theirs in zip(shared, plain, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    np.testing.assert_allclose(shared_prefix, plain_prefix, atol=1e-3)


@pytest.mark.parametrize("limit", [1, 16, 512])
@pytest.mark.parametrize("kinds", ["every layer", "every second"])
def test_a_window_shorter_than_the_text_is_kept_to(kinds: str, limit: int) -> None:
    """Branches leave the trunk anywhere: what their window reaches was passed long before."""
    torch.manual_seed(0)
    settings = {
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "sliding_window": 7,
        "initializer_range": 0.3,
        "head_dim": 8,
    }
    layers = ["sliding_attention", "full_attention", "sliding_attention"]
    model: Any = (
        MistralForCausalLM(MistralConfig(**settings))
        if kinds == "every layer"
        else Gemma3ForCausalLM(Gemma3TextConfig(**settings, layer_types=layers))
    ).eval()
    group = random_group(np.random.default_rng(3), trunk=60, branches=25)
    shared, shared_prefix = score_as_tree(model, group, joint=True, limit=limit)
    plain, plain_prefix = score_one_by_one(model, group, joint=True)
    np.testing.assert_allclose(np.concatenate(shared), np.concatenate(plain), atol=1e-4)
    np.testing.assert_allclose(shared_prefix, plain_prefix, atol=1e-3)
    model.config.sliding_window = (
        60  # the numbers are of the window, not of all that was read
    )
    assert (
        np.abs(
            np.concatenate(score_one_by_one(model, group)[0]) - np.concatenate(plain)
        ).max()
        > 1
    )
