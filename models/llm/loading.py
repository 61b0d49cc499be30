"""Loads the model that an ``llm`` setting names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from medal_judges.errors import MissingExtraError
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.llm.settings import (
    LLMConfig,
    OpenAILLM,
    TransformersLLM,
    VllmLLM,
    llm_config,
)
from medal_judges.storage.files import PicklableLock

if TYPE_CHECKING:
    from medal_judges.models.llm.server import RemoteModel

# Judges share a model of this machine: weights are large. A server's client is not shared: it has
# its own limit of cost.
_IN_USE: WeakValueDictionary[str, LanguageModel] = WeakValueDictionary()
_LOADING = PicklableLock()


def load_llm(
    setting: str | Mapping[str, object] | LLMConfig | LanguageModel,
) -> LanguageModel:
    """Returns the language model that ``setting`` names. If it runs on this machine, calls with
    equal settings return the same model.

    Args:
        setting: A name such as ``openai:gpt-4.1-mini``, a mapping such as ``{"model":
            "openai:gpt-4.1-mini", "timeout": 60}``, or a loaded model, which is returned.

    Raises:
        ConfigError: The setting is wrong.
        NotAvailableError: The model cannot be loaded.
        MissingExtraError: A package for this kind of model is not installed, such as ``openai``.
    """
    if isinstance(setting, LanguageModel):
        return setting
    config = llm_config(setting)
    if isinstance(config, OpenAILLM):
        if find_spec("openai") is None:
            raise MissingExtraError("openai", "api", f"llm: openai:{config.model}")
        from medal_judges.models.llm.server import RemoteModel

        return RemoteModel(config)
    key = config.model_dump_json()
    with _LOADING:
        model = _IN_USE.get(key)
        if model is None:
            model = _IN_USE[key] = _load_local_model(config)
    return model


def _load_local_model(config: TransformersLLM | VllmLLM) -> LanguageModel:
    """Loads the model of ``config`` into this process and returns it."""
    if isinstance(config, VllmLLM):
        from medal_judges.models.llm.vllm.model import load_vllm

        return load_vllm(config)
    from medal_judges.models.llm.local.model import load_local

    return load_local(config)


def dry_run_model(setting: object) -> RemoteModel:
    """Returns a stand-in for a language model. It sends no requests, but records them for a cost
    estimate.

    The stand-in for a local model loads no weights and has no price.

    Args:
        setting: A name such as ``openai:gpt-4.1-mini``, or a mapping such as ``{"model":
            "openai:gpt-4.1-mini", "timeout": 60}``.

    Raises:
        ConfigError: The setting is wrong.
    """
    from medal_judges.models.llm.server import RemoteModel

    config = llm_config(setting)
    if isinstance(config, OpenAILLM):
        return RemoteModel(config, dry_run=True)
    stand_in = RemoteModel(OpenAILLM(model=config.model, cache=False), dry_run=True)
    stand_in.api, stand_in.price = False, None
    return stand_in
