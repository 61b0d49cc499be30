"""Small random models of the architectures that transformers has, made on the spot (no hub).

Weights are drawn wide, so that a fault shows as more than 0.1 nats, and windows are shorter than
what the checks read.
"""

from typing import Any

WINDOW = 16
_MARKS = ("<pad>", "<s>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_tokenizer(template: str | None = TEMPLATE) -> Any:
    """Bytes as tokens and four marks: 260 ids."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(
        models.BPE({c: i for i, c in enumerate([*_MARKS, *letters])}, merges=[])
    )
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = template
    return tokenizer


_COMMON: dict[str, Any] = {
    "vocab_size": 260,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "initializer_range": 0.15,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 3,
}
_EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
_SLIDING = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"],
}

# name -> (model_type of transformers, settings beside _COMMON; None takes one of those away)
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 8}),
    "qwen3-moe": (
        "qwen3_moe",
        {"head_dim": 8, "moe_intermediate_size": 16, **_EXPERTS},
    ),
    "mistral": ("mistral", {"sliding_window": WINDOW}),
    "gemma2": ("gemma2", {"head_dim": 8, "final_logit_softcapping": 3.0, **_SLIDING}),
    "gemma3": ("gemma3_text", {"head_dim": 8, **_SLIDING}),
    "phi3": ("phi3", {}),
    "granite": ("granite", {"logits_scaling": 6.0}),
    "granitemoe": ("granitemoe", {"logits_scaling": 6.0, **_EXPERTS}),
    "cohere": ("cohere", {"logit_scale": 0.25}),
    "cohere2": ("cohere2", {"logit_scale": 0.25, **_SLIDING}),
    "mpt": ("mpt", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 2048}),
    "gpt2": ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 2048}),
    "gpt-neox": ("gpt_neox", {}),
    "gptj": (
        "gptj",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 2048},
    ),
    "opt": ("opt", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "olmo": ("olmo", {}),
    "olmo2": ("olmo2", {}),
    "smollm3": ("smollm3", {"no_rope_layers": [1, 0]}),
    "gpt-oss": ("gpt_oss", {"head_dim": 8, **_SLIDING, **_EXPERTS}),
    "mamba": ("mamba", {"state_size": 8}),
    "deepseek-v3": (
        "deepseek_v3",
        {
            "num_key_value_heads": 4,
            "q_lora_rank": 16,
            "kv_lora_rank": 8,
            "qk_nope_head_dim": 8,
        }
        | {"qk_rope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "n_group": 1}
        | {"topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
        | {"first_k_dense_replace": 1},
    ),
    "llama4": (
        "llama4_text",
        {
            "head_dim": 8,
            "intermediate_size_mlp": 48,
            "attention_chunk_size": WINDOW,
            **_EXPERTS,
        }
        | {"layer_types": ["chunked_attention", "full_attention"]},
    ),
}

# For FULL: an encoder reads the dialogue.
ENCODER_DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "blenderbot": ("blenderbot", {"init_std": 0.15}),
    "bart": ("bart", {"init_std": 0.15, "forced_bos_token_id": None}),
    "t5": (
        "t5",
        {
            "d_kv": 8,
            "num_layers": 2,
            "num_decoder_layers": 2,
            "initializer_factor": 3.0,
        },
    ),
}
_ENCODER = {
    "d_model": 32,
    "d_ff": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "decoder_start_token_id": 1,
}


def ending_tokenizer() -> Any:
    """As those of encoder-decoders: no chat template, and an end token behind each text."""
    from tokenizers import processors

    tokenizer = tiny_tokenizer(None)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|im_end|>", special_tokens=[("<|im_end|>", 3)]
    )
    return tokenizer


def tiny_encoder_decoder(name: str, seed: int = 0) -> Any:
    """The encoder-decoder ``name`` with random weights, fp32, for reading only."""
    import torch
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    kind, own = ENCODER_DECODERS[name]
    torch.manual_seed(seed)
    ids = {
        k: _COMMON[k]
        for k in ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id")
    }
    config = AutoConfig.for_model(
        kind,
        **{**ids, "max_position_embeddings": 512, "num_heads": 4, **_ENCODER, **own},
    )
    return AutoModelForSeq2SeqLM.from_config(config).eval().float()


def tiny_model(name: str, seed: int = 0) -> Any:
    """The architecture ``name`` with random weights, fp32, for reading only."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kind, own = ARCHITECTURES[name]
    settings = {k: v for k, v in {**_COMMON, **own}.items() if v is not None}
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **settings)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # fresh, padding is all zeros, and hides what reads it
        model.get_input_embeddings().weight[0].normal_(std=0.15)
    return model.float()
