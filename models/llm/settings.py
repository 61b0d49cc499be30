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

    ``model``: a hub id (at ``revision``), a folder, or ``embedded:smollm2``. ``device``: None is
    the GPU if there is one. ``dtype``: fp32, bf16 or fp16. None is fp32 on a CPU and bf16 on a GPU.
    ``context``: a lower context length than the model's. ``thinking``: the maximum number of tokens
    that it thinks before an answer. None is 4096 if its chat template opens a block of thoughts,
    and 0 if it does not. ``bin_weights``: whether to read weights that are published as .bin only.
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
    """A language model in vLLM's engine, in this process (extra ``vllm``).

    ``model``: a hub id (at ``revision``), a folder, or ``embedded:smollm2``. ``dtype``: fp32, bf16
    or fp16. None is that of the stored weights. ``context``: a lower context length than the
    model's. ``thinking``: the maximum number of tokens that it thinks before an answer. None is
    4096 if its chat template opens a block of thoughts, and 0 if it does not. ``engine``: further
    arguments of ``vllm.LLM``, such as ``tensor_parallel_size`` and ``gpu_memory_utilization``.
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
    """A language model on a server that speaks OpenAI's protocol.

    ``model``: its name on the server. ``base_url``: the server's address. None is OPENAI_BASE_URL,
    or OpenAI itself. ``api_key_env``: the environment variable with the key, which is sent to this
    address only. ``max_in_flight``: how many requests run at a time. ``timeout``: seconds for one
    attempt. A reasoning model needs more. ``attempts``: how often a request is tried. ``context``:
    the context length in tokens.

    ``reasoning_effort`` is sent as it is. Any value but ``none`` allows MEDAL's 32,768 tokens for
    an answer (section 5.3.1). ``max_cost``: the limit in US dollars, at the list prices of the file
    ``prices``. ``cache``: whether answers are cached. None is yes for a server that may send a
    bill.
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
        """Whether the model thinks before it answers. Thinking is paid as output."""
        return self.reasoning_effort not in (None, "none")

    @property
    def caches(self) -> bool:
        """Whether answers are cached."""
        if self.cache is None:
            return not self.private
        return self.cache

    @property
    def private(self) -> bool:
        """Whether the server is on this machine or its private network, and so sends no bill."""
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
    """Returns the error for a judge whose settings name no language model."""
    return ConfigError(
        f"{judge} needs a language model",
        hint="Type one: llm=openai:gpt-4.1-mini (a provider), llm=ORG/NAME (this machine)",
    )


def llm_config(setting: object) -> LLMConfig:
    """Returns ``setting`` as the settings of its backend.

    A text is ``[BACKEND:]MODEL``: ``embedded:smollm2``, a hub id or a folder (all three run in
    transformers), ``vllm:ORG/NAME``, or ``openai:MODEL``. A mapping has such a text, or a name and
    a ``backend``, and further settings of the backend. Raises ConfigError for an unknown backend or
    a wrong setting.
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
