"""Loads a language model from the ``llm`` setting of a judge."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from weakref import WeakValueDictionary

from medal_judges.errors import MissingExtraError
from medal_judges.models.llm.cache import CachedModel
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.llm.settings import VLLMLLM, LLMConfig, TransformersLLM, llm_config
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import ProcessLock, cache_folder

# Judges share a model of this machine: weights are large. A server's client is not shared: it has
# its own limit of cost.
_IN_USE: WeakValueDictionary[str, LanguageModel] = WeakValueDictionary()
_LOADING = ProcessLock()


def load_llm(setting: str | Mapping[str, object] | LLMConfig | LanguageModel) -> LanguageModel:
    """The model that ``setting`` names, see llm_config. A model of this machine that is in use is
    not loaded twice. Raises ConfigError for a wrong setting or a model that cannot be loaded."""
    if isinstance(setting, LanguageModel):
        return setting
    config = llm_config(setting)
    if config.api:
        return _load(config)
    key = config.model_dump_json()
    with _LOADING:
        model = _IN_USE.get(key)
        if model is None:
            model = _IN_USE[key] = _load(config)
    return model


def _load(config: LLMConfig) -> LanguageModel:
    inner: LanguageModel
    folder = Path(config.cache) if isinstance(config.cache, str) else None
    if isinstance(config, TransformersLLM):
        from medal_judges.models.llm.local.model import load_local

        inner = load_local(config)
    elif isinstance(config, VLLMLLM):
        from medal_judges.models.llm.vllm.model import load_vllm

        inner = load_vllm(config)
    else:
        if find_spec("openai") is None:
            raise MissingExtraError("openai", "api", f"llm: openai:{config.model}")
        from medal_judges.models.llm.server.model import RemoteModel

        inner = remote = RemoteModel(config)
        if folder is None and (base := remote.config.base_url):
            # Another server gives other answers under the same model name.
            folder = cache_folder() / "answers" / f"server-{content_hash(base)}"
    return CachedModel(inner, folder) if config.cache is not False else inner
