"""From the ``llm`` setting of a judge to a language model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from medal_judges.models.llm.cache import CachedModel
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.llm.settings import OpenAILLM, TransformersLLM, llm_config

# Judges that speak through one model share it: weights are large.
_IN_USE: WeakValueDictionary[str, LanguageModel] = WeakValueDictionary()


def load_llm(setting: str | Mapping[str, Any] | LanguageModel) -> LanguageModel:
    """The model that ``setting`` names; see llm_config for what it may say.

    A model that is in use is not loaded a second time. Raises ConfigError for a setting that is
    wrong, and for a model that cannot be loaded.
    """
    if isinstance(setting, LanguageModel):
        return setting
    key = json.dumps(setting, sort_keys=True, default=str)
    model = _IN_USE.get(key)
    if model is None:
        model = _IN_USE[key] = _load(setting)
    return model


def _load(setting: str | Mapping[str, Any]) -> LanguageModel:
    config = llm_config(setting)
    if isinstance(config, OpenAILLM):  # keeps answers by itself, before its price is counted
        from medal_judges.models.llm.server.loading import load_openai

        return load_openai(config)
    # What is not set is left to the loader, whose defaults they are.
    options = config.model_dump(exclude={"backend", "model", "cache"}, exclude_unset=True)
    inner: LanguageModel
    if isinstance(config, TransformersLLM):
        from medal_judges.models.llm.local.model import load_local

        inner = load_local(config.model, **options)
    else:
        from medal_judges.models.llm.vllm.model import load_vllm

        inner = load_vllm(config.model, **options)
    cache = config.cache
    return CachedModel(inner, None if cache is True else Path(cache)) if cache else inner
