"""Networks in 16 bits are those that transformers loads in 16 bits."""

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModel, ModernBertConfig, ModernBertModel, Qwen3Config, Qwen3Model

from medal_judges.models.device import cast_weights
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.lora.judge import LoraJudge, LoraNet
from medal_judges.records.dimension import load_rubric

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
    return Qwen3Model(Qwen3Config(**SIZE, **MARKS, num_key_value_heads=1, head_dim=32)).eval()


@pytest.mark.parametrize("family", ["modernbert", "qwen3"])
def test_bf16_weights_read_as_those_that_transformers_loads(family: str, tmp_path: Path) -> None:
    """``Module.to`` rounds the rotary frequencies too: at place 1,500 that is another model."""
    rotary_model(family).save_pretrained(tmp_path)
    oracle = AutoModel.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    ours, rounded = rotary_model(family), rotary_model(family).to(torch.bfloat16)
    cast_weights(ours, torch.bfloat16)
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    ids = torch.randint(5, 99, (1, 1500), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        wanted = oracle(input_ids=ids).last_hidden_state
        torch.testing.assert_close(ours(input_ids=ids).last_hidden_state, wanted, rtol=0, atol=0)
        other = rounded(input_ids=ids).last_hidden_state
    assert not torch.equal(other, wanted)


def test_the_heads_of_a_quantised_judge_go_where_its_body_is(tiny_llama: Path) -> None:
    """As on a GPU, where the body is read onto it and the heads are made on the CPU."""
    config = LoraConfig(base=str(tiny_llama), quantize="nf4")
    dimensions = load_rubric("overall")
    made = LoraJudge.create(LoraConfig(base=str(tiny_llama)), dimensions, device="cpu")
    net = LoraNet(made.net.body.to("meta"), config, dimensions)
    judge = LoraJudge(net, made.tokenizer, config, dimensions, device="cpu")
    assert {p.device.type for p in judge.net.parameters()} == {"meta"}
    assert judge.device.type == "meta" and judge.dtype == "nf4"
