"""How far a model's layers see, by its config."""

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


def _kinds(own: Any) -> list[str] | None:
    """The kind of each layer in the config's own words; None if it does not say."""
    # GPT-Neo, the oldest of them, has another name for the list.
    kinds = getattr(own, "layer_types", None) or getattr(own, "attention_layers", None)
    return None if kinds is None else [str(kind) for kind in kinds]


def smallest_window(config: PreTrainedConfig) -> int | None:
    """The shortest window of any layer, in tokens; None if every layer sees all tokens before."""
    own = decoder_config(config)
    kinds, limited = _kinds(own), ("sliding", "chunked", "local", "window")
    if kinds is not None and not any(word in kind for kind in kinds for word in limited):
        return None
    if kinds is None and not getattr(own, "use_sliding_window", True):
        return None
    sizes = (getattr(own, name, None) for name in _WINDOWS)
    return min((n for n in sizes if isinstance(n, int) and n > 0), default=None)


def tree_windows(config: PreTrainedConfig) -> Mapping[str, int | None] | None:
    """How many tokens back each kind of layer sees, itself included (None: all before it). None for
    the whole model if a layer sees in a way that no mask expresses (chunks, a recurrent state)."""
    own = decoder_config(config)
    window, kinds = smallest_window(config), _kinds(own)
    if any(word in own.model_type for word in _RECURRENT):
        return None
    if window is None and {*(kinds or ())} <= {_FULL, "global"}:
        return {_FULL: None}
    if window is None or window != getattr(own, "sliding_window", None):
        return None
    sizes = {_FULL: None, _SLIDING: window}
    kinds = [_SLIDING] if kinds is None else kinds
    return {kind: sizes[kind] for kind in kinds} if {*kinds} <= {*sizes} else None


def scales_positions(config: PreTrainedConfig) -> bool:
    """Whether positions depend on the length of the whole text."""
    rope = getattr(decoder_config(config), "rope_parameters", None) or {}
    each = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    return any(one.get("rope_type") in ("dynamic", "longrope") for one in each)


@contextmanager
def narrowed(config: PreTrainedConfig, window: int) -> Iterator[None]:
    """Limits the sliding window to ``window`` tokens inside the context, so that a short text fills
    it: masks and caches read the config at each pass."""
    own = decoder_config(config)
    size = getattr(own, "sliding_window", None)
    narrow = isinstance(size, int) and size > window
    if narrow:
        own.sliding_window = window
    try:
        yield
    finally:
        if narrow:
            own.sliding_window = size
