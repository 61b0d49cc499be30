"""Loads the model of transformers in a judge: a base by its name, or the one saved with a judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.saving import (
    WEIGHTS_NAME,
    read_weights,
    require_enough_weights,
    require_no_differences,
)
from medal_judges.models.device import quiet_loading


def load_pretrained(
    kind: Any,
    path: str,
    config: Any,
    change: Callable[[Any], None],
    **options: Any,
) -> tuple[Any, Any]:
    """Returns the model in ``path`` by the class ``kind`` of transformers, and its tokenizer.

    ``config`` are the judge's settings, with the name and revision of the base; ``change`` edits
    the model's own, ``options`` are those of from_pretrained. Raises JudgeLoadError for a base that
    cannot be loaded, and what ``change`` raises.
    """
    from transformers import AutoConfig, AutoTokenizer

    files = {"revision": config.base_revision, "trust_remote_code": False}
    try:
        settings = AutoConfig.from_pretrained(path, **files)
        change(settings)
        with quiet_loading():
            model = kind.from_pretrained(
                path, config=settings, use_safetensors=True, **files, **options
            )
        tokenizer = AutoTokenizer.from_pretrained(path, **files)
    except (OSError, ValueError) as error:
        raise JudgeLoadError(
            f"cannot load the base {config.base}: {str(error).splitlines()[0]}",
            hint="give a hub id (with a network, or cached), a folder with safetensors weights, "
            "embedded:minilm or embedded:smollm2",
        ) from error
    return model, tokenizer


def load_saved(kind: Any, folder: Path, settings: Any, unused: str = "-") -> Any:
    """Returns the model saved in a judge's ``folder``, in fp32, by the class ``kind`` of
    transformers. ``settings`` are the model's own. Weights whose names begin with ``unused`` may be
    missing.

    Raises JudgeLoadError if weights are missing, are too few for ``settings``, or do not fit them.
    """
    import torch

    def built() -> Any:
        return kind.from_config(settings, trust_remote_code=False)

    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        read_weights(folder / WEIGHTS_NAME)  # says that it is missing
    require_enough_weights(built, *weights, besides=unused)
    with quiet_loading():
        model, report = kind.from_pretrained(
            folder,
            config=settings,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # reported below
            output_loading_info=True,
        )
    # The library draws missing weights at random and ignores others: all must fit.
    require_no_differences(
        folder,
        {
            "missing": [
                key for key in report["missing_keys"] if not key.startswith(unused)
            ],
            "unexpected": report["unexpected_keys"],
            "of another shape": [key for key, *_ in report["mismatched_keys"]],
        },
    )
    return model


def positions_of(settings: Any) -> int | None:
    """Returns how many tokens a model with these ``settings`` can read; None: any number."""
    positions: int | None = getattr(settings, "max_position_embeddings", None)
    if positions is not None and "roberta" in settings.model_type:
        # their positions start after the padding's
        positions -= settings.pad_token_id + 1
    return positions


def check_window(config: Any, settings: Any) -> None:
    """Raises ConfigError if ``max_tokens`` of a judge's ``config`` is above the number of positions
    of its base, whose ``settings`` are given."""
    positions = positions_of(settings)
    if positions is not None and config.max_tokens > positions:
        raise ConfigError(
            f"max_tokens {config.max_tokens} is above the {positions} of {config.base}",
            hint=f"set model.max_tokens to {positions} or less",
        )
