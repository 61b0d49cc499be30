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
    """A language model that transformers runs on this machine.

    Attributes:
        backend: Always ``transformers``.
        model: A Hub id, a folder, or ``embedded:smollm2`` (shipped with the package).
        dtype: ``fp32``, ``bf16`` or ``fp16``. None is fp32 on a CPU and bf16 on a GPU.
        device: The device, such as ``cuda:1``. None is the GPU if there is one, otherwise the CPU.
        revision: The revision of a Hub id, such as a branch or a commit. None is the main branch.
        context: The context length in tokens, if it should be lower than the model's own. None is
            the model's own.
        thinking: The maximum number of tokens of thinking before an answer. None is 4096 if the
            chat template begins each answer with ``<think>``, otherwise 0.
        bin_weights: Whether to read .bin files, for models that are published without safetensors.
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
    """A language model in vLLM's engine, in this process. It needs the package's extra ``vllm``.

    Attributes:
        backend: Always ``vllm``.
        model: A Hub id, a folder, or ``embedded:smollm2`` (shipped with the package).
        dtype: ``fp32``, ``bf16`` or ``fp16``. None keeps the dtype of the stored weights.
        revision: The revision of a Hub id, such as a branch or a commit. None is the main branch.
        context: The context length in tokens, if it should be lower than the model's own. None is
            the model's own.
        thinking: The maximum number of tokens of thinking before an answer. None is 4096 if the
            chat template begins each answer with ``<think>``, otherwise 0.
        engine: Further arguments of ``vllm.LLM``, such as ``tensor_parallel_size`` and
            ``gpu_memory_utilization``.
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
    """A language model on a server with OpenAI's API.

    Attributes:
        backend: Always ``openai``.
        model: The model's name on the server.
        base_url: The server's address. None is the environment variable OPENAI_BASE_URL, or OpenAI
            if it is not set.
        api_key_env: The environment variable that holds the API key. The key is sent to
            ``base_url`` only.
        max_in_flight: The maximum number of requests that run at the same time.
        timeout: The maximum time of one attempt in seconds. Reasoning models need more.
        attempts: The maximum number of times that a failing request is sent.
        max_cost: The cost limit in US dollars. None is no limit.
        prices: The YAML file with list prices. None is the shipped file.
        reasoning_effort: The effort that is sent to a reasoning model, such as ``low``. None sends
            nothing. With any value except ``none``, the limit of an answer and its reasoning
            together is at least 32,768 tokens.
        context: The context length in tokens, for prompt and answer together.
        cache: Whether answers are cached. None caches them unless the server is on this machine or
            in its private network.
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
        """Whether the model reasons before it answers. True if ``reasoning_effort`` is given and is
        not ``none``. Reasoning is billed as output."""
        return self.reasoning_effort not in (None, "none")

    @property
    def caches(self) -> bool:
        """Whether answers are cached: ``cache`` if it is given. Otherwise True, unless the server
        is on this machine or in its private network."""
        if self.cache is None:
            return not self.private
        return self.cache

    @property
    def private(self) -> bool:
        """Whether the server is on this machine or in its private network. Such a server sends no
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
    """Returns the error that says that the judge named ``judge`` needs a language model and its
    settings have none."""
    return ConfigError(
        f"{judge} needs a language model",
        hint="Type one: llm=openai:gpt-4.1-mini (a provider), llm=ORG/NAME (this machine)",
    )


def llm_config(setting: object) -> LLMConfig:
    """Returns the checked settings of the language model that ``setting`` names.

    Args:
        setting: ``[BACKEND:]MODEL``, such as ``openai:gpt-4.1-mini``. Or a mapping, such as
            ``{"model": "openai:gpt-4.1-mini", "timeout": 60}``. A settings object is returned
            unchanged.

    Raises:
        ConfigError: The backend is unknown, or a setting is wrong.
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
