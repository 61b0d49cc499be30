"""Loads networks of transformers: a base model by its name, or the network saved with a judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.safe_folder import ARCHITECTURES
from medal_judges.models.base.saving import (
    WEIGHTS_NAME,
    read_weights,
    require_enough_weights,
    require_no_differences,
)
from medal_judges.models.device import quiet_loading

Change = Callable[[Any], None]  # edits the settings of a network


def load_base_model(
    kind: Any, path: str, config: Any, change: Change, **options: Any
) -> tuple[Any, Any]:
    """Loads a base model (a pretrained network, on which a judge is built) and its tokenizer.

    Args:
        kind: The class of transformers that loads the network, such as ``AutoModel``.
        path: The model's folder or Hub id.
        config: The judge's settings. Read are ``base_revision`` (the branch, tag or commit to load)
            and ``base`` (the model's name in error messages).
        change: A function that is called with transformers' config of the model before the network
            is built. It may edit the config.
        options: Further arguments of ``kind.from_pretrained``.

    Returns:
        (network, tokenizer).

    Raises:
        JudgeLoadError: The base model cannot be loaded.
    """
    try:
        network, tokenizer, _ = load_with_tokenizer(
            kind, path, change, revision=config.base_revision, **options
        )
    except (OSError, ValueError) as error:
        raise JudgeLoadError(
            f"cannot load the base {config.base}: {str(error).splitlines()[0]}",
            hint="Give a Hub id (with a network, or cached), a folder with safetensors weights, "
            "embedded:minilm or embedded:smollm2",
        ) from error
    return network, tokenizer


def load_saved_model(kind: Any, folder: Path, change: Change) -> tuple[Any, Any]:
    """Loads the network (in fp32) and the tokenizer that are saved in a judge's ``folder``.

    Args:
        kind: The class of transformers that loads the network, such as ``AutoModel``.
        change: A function that is called with transformers' config of the network before the
            network is built. It may edit the config, or raise an error to refuse it.

    Returns:
        (network, tokenizer).

    Raises:
        JudgeLoadError: Weights are missing or do not fit the config, or the tokenizer has ids
            beyond the network's vocabulary.
    """
    import torch

    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        read_weights(folder / WEIGHTS_NAME)  # says that it is missing

    def check(settings: Any) -> None:
        change(settings)
        require_enough_weights(
            lambda: kind.from_config(settings, trust_remote_code=False), *weights
        )

    network, tokenizer, report = load_with_tokenizer(
        kind,
        str(folder),
        check,
        dtype=torch.float32,
        ignore_mismatched_sizes=True,  # reported below
    )
    # The library draws missing weights at random and ignores others: all must fit.
    differences = {
        "missing": report["missing_keys"],
        "unexpected": report["unexpected_keys"],
        "of another shape": [key for key, *_ in report["mismatched_keys"]],
    }
    require_no_differences(folder, differences)
    require_known_ids(network, tokenizer, folder)
    return network, tokenizer


def require_known_ids(network: Any, tokenizer: Any, folder: Path) -> None:
    """Raises JudgeLoadError if ``tokenizer`` has ids beyond the vocabulary of ``network``.

    Args:
        folder: The judge's folder, for the error message.
    """
    highest = max([*tokenizer.get_vocab().values(), *tokenizer("a").input_ids])
    if highest >= network.get_input_embeddings().num_embeddings:
        raise JudgeLoadError(
            f"{folder}: its tokenizer has the id {highest}, which is beyond the network's "
            "vocabulary",
            hint="Copy or download the whole folder again",
        )


def load_with_tokenizer(
    kind: Any,
    path: str,
    change: Change,
    *,
    revision: str | None = None,
    tokenizer: str | None = None,
    **options: Any,
) -> tuple[Any, Any, Any]:
    """Loads a network of transformers and its tokenizer. Errors of transformers are not caught.

    Args:
        kind: The class of transformers that loads the network, such as ``AutoModel``.
        path: The folder or Hub id of the network.
        change: A function that is called with transformers' config of the network before the
            network is built. It may edit the config.
        revision: The branch, tag or commit of the Hub id. None is main.
        tokenizer: The folder or Hub id of the tokenizer. None is ``path``.
        options: Further arguments of ``kind.from_pretrained``.

    Returns:
        (network, tokenizer, report). The report lists weights that do not fit the network, under
        ``missing_keys``, ``unexpected_keys`` and ``mismatched_keys``.
    """
    from transformers import AutoConfig, AutoTokenizer

    files = {"revision": revision, "trust_remote_code": False}
    settings = AutoConfig.from_pretrained(path, **files)
    change(settings)
    with quiet_loading():
        network, report = kind.from_pretrained(
            path,
            config=settings,
            use_safetensors=True,
            output_loading_info=True,
            **files,
            **options,
        )
    if tokenizer is not None:
        path, files["revision"] = tokenizer, None
    return network, AutoTokenizer.from_pretrained(path, **files), report


def max_positions(settings: Any) -> int | None:
    """Returns the maximum number of tokens that a network can read, or None if there is no limit.

    Args:
        settings: transformers' config of the network.
    """
    positions: int | None = getattr(settings, "max_position_embeddings", None)
    if positions is not None and "roberta" in settings.model_type:
        # their positions start after the padding's
        positions -= settings.pad_token_id + 1
    return positions


def adapt_and_check_base(config: Any, settings: Any) -> None:
    """Checks that a judge can be built on a base model, and sets the attention dropout of
    the model to 0.

    Args:
        config: The judge's settings, with ``base`` (the model's name) and ``max_tokens``.
        settings: transformers' config of the base model, which is edited in place.

    Raises:
        ConfigError: The architecture is not supported, or ``config.max_tokens`` is more than the
            base model can read.
    """
    if settings.model_type not in ARCHITECTURES:
        raise ConfigError(
            f"{config.base} is a {settings.model_type}, which no judge can be trained on",
            hint=f"Use one of: {', '.join(ARCHITECTURES)}",
        )
    # Attention with dropout is 4 times slower on a CPU.
    for dropout in ("attention_probs_dropout_prob", "attention_dropout"):
        if hasattr(settings, dropout):
            setattr(settings, dropout, 0.0)
    positions = max_positions(settings)
    if positions is not None and config.max_tokens > positions:
        raise ConfigError(
            f"max_tokens {config.max_tokens} is above the {positions} of {config.base}",
            hint=f"Set model.max_tokens to {positions} or less",
        )
