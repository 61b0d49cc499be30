"""What a model's config says about how far its layers see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

# The names of a window, in tokens, and of the context in configs of transformers.
_WINDOWS = (
    *("sliding_window", "attention_window", "attention_window_size"),
    *("attention_chunk_size", "local_attention", "window_size"),
)
_CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_LIMITED = ("sliding", "chunked", "local", "window")
_RECURRENT = ("mamba", "rwkv", "jamba", "zamba")
_FULL, _SLIDING = "full_attention", "sliding_attention"


def decoder_config(config: PreTrainedConfig) -> Any:
    """The part of ``config`` about the text decoder (multimodal models have several)."""
    return config.get_text_config(decoder=True)


def context_of(config: PreTrainedConfig) -> int | None:
    """The number of positions that the model has; None if its config sets no bound."""
    own = decoder_config(config)
    sizes = (getattr(own, name, None) for name in _CONTEXTS)
    return next((int(n) for n in sizes if isinstance(n, int) and n > 0), None)


def layer_kinds(config: PreTrainedConfig) -> list[str] | None:
    """The kind of each layer in the config's own words; None if it does not say."""
    # GPT-Neo, the oldest of them, has another name for the list.
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    return None if kinds is None else [str(kind) for kind in kinds]


def smallest_window(config: PreTrainedConfig) -> int | None:
    """The shortest window of any layer, in tokens; None if every layer sees all tokens before."""
    own = decoder_config(config)
    kinds = layer_kinds(own)
    if kinds is not None and not any(word in kind for kind in kinds for word in _LIMITED):
        return None
    if kinds is None and not getattr(own, "use_sliding_window", True):
        return None
    sizes = (getattr(own, name, None) for name in _WINDOWS)
    return min((n for n in sizes if isinstance(n, int) and n > 0), default=None)


def attends_to_all(config: PreTrainedConfig) -> bool:
    """Whether every layer attends to all tokens before: no windows, chunks or recurrent layers."""
    own = decoder_config(config)
    kinds = layer_kinds(own)
    if kinds is not None and any(kind not in ("full_attention", "global") for kind in kinds):
        return False
    return smallest_window(config) is None and not _keeps_state(own)


def scales_positions(config: PreTrainedConfig) -> bool:
    """Whether positions depend on the length of the whole text."""
    rope = getattr(decoder_config(config), "rope_parameters", None) or {}
    each = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    return any(one.get("rope_type") in ("dynamic", "longrope") for one in each)


def tree_windows(config: PreTrainedConfig) -> Mapping[str, int | None] | None:
    """How many tokens back each kind of layer sees, itself included (None: all before it). None for
    the whole model if a layer sees in a way that no mask expresses (chunks, a recurrent state)."""
    if attends_to_all(config):
        return {_FULL: None}
    own = decoder_config(config)
    window, kinds = getattr(own, "sliding_window", None), layer_kinds(own)
    if not isinstance(window, int) or window != smallest_window(config) or _keeps_state(own):
        return None
    sizes = {_FULL: None, _SLIDING: window}
    kinds = [_SLIDING] if kinds is None else kinds
    return {kind: sizes[kind] for kind in kinds} if {*kinds} <= {*sizes} else None


@contextmanager
def narrowed(config: PreTrainedConfig, window: int) -> Iterator[None]:
    """Limits the sliding window to ``window`` tokens inside the context, so that a short text fills
    it: masks and caches read the config at each pass."""
    own = decoder_config(config)
    size = getattr(own, "sliding_window", None)
    if not isinstance(size, int) or size <= window:
        yield
        return
    own.sliding_window = window
    try:
        yield
    finally:
        own.sliding_window = size


def _keeps_state(own: Any) -> bool:
    return any(word in own.model_type for word in _RECURRENT)
