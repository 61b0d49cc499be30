"""Where a network computes, in which precision, and with which attention."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, get_args

from medal_judges.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from torch import nn

Dtype = Literal["fp32", "bf16", "fp16"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
Attention = Literal["auto", "sdpa", "eager", "flash_attention_2"]


def torch_device(device: str | torch.device | None) -> torch.device:
    """``device``; None is the GPU where there is one, else the CPU."""
    import torch

    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def torch_dtype(name: str) -> torch.dtype:
    """torch's type of ``name``. Raises ConfigError for any other than fp32, bf16 and fp16."""
    import torch

    if name not in DTYPES:
        raise ConfigError(f"dtype {name!r} is not one of {', '.join(DTYPES)}")
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


def cast_weights(network: nn.Module, dtype: torch.dtype) -> None:
    """Put the weights of ``network`` into ``dtype``, in place, as transformers loads them in it.

    The frequencies of rotary positions stay as they are: ``Module.to`` would round them too, and
    in bf16 a position of 2,000 is then turned by other angles than the model has learnt.
    """
    import torch

    for module in network.modules():
        for parameter in module.parameters(recurse=False):
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype)
        for name, buffer in module.named_buffers(recurse=False):
            if not name.endswith("inv_freq") and torch.is_floating_point(buffer):
                setattr(module, name, buffer.to(dtype))


def set_attention(
    body: nn.Module,
    wanted: Attention,
    device: torch.device,
    precision: str,
    *,
    strict: bool = False,
) -> str:
    """Set the attention of ``body`` (a transformers model, or PEFT's around one); returns its name.

    ``auto`` is flash attention where its package, a GPU and a 16-bit ``precision`` (``bf16``,
    ``fp16``) are there, else sdpa, else eager. What is not available is replaced as ``auto`` would:
    a judge trained on a GPU has to score on a CPU. With ``strict`` it is a ConfigError instead.
    """
    base: Callable[[], nn.Module] | None = getattr(body, "get_base_model", None)
    model: Any = body if base is None else base()
    missing = {
        "flash_attention_2": _no_flash(model, device, precision),
        "sdpa": None if getattr(model, "_supports_sdpa", False) else "the model does not have it",
        "eager": None,
    }
    if strict and wanted != "auto" and (reason := missing[wanted]):
        raise ConfigError(
            f"model.attention: {wanted} is not available: {reason}",
            hint="set model.attention: auto",
        )
    chosen: str = wanted
    if wanted == "auto" or missing[wanted]:
        chosen = next(name for name, reason in missing.items() if reason is None)
    if getattr(model.config, "_attn_implementation", None) != chosen:
        model.set_attn_implementation(chosen)
    return chosen


def _no_flash(model: nn.Module, device: torch.device, precision: str) -> str | None:
    """Why flash attention is not available; None where it is."""
    if device.type != "cuda":
        return "it needs a GPU"
    if find_spec("flash_attn") is None:
        return "it needs the package flash-attn (pip install flash-attn --no-build-isolation)"
    if precision not in ("bf16", "fp16"):
        return f"it computes in bf16 or fp16, and the precision here is {precision}"
    if not getattr(model, "_supports_flash_attn", False):
        return "the model does not have it"
    return None
