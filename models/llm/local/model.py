"""Language models on this machine, through transformers."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.embedded import PREFIX, embedded_path
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.local.encoder_decoder import EncoderDecoderModel, weights_hash
from medal_judges.models.llm.local.generation import generate, generate_until
from medal_judges.models.llm.local.paths import Paths, quick_paths
from medal_judges.models.llm.local.plain import plain_logprobs
from medal_judges.models.llm.local.prefix import tree_logprobs
from medal_judges.models.llm.local.thinking import Thinking, Thought, counted
from medal_judges.models.llm.local.windows import context_of
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)

logger = logging.getLogger(__name__)

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def load_local(
    model: str,
    *,
    dtype: str | None = None,
    device: str | None = None,
    revision: str | None = None,
    token_budget: int = 16384,
    context: int | None = None,
    thinking: int | None = None,
    bin_weights: bool = False,
) -> LanguageModel:
    """A causal or encoder-decoder language model by hub id, folder or ``embedded:smollm2``.

    ``dtype`` is fp32, bf16 or fp16; by default fp32 on a CPU and bf16 on a GPU. ``token_budget``
    bounds the tokens of one generating batch, ``context`` lowers the model's own window.
    ``thinking`` is for models that think first (see Thinking). ``bin_weights`` reads weights that
    are published as .bin alone (see bin_weights.py). Code that comes with a model is never run.
    Raises ConfigError when it cannot be loaded.
    """
    import torch

    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    precision = dtype or ("fp32" if chosen == "cpu" else "bf16")
    if precision not in DTYPES:
        raise ConfigError(f"llm: dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    path = model_path(model)
    if bin_weights:
        from medal_judges.models.llm.local.bin_weights import converted_bin

        path, revision = str(converted_bin(path, revision)), None
    try:
        network, tokenizer = _loaded(path, revision, DTYPES[precision])
    except (OSError, ValueError) as error:
        raise NotAvailableError(
            f"llm: cannot load {model}: {error}",
            hint="a hub id, a folder with safetensors weights, or embedded:smollm2; weights "
            "published as .bin alone: llm.bin_weights=true",
        ) from error
    loaded = network.to(chosen).eval()
    if loaded.config.is_encoder_decoder:
        if thinking:
            raise ConfigError(f"llm.thinking: {model} has an encoder and does not think")
        return EncoderDecoderModel(loaded, tokenizer, name=model_name(model), context=context)
    return LocalModel(
        loaded,
        tokenizer,
        name=model_name(model),
        token_budget=token_budget,
        context=context,
        thinking=thinking,
    )


def _loaded(path: str, revision: str | None, dtype: str) -> tuple[Any, Any]:
    """(network, tokenizer); what they raise is transformers' own."""
    import torch
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
    )

    # trust_remote_code not set, transformers asks at the terminal whether to run a model's code.
    tokenizer = AutoTokenizer.from_pretrained(path, revision=revision, trust_remote_code=False)
    config = AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=False)
    # A decoder that waits for an encoder's states would load as a causal model, and be wrong.
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    network = kind.from_pretrained(
        path,
        revision=revision,
        dtype=getattr(torch, dtype),
        use_safetensors=True,
        trust_remote_code=False,
    )
    return network, tokenizer


def model_path(model: str) -> str:
    """What transformers loads for ``model``: a hub id, a folder, or the converted embedded one."""
    if not model.startswith(PREFIX):
        return model
    from medal_judges.models.llm.local.gguf import converted

    return str(converted(embedded_path(model.removeprefix(PREFIX))))


def model_name(model: str) -> str:
    """A hub id or ``embedded:`` name as it is; of a folder its last part (no paths in names)."""
    from pathlib import Path

    return Path(model).resolve().name if Path(model).is_dir() else model.replace(":", "/")


