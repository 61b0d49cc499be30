"""Which attention a body computes with: flash where it can, else torch's fused one (sdpa)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

import torch

from medal_judges.errors import ConfigError

Attention = Literal["auto", "sdpa", "eager", "flash_attention_2"]


def set_attention(
    body: Any, wanted: Attention, device: torch.device, precision: str, *, strict: bool = False
) -> str:
    """Set the attention of ``body`` (a transformers model, or PEFT's around one); returns its name.

    ``auto`` is flash attention where its package, a GPU and a 16-bit ``precision`` (``bf16``,
    ``fp16``) are there, else sdpa, else eager. What cannot be had is replaced as ``auto`` would:
    a judge trained on a GPU has to score on a CPU. With ``strict`` it is a ConfigError instead.
    """
    model = body.get_base_model() if hasattr(body, "get_base_model") else body
    missing = {
        "flash_attention_2": _no_flash(model, device, precision),
        "sdpa": None if getattr(model, "_supports_sdpa", False) else "the model does not have it",
        "eager": None,
    }
    if strict and wanted != "auto" and (reason := missing[wanted]):
        raise ConfigError(
            f"model.attention: {wanted} is not to be had: {reason}",
            hint="set model.attention: auto",
        )
    chosen: str = wanted
    if wanted == "auto" or missing[wanted]:
        chosen = next(name for name, reason in missing.items() if reason is None)
    if getattr(model.config, "_attn_implementation", None) != chosen:
        model.set_attn_implementation(chosen)
    return chosen


def _no_flash(model: Any, device: torch.device, precision: str) -> str | None:
    """Why flash attention is not to be had; None where it is."""
    if device.type != "cuda":
        return "it needs a GPU"
    if find_spec("flash_attn") is None:
        return "it needs the package flash-attn (pip install flash-attn --no-build-isolation)"
    if precision not in ("bf16", "fp16"):
        return f"it computes in bf16 or fp16, and the precision here is {precision}"
    if not getattr(model, "_supports_flash_attn", False):
        return "the model does not have it"
    return None
