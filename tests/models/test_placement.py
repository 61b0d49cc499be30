"""``device`` and ``dtype`` of judges in YAML: obeyed, or refused."""

import json
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

from medal_judges import Judge
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.device import cast_weights
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.records.dimension import load_rubric

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


def test_members_of_a_hybrid_obey_where_they_have_a_model(tmp_path: Path) -> None:
    path = tmp_path / "both.yaml"
    members = {"a": {"path": CONTRAST}, "b": {"path": LENGTH}}
    settings = {
        "family": "hybrid",
        "name": "both",
        "rubric": "overall",
        "dimensions": {"overall": {"a": 1, "b": 1}},
    }
    path.write_text(json.dumps(settings | {"members": members}))
    options = choose_judge(str(path), dtype="bf16").options
    assert options["members"]["a"]["options"]["llm"]["dtype"] == "bf16"
    assert options["members"]["b"]["options"] == {}
    judge = Judge.from_pretrained(path.as_posix(), dtype="bf16")
    assert judge.signature().dtype == "bfloat16"
    saved = judge.save_pretrained(tmp_path / "saved")
    assert not (saved / "golden.json").exists()  # its members' answers could cost money
    again = Judge.from_pretrained(
        saved, dtype="fp32", device="cpu", a={"llm": "embedded:smollm2"}
    )
    assert again.signature().dtype == "float32"


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


def test_the_heads_of_a_quantised_judge_go_where_its_body_is(tiny_llama: Path) -> None:
    """As on a GPU, where the body is read onto it and the heads are made on the CPU."""
    config = LoraConfig(base=str(tiny_llama), quantize="nf4")
    dimensions = load_rubric("overall")
    made = LoraJudge.create(LoraConfig(base=str(tiny_llama)), dimensions, device="cpu")
    judge = LoraJudge(
        made.net.to("meta"), made.tokenizer, config, made.heads, device="cpu"
    )
    assert {p.device.type for p in judge.net.parameters()} == {"meta"}
    assert judge.device.type == "meta" and judge.dtype == "nf4"
