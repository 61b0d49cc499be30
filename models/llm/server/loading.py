"""From the settings of a server to a model whose answers are kept."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from medal_judges.errors import MissingExtraError
from medal_judges.models.llm.cache import CachedModel, answers_folder
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.llm.server.model import RemoteModel
from medal_judges.models.llm.server.prices import load_prices
from medal_judges.models.llm.server.secrecy import NO_KEY
from medal_judges.models.llm.settings import OpenAILLM
from medal_judges.signature import content_hash


def load_openai(config: OpenAILLM) -> LanguageModel:
    """The model that ``config`` describes (extra ``api``), its answers kept (cache.py).

    Raises ConfigError for max_cost with a model whose price is not known; without a key the first
    request does.
    """
    for package in ("openai", "tenacity"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "api", f"llm: openai:{config.model}")
    base = config.base_url or os.environ.get("OPENAI_BASE_URL")
    remote = RemoteModel(
        config.model,
        base_url=base,
        key=_key(config.api_key_env, base),
        key_variable=config.api_key_env,
        max_in_flight=config.max_in_flight,
        timeout=config.timeout,
        attempts=config.attempts,
        longest_wait=config.longest_wait,
        max_cost=config.max_cost,
        prices=load_prices(config.prices or "prices"),
        reasoning=config.reasoning,
        reasoning_effort=config.reasoning_effort,
        context=config.context,
        tokenizer=config.tokenizer,
    )
    inner: LanguageModel = remote
    if config.batch:
        from medal_judges.models.llm.server.batch_api import BatchModel

        inner = BatchModel(remote)
    if config.cache is False:
        return inner
    # Another server of the same model's name gives other answers.
    own = answers_folder() / f"server-{content_hash(base)}" if base else None
    return CachedModel(inner, Path(config.cache) if isinstance(config.cache, str) else own)


def _key(variable: str, base_url: str | None) -> str | None:
    """The key; None where there is none and the provider's own server wants one."""
    # Servers of one's own ask for none, the client wants one.
    return os.environ.get(variable) or (None if base_url is None else NO_KEY)
