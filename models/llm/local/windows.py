"""What a model's config says of how far its layers see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

# The names under which configs of transformers keep a window, in tokens.
_WINDOWS = (
    *("sliding_window", "attention_window", "attention_window_size"),
    *("attention_chunk_size", "local_attention", "window_size"),
)
_CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_LIMITED = ("sliding", "chunked", "local", "window")


def decoder_config(config: PreTrainedConfig) -> Any:
    """The part of ``config`` that is of the text decoder (models that also see have several)."""
    return config.get_text_config(decoder=True)


def context_of(config: PreTrainedConfig) -> int | None:
    """Tokens that the model's positions reach; None where its config sets no bound."""
    own = decoder_config(config)
    sizes = (getattr(own, name, None) for name in _CONTEXTS)
    return next((int(n) for n in sizes if isinstance(n, int) and n > 0), None)


def smallest_window(config: PreTrainedConfig) -> int | None:
    """The shortest window of any layer, in tokens; None where every layer sees all before it."""
    own = decoder_config(config)
    kinds = layer_kinds(own)
    if kinds is not None and not any(word in kind for kind in kinds for word in _LIMITED):
        return None
    if kinds is None and not getattr(own, "use_sliding_window", True):
        return None
    sizes = (getattr(own, name, None) for name in _WINDOWS)
    return min((n for n in sizes if isinstance(n, int) and n > 0), default=None)


def attends_to_all(config: PreTrainedConfig) -> bool:
    """Whether every layer of a model attends to all that stands before: a tree mask needs that.

    Sliding windows, chunks and recurrent layers do not.
    """
    own = decoder_config(config)
    kinds = layer_kinds(own)
    if kinds is not None and any(kind not in ("full_attention", "global") for kind in kinds):
        return False
    recurrent = any(word in own.model_type for word in ("mamba", "rwkv", "jamba", "zamba"))
    return smallest_window(config) is None and not recurrent


def layer_kinds(config: PreTrainedConfig) -> list[str] | None:
    """The kind of each layer by its config's own words; None where it does not tell."""
    # GPT-Neo, the oldest of them, calls the list otherwise.
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    return None if kinds is None else [str(kind) for kind in kinds]