class LocalModel(LanguageModel):
    """A transformers model and its tokenizer behind the two calls.

    Which ways of computing the model is given (a tree of shared prefixes, padding in a batch) is
    found out by trying them when it is first used (paths.py). ``shared`` False scores continuations
    one forward pass each, for comparison: the plain loop.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        token_budget: int = 16384,
        context: int | None = None,
        shared: bool | None = None,
        thinking: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.template = ChatTemplate(tokenizer)
        self.thinking = Thinking(self.template, thinking)
        self.token_budget = token_budget
        own = context_of(model.config) or 1_000_000
        self.window = min(own, context or own)
        # What is kept free to think in is no room for prompt and answer.
        self.context = self.window - min(self.thinking.budget, self.window // 2)
        self._shared = shared

    @property
    def paths(self) -> Paths:
        """The ways of computing that hold for this model."""
        return quick_paths(self.model)

    @property
    def shared(self) -> bool:
        """Whether likelihoods are read off a tree of shared prefixes."""
        return self.paths.tree if self._shared is None else self._shared

    def fingerprint(self) -> Mapping[str, str]:
        """Template and precision; the weights by a hash of the first and last of them."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        thinks = {"thinking": str(self.thinking.budget)} if self.thinking.budget else {}
        weights = {"dtype": dtype, "weights": weights_hash(self.model)}
        return {**self.template.fingerprint(), **thinks, **weights}

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt that asks the assistant for its next turn."""
        return len(self.template.prefix(messages, "assistant"))

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """See LanguageModel. Prompts with a common beginning are read once (see generation.py).

        Raises ConfigError where the model's token-by-token answers are not what its forward pass
        says.
        """
        if not (alone := self.paths.findings["alone"]).holds:
            raise ConfigError(
                f"{self.name} does not answer as its own forward pass says ({alone.reason})",
                hint="another version of transformers, or another attention",
            )
        start = time.perf_counter()
        thoughts = self._thoughts(requests)
        prompts = [thought.ids for thought in thoughts]
        fits = [
            i
            for i, (r, p) in enumerate(zip(requests, prompts, strict=True))
            if len(p) + r.max_tokens <= self.window
        ]
        done = generate(
            self.model,
            self.tokenizer,
            [prompts[i] for i in fits],
            [requests[i] for i in fits],
            budget=self.token_budget,
            batching=self.paths.batching,
        )
        share = (time.perf_counter() - start) / max(1, len(fits))
        answers = {
            i: counted(replace(c, usage=replace(c.usage, seconds=share)), thoughts[i])
            for i, c in zip(fits, done, strict=True)
        }
        return [
            answers.get(i) or self._too_long(len(prompts[i]), request)
            for i, request in enumerate(requests)
        ]

    def _thoughts(self, requests: Sequence[ChatRequest]) -> list[Thought]:
        """The prompts of the answers, with what was thought before them."""
        if not self.thinking.budget:
            plain = [self.template.prefix(r.messages, "assistant", r.prefill) for r in requests]
            return [Thought(ids, 0) for ids in plain]
        assert self.thinking.block is not None
        prompts = [self.thinking.prompt(request.messages) for request in requests]
        told = [
            self.thinking.request(request, prompt, self.window)
            for request, prompt in zip(requests, prompts, strict=True)
        ]
        fits = [
            i
            for i, (r, p) in enumerate(zip(told, prompts, strict=True))
            if len(p) + r.max_tokens <= self.window
        ]
        written = generate_until(
            self.model,
            self.tokenizer,
            [prompts[i] for i in fits],
            [told[i] for i in fits],
            budget=self.token_budget,
            batching=self.paths.batching,
            stop=self.thinking.block.stop,
        )
        ids = dict(zip(fits, written, strict=True))
        return [
            self.thinking.thought(prompts[i], ids.get(i, []), request.prefill)
            for i, request in enumerate(requests)
        ]

    def _too_long(self, tokens: int, request: ChatRequest) -> Completion:
        reason = (
            f"a prompt of {tokens} tokens and an answer of {request.max_tokens} do not fit the "
            f"{self.window} tokens of {self.name}"
        )
        return Completion("", finish="failed", failure=reason)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """See LanguageModel; a group's distinct tokens are read once (see prefix.py)."""
        return [self._group(group, joint) for group in groups]

    def _group(self, group: Sequence[Continuation], joint: bool) -> list[Likelihood]:
        if not group:
            return []
        sequences = [self.template.sequence(continuation) for continuation in group]
        longest = max(len(s.ids) for s in sequences)
        if longest > self.context:
            raise ConfigError(
                f"{longest} tokens do not fit the {self.context} tokens of {self.name}",
                hint="drop the oldest turns first (a judge does)",
            )
        score = tree_logprobs if self.shared else plain_logprobs
        scored, prefix = score(self.model, sequences, joint=joint)
        return [
            Likelihood(tuple(map(float, values)), before, s.start - 1)
            for values, before, s in zip(scored, prefix, sequences, strict=True)
        ]
