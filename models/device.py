"""The device, the precision and the attention of a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from medal_judges.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from torch import nn

Device: TypeAlias = "str | torch.device | None"  # None: the GPU if there is one
Dtype = Literal["fp32", "bf16", "fp16"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
CPU_BATCH_TOKENS = 2048


def torch_device(device: Device) -> torch.device:
    """Returns ``device`` as a torch.device.

    Args:
        device: The name of a device, such as ``cpu`` or ``cuda:1``. None is the GPU if there is
            one, otherwise the CPU.

    Raises:
        ConfigError: This machine does not have the device.
    """
    import torch

    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError) as error:
        # AssertionError: torch without CUDA asserts that it has it.
        raise ConfigError(
            f"no device {str(device)!r} here. Type --device cpu: {error}"
        ) from error
    return chosen


def max_batch_tokens(device: torch.device) -> int:
    """Returns the maximum number of tokens in a batch on ``device``. Padding counts.

    It is 2,048 on a CPU. On a GPU it is 1,024 per GiB of memory, and at least 2,048.
    """
    if device.type != "cuda":
        return CPU_BATCH_TOKENS
    import torch

    gibibytes = torch.cuda.get_device_properties(device).total_memory // 2**30
    return max(CPU_BATCH_TOKENS, 1024 * gibibytes)


def torch_dtype(name: str) -> torch.dtype:
    """Returns torch's dtype for ``name``: ``fp32``, ``bf16`` or ``fp16``.

    Raises:
        ConfigError: The name is none of these three.
    """
    import torch

    if name not in DTYPES:
        raise ConfigError(f"dtype {name!r}: expected one of {', '.join(DTYPES)}")
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


def cast_weights(network: nn.Module, dtype: torch.dtype) -> None:
    """Casts the floating-point weights of ``network`` to ``dtype`` in place.

    Unlike ``Module.to``, it does not cast the frequencies of rotary position embeddings.
    """
    import torch

    for module in network.modules():
        for parameter in module.parameters(recurse=False):
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype)
        for name, buffer in module.named_buffers(recurse=False):
            # In bf16 position 2,000 would be rotated by another angle than in training.
            if not name.endswith("inv_freq") and torch.is_floating_point(buffer):
                setattr(module, name, buffer.to(dtype))


def set_fastest_attention(
    body: nn.Module, device: torch.device, precision: str
) -> None:
    """Sets the fastest attention implementation that a model supports: flash attention, sdpa
    (PyTorch's ``scaled_dot_product_attention``) or eager (no fused kernel).

    Flash attention needs a GPU, the package flash_attn, and ``bf16`` or ``fp16``.

    Args:
        body: A model of transformers or PEFT.
        device: The device of the model.
        precision: The dtype of the model: ``fp32``, ``bf16`` or ``fp16``.
    """
    model: Any = body.get_base_model() if hasattr(body, "get_base_model") else body  # type: ignore[operator]
    has_flash = device.type == "cuda" and find_spec("flash_attn") is not None
    chosen = "eager"
    if getattr(model, "_supports_sdpa", False):
        chosen = "sdpa"
    if (
        has_flash
        and precision != "fp32"
        and getattr(model, "_supports_flash_attn", False)
    ):
        chosen = "flash_attention_2"
    model.set_attn_implementation(chosen)


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Silences the warnings and progress bars of transformers inside the ``with`` block.

    The progress bars stay off after the block.
    """
    from transformers.utils import logging as transformers_logging

    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
