"""``device`` and ``dtype`` of judges in YAML: obeyed, or refused."""

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import (
    AutoModel,
    ModernBertConfig,
    ModernBertModel,
    Qwen3Config,
    Qwen3Model,
)

from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.device import cast_weights

CONTRAST, LENGTH = "configs/judges/contrast.yaml", "configs/judges/length.yaml"


def test_a_judge_with_a_model_of_its_own_obeys() -> None:
    assert choose_judge(
        CONTRAST, ["answers=2"], device="cuda:1", dtype="bf16"
    ).options == {
        "answers": 2,
        "llm": {"model": "embedded:smollm2", "device": "cuda:1", "dtype": "bf16"},
    }
    given = ["llm.model=org/name", "llm.dtype=fp16"]
    assert choose_judge(CONTRAST, given, device="cpu").options["llm"] == {
        "model": "org/name",
        "dtype": "fp16",
        "device": "cpu",
    }
    assert choose_judge(CONTRAST).options == {}
    own = "configs/judges/unieval.yaml"
    assert choose_judge(own, device="cpu", dtype="bf16").options == {
        "device": "cpu",
        "dtype": "bf16",
    }


MARKS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
SIZE = {
    "vocab_size": 100,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


def rotary_model(family: str) -> nn.Module:
    """A model of random weights whose positions are rotary."""
    torch.manual_seed(0)
    if family == "modernbert":
        config = ModernBertConfig(**SIZE, **MARKS, cls_token_id=2, sep_token_id=3)
        return ModernBertModel(config).eval()
    return Qwen3Model(
        Qwen3Config(**SIZE, **MARKS, num_key_value_heads=1, head_dim=32)
    ).eval()


@pytest.mark.parametrize("family", ["modernbert", "qwen3"])
def test_bf16_weights_read_as_those_that_transformers_loads(
    family: str, tmp_path: Path
) -> None:
    """``Module.to`` rounds the rotary frequencies too: at place 1,500 that is another model."""
    rotary_model(family).save_pretrained(tmp_path)
    oracle = AutoModel.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    ours, rounded = rotary_model(family), rotary_model(family).to(torch.bfloat16)
    cast_weights(ours, torch.bfloat16)
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    ids = torch.randint(5, 99, (1, 1500), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        wanted = oracle(input_ids=ids).last_hidden_state
        found = ours(input_ids=ids).last_hidden_state
        other = rounded(input_ids=ids).last_hidden_state
    distance = float((found - wanted).float().abs().mean())
    assert distance < 0.1 * float((other - wanted).float().abs().mean())
