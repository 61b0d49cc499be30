"""The ``llm`` setting of a judge or an agent: one config class per backend."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, InstanceOf

from medal_judges.config import Config, build_config
from medal_judges.errors import ConfigError
from medal_judges.models.device import Dtype
from medal_judges.models.llm.protocol import LanguageModel


class TransformersLLM(Config):
    """A model on this machine.

    ``model``: hub id (at ``revision``), folder or ``embedded:smollm2``. ``device``: by default the
    GPU if there is one. ``dtype`` is fp32, bf16 or fp16 (default: fp32 on a CPU, bf16 on a GPU).
    ``context`` lowers the model's own window. ``thinking``: tokens that a model may think before
    its answer (default: 4096 if its chat template begins with thinking, else 0).
    ``bin_weights``: read weights published as .bin only (tensors only).
    """

    api: ClassVar[bool] = False
    backend: Literal["transformers"] = "transformers"
    model: str
    dtype: Dtype | None = None
    device: str | None = None
    revision: str | None = None
    context: int | None = Field(default=None, ge=1)
    thinking: int | None = Field(default=None, ge=0)
    bin_weights: bool = False


class VllmLLM(Config):
    """A model in vLLM's engine, in this process (extra ``vllm``).

    ``model``: hub id (at ``revision``), folder or ``embedded:smollm2``. ``dtype`` is fp32, bf16 or
    fp16 (default: as the weights are stored). ``context`` lowers the model's own window.
    ``thinking``: tokens that a model may think before its answer, as for a model in transformers.
    ``engine``: further arguments of ``vllm.LLM``, such as ``tensor_parallel_size`` (GPUs that share
    the model), ``gpu_memory_utilization`` and ``enforce_eager``.
    """

    api: ClassVar[bool] = False
    backend: Literal["vllm"] = "vllm"
    model: str
    dtype: Dtype | None = None
    revision: str | None = None
    context: int | None = Field(default=None, ge=2)
    thinking: int | None = Field(default=None, ge=0)
    engine: dict[str, Any] = Field(default_factory=dict)


class OpenAILLM(Config):
    """A model behind an OpenAI-compatible server.

    ``model``: its name on the server. ``context``: the server's window in tokens.
    ``max_in_flight``: requests at a time. ``base_url`` defaults to OPENAI_BASE_URL or the provider;
    the key is read from the environment variable ``api_key_env`` and sent nowhere else.
    ``timeout``: seconds for one try (more for a reasoning model); ``attempts``: tries of a request.
    ``reasoning_effort`` is sent unchanged; with any but ``none`` answers get MEDAL's 32,768 tokens
    (section 5.3.1). ``max_cost``: limit in US dollars at the list prices of the file ``prices``.
    ``cache``: whether answers are cached (default: those of a server that may send a bill).
    """

    api: ClassVar[bool] = True  # behind a server, which may send a bill
    backend: Literal["openai"] = "openai"
    model: str
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    max_in_flight: int = Field(default=8, ge=1)
    timeout: float = Field(default=120.0, gt=0)
    attempts: int = Field(default=6, ge=1)
    max_cost: float | None = Field(default=None, ge=0)
    prices: str | None = None
    reasoning_effort: str | None = Field(default=None, pattern=r"^[a-z]+$")
    context: int = Field(default=128_000, ge=1)
    cache: bool | None = None

    @property
    def thinks(self) -> bool:
        """Returns whether the model thinks before it answers, which is paid as output."""
        return self.reasoning_effort not in (None, "none")

    @property
    def caches(self) -> bool:
        """Returns whether responses are cached."""
        if self.cache is None:
            return not self.private
        return self.cache

    @property
    def private(self) -> bool:
        """Returns whether the server is on this machine or its private network and sends no
        bill."""
        host = urlsplit(self.base_url or "").hostname or ""
        try:
            return ip_address(host).is_private
        except ValueError:
            return host == "localhost"


BACKENDS: dict[str, type[TransformersLLM | VllmLLM | OpenAILLM]] = {
    "transformers": TransformersLLM,
    "vllm": VllmLLM,
    "openai": OpenAILLM,
}


def no_model_error(judge: object) -> ConfigError:
    """Returns the error for a judge whose file leaves its language model to the user."""
    return ConfigError(
        f"{judge} needs a language model",
        hint="Type one: llm=openai:gpt-4.1-mini (a provider), llm=ORG/NAME (this machine)",
    )


def llm_config(setting: object) -> LLMConfig:
    """Returns ``setting`` as the config of its backend.

    A text is ``[BACKEND:]MODEL``: ``embedded:smollm2``, a hub id or folder (both transformers),
    ``vllm:ORG/NAME``, ``openai:MODEL``. A mapping has ``model`` in the same form, or with
    ``backend``, and the backend's settings. Raises ConfigError that names a wrong key.
    """
    if isinstance(setting, TransformersLLM | VllmLLM | OpenAILLM):
        return setting
    settings = dict(setting) if isinstance(setting, Mapping) else {"model": setting}
    name = settings.get("model")
    if not isinstance(name, str) or not name:
        raise ConfigError(
            "llm: no model is given", hint="Write llm: {backend: openai, model: NAME}"
        )
    if settings.get("backend") is None:
        backend, colon, model = name.partition(":")
        settings["backend"] = "transformers"
        if colon and backend in BACKENDS:
            settings |= {"backend": backend, "model": model}
    kind = BACKENDS.get(str(settings["backend"]))
    if kind is None:
        raise ConfigError(
            f"llm: unknown backend {settings['backend']!r}",
            hint=f"Use one of: {', '.join(sorted(BACKENDS))}",
        )
    return build_config(kind, settings, where="llm")


# The type of a config field that names a language model: a text or mapping, see llm_config.
LLMConfig = Annotated[
    TransformersLLM | VllmLLM | OpenAILLM,
    Field(discriminator="backend"),
    BeforeValidator(
        lambda v: v if v is None or isinstance(v, LanguageModel) else llm_config(v)
    ),
]
# The same for a judge, which in Python may also take a loaded model.
LLMSetting = LLMConfig | InstanceOf[LanguageModel]
EMBEDDED = TransformersLLM(model="embedded:smollm2")
