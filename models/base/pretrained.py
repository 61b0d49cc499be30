"""Loads the base of a judge that is fine-tuned: a model of transformers and its tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from medal_judges.errors import JudgeLoadError
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
