"""Language models on this machine, through transformers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.device import torch_device, torch_dtype
from medal_judges.models.llm.local.batches import Prompts
from medal_judges.models.llm.local.encoder_decoder import EncoderDecoderModel
from medal_judges.models.llm.local.generation import Row, generate, to_completion
from medal_judges.models.llm.local.layers import context_of
from medal_judges.models.llm.local.likelihood import plain_logprobs, tree_logprobs
from medal_judges.models.llm.local.paths import Paths, quick_paths
from medal_judges.models.llm.local.prefix_store import PrefixStore
from medal_judges.models.llm.local.token_model import TokenModel
from medal_judges.models.llm.local.weights import (
    converted_bin,
    model_name,
    model_path,
)
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
)
from medal_judges.models.llm.settings import TransformersLLM
from medal_judges.models.model_files import files_hash, network_hash, weights_folder

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_local(config: TransformersLLM) -> LanguageModel:
    """A causal or encoder-decoder language model by hub id, folder or ``embedded:smollm2``. Code
    that comes with a model is never run. Raises ConfigError when it cannot be loaded."""
    device = torch_device(config.device)
    path, revision = model_path(config.model), config.revision
    if config.bin_weights:
        path, revision = str(converted_bin(path, revision)), None
    dtype = torch_dtype(config.dtype or ("fp32" if device.type == "cpu" else "bf16"), device)
    try:
        network, tokenizer = _loaded(path, revision, dtype)
        weights = files_hash(weights_folder(path, revision))
    except (OSError, ValueError) as error:
        raise NotAvailableError(
            f"llm: cannot load {config.model}: {error}",
            hint="a hub id, a folder with safetensors weights, or embedded:smollm2; weights "
            "published as .bin alone: llm.bin_weights=true",
        ) from error
    network.to(device).eval()  # type: ignore[arg-type]
    name = model_name(config.model)
    if network.config.is_encoder_decoder:
        if config.thinking:
            raise ConfigError(f"llm.thinking: {config.model} has an encoder and does not think")
        return EncoderDecoderModel(
            network, tokenizer, name=name, context=config.context, weights=weights
        )
    return LocalModel(
        network,
        tokenizer,
        name=name,
        token_budget=config.token_budget,
        context=config.context,
        thinking=config.thinking,
        weights=weights,
        prefix_cache=config.prefix_cache,
    )


def _loaded(
    path: str, revision: str | None, dtype: torch.dtype
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """(network, tokenizer); what they raise is transformers' own."""
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
        dtype=dtype,
        use_safetensors=True,
        trust_remote_code=False,
    )
    return network, tokenizer


class LocalModel(TokenModel):
    """A transformers model and its tokenizer behind the two calls.

    Which ways of computing the model is given (a tree of shared prefixes, padding in a batch) is
    found out by trying them when it is first used (paths.py). ``token_budget`` bounds the tokens of
    one generating batch, ``context`` lowers the model's own window. ``shared`` False scores
    continuations one forward pass each, for comparison: the plain loop. ``weights``: a hash of the
    files that it was loaded from; without one, what is in memory tells. ``prefix_cache``: GiB of
    key-value states that are kept between calls (prefix_store.py); weights that have changed since
    (another training step, another precision) let go of them.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        token_budget: int = 16384,
        context: int | None = None,
        shared: bool | None = None,
        thinking: int | None = None,
        weights: str | None = None,
        prefix_cache: float = 0.0,
    ) -> None:
        own = context_of(model.config) or 1_000_000
        super().__init__(tokenizer, name=name, window=min(own, context or own), thinking=thinking)
        self.model, self.token_budget, self._shared = model, token_budget, shared
        self._weights = weights
        self.prefixes = PrefixStore(round(prefix_cache * 2**30))
        self._kept_of = 0  # the weights whose states are kept, by weights_state

    @property
    def paths(self) -> Paths:
        """The ways of computing that hold for this model."""
        return quick_paths(self.model)

    @property
    def shared(self) -> bool:
        """Whether likelihoods are read off a tree of shared prefixes."""
        return self.paths.tree if self._shared is None else self._shared

    def fingerprint(self) -> Mapping[str, str]:
        """Template, tokenizer, precision and weights, by what they are."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        weights = self._weights or network_hash(self.model)
        return self.prompt_fingerprint() | {"dtype": dtype, "weights": weights}

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """See TokenModel. Raises ConfigError where the model's token-by-token answers are not what
        its forward pass says."""
        if not (alone := self.paths.findings["alone"]).holds:
            raise ConfigError(
                f"{self.name} does not answer as its own forward pass says ({alone.reason})",
                hint="another version of transformers, or another attention",
            )
        return super().chat(requests)

    def _complete(self, prompts: Prompts, requests: Sequence[ChatRequest]) -> list[Completion]:
        done = {
            i: to_completion(self.tokenizer, row, requests[i], len(prompts[i]))
            for i, row in self._rows(prompts, requests)
        }
        return [done[i] for i in range(len(prompts))]

    def _write_until(
        self, prompts: Prompts, requests: Sequence[ChatRequest], stop: str
    ) -> list[list[int]]:
        rows = dict(self._rows(prompts, requests, stop))
        return [rows[i].ids for i in range(len(prompts))]

    def _rows(
        self, prompts: Prompts, requests: Sequence[ChatRequest], stop: str = ""
    ) -> Iterator[tuple[int, Row]]:
        return generate(
            self.model,
            self.tokenizer,
            prompts,
            requests,
            budget=self.token_budget,
            batching=self.paths.batching,
            store=self._kept(),
            stop=stop,
        )

    def _kept(self) -> PrefixStore:
        """What is kept of earlier prompts: nothing where other weights have read them."""
        if self.prefixes.limit and (state := weights_state(self.model)) != self._kept_of:
            self.prefixes.clear()
            self._kept_of = state
        return self.prefixes

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """See LanguageModel; a group's distinct tokens are read once (see likelihood.py)."""
        with self.computing:
            return [self._group(group, joint) for group in groups]

    def _group(self, group: Sequence[Continuation], joint: bool) -> list[Likelihood]:
        if not group:
            return []
        sequences = [self.sequence(continuation) for continuation in group]
        if self.shared:
            kept = self._kept() if self.paths.batching.padding == "kept" else None
            scored, prefix = tree_logprobs(self.model, sequences, joint=joint, store=kept)
        else:
            scored, prefix = plain_logprobs(self.model, sequences, joint=joint)
        return [
            Likelihood(tuple(map(float, values)), before, s.start - 1)
            for values, before, s in zip(scored, prefix, sequences, strict=True)
        ]

    def close(self) -> None:
        """Let go of what is kept of earlier prompts."""
        with self.computing:
            self.prefixes.clear()


def weights_state(model: PreTrainedModel) -> int:
    """Another number once a parameter of ``model`` was written to, moved or replaced."""
    return hash(
        tuple(
            (p.data_ptr(), 0 if p.is_inference() else p._version, str(p.dtype))
            for p in model.parameters()
        )
    )
