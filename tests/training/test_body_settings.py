"""Attention, gradient checkpointing and Liger: chosen, recorded, and the same numbers."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from medal_judges.errors import ConfigError
from medal_judges.models.device import set_attention

CPU = torch.device("cpu")


def loss_and_gradients(body: Any) -> tuple[float, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    ids = torch.randint(5, 20, (3, 12))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    body.zero_grad()
    hidden = body.train()(input_ids=ids, attention_mask=mask).last_hidden_state
    loss = (hidden * mask.unsqueeze(-1)).pow(2).mean()
    loss.backward()
    return float(loss.detach()), {
        n: p.grad.clone() for n, p in body.named_parameters() if p.grad is not None
    }


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("family", ["tiny_bert", "tiny_modernbert"])
def test_checkpointing_gives_the_same_loss_and_gradients(
    family: str, reentrant: bool, request: pytest.FixtureRequest
) -> None:
    """Dropout is on: the recomputed pass must draw the same masks."""
    body = AutoModel.from_pretrained(request.getfixturevalue(family))
    torch.manual_seed(1)
    calls: list[int] = []
    layer = body.encoder.layer[0] if hasattr(body, "encoder") else body.layers[0]
    norm = next(m for m in layer.modules() if isinstance(m, torch.nn.LayerNorm))
    norm.register_forward_hook(lambda *_: calls.append(1))
    plain_loss, plain = loss_and_gradients(body)
    assert len(calls) == 1
    body.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        body.enable_input_require_grads()
    loss, gradients = loss_and_gradients(body)
    assert len(calls) == 3, "the layer was not computed again in the backward pass"
    assert loss == plain_loss
    assert gradients.keys() == plain.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain[name], rtol=1e-6, atol=1e-8)


def test_auto_attention_on_a_cpu_is_sdpa_and_eager_gives_the_same(tiny_bert: Path) -> None:
    body = AutoModel.from_pretrained(tiny_bert)
    assert set_attention(body, "auto", CPU, "no") == "sdpa"
    fused, _ = loss_and_gradients(body)
    assert set_attention(body, "eager", CPU, "no") == "eager"
    assert body.config._attn_implementation == "eager"
    torch.manual_seed(0)
    assert loss_and_gradients(body)[0] == pytest.approx(fused, rel=1e-5)


def test_flash_attention_is_refused_in_training_and_replaced_in_scoring(tiny_bert: Path) -> None:
    body = AutoModel.from_pretrained(tiny_bert)
    with pytest.raises(ConfigError, match="flash_attention_2 is not available: it needs a GPU"):
        set_attention(body, "flash_attention_2", CPU, "bf16", strict=True)
    assert set_attention(body, "flash_attention_2", CPU, "bf16") == "sdpa"
    if find_spec("flash_attn") is None:
        with pytest.raises(ConfigError, match="needs the package flash-attn"):
            set_attention(body, "flash_attention_2", torch.device("cuda"), "bf16", strict=True)
