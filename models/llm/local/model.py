"""Language models on this machine, through transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.batching import retry_on_oom
from medal_judges.models.device import max_batch_tokens, torch_device, torch_dtype
from medal_judges.models.llm.chat_template import Prompts, TokenModel
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.local.encoder_decoder import EncoderDecoderModel
from medal_judges.models.llm.local.generation import (
    GeneratedAnswer,
    generate_batch,
    prompt_batches,
)
from medal_judges.models.llm.local.likelihood import (
    context_length,
    is_tested,
    score_as_tree,
    score_one_by_one,
)
from medal_judges.models.llm.local.weights import find_or_convert_model, model_name
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    Finish,
    LanguageModel,
    Likelihood,
)
from medal_judges.models.llm.settings import TransformersLLM
from medal_judges.models.model_files import (
    MODEL_FILES,
    files_hash,
    local_model_path,
    network_hash,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


BATCH_TOKENS = 16384  # of one generated batch, prompts and answers


def load_local(config: TransformersLLM) -> LanguageModel:
    """Returns the language model that ``config`` names, loaded with transformers. Code that comes
    with a model is never run.

    Raises:
        NotAvailableError: The model cannot be loaded.
        ConfigError: A setting does not fit the model.
        MissingExtraError: The package ``gguf`` is needed and not installed.
    """
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
    )

    device = torch_device(config.device)
    dtype = config.dtype
    if dtype is None:
        dtype = "fp32" if device.type == "cpu" else "bf16"
    path = find_or_convert_model(config.model)
    # Without trust_remote_code=False transformers prompts at the terminal to run a model's code.
    options = {"revision": config.revision, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
        # A decoder of an encoder-decoder would load as a causal model, and be wrong.
        is_seq2seq = AutoConfig.from_pretrained(path, **options).is_encoder_decoder
        kind: Any = AutoModelForCausalLM
        if is_seq2seq:
            kind = AutoModelForSeq2SeqLM
        network, loaded = kind.from_pretrained(
            path,
            dtype=torch_dtype(dtype),
            use_safetensors=not config.bin_weights,  # .bin is read with torch's weights_only
            output_loading_info=True,
            **options,
        )
        patterns = [*MODEL_FILES]
        if config.bin_weights:
            patterns.append("*.bin")
        weights = files_hash(local_model_path(path, config.revision), patterns)
    except (OSError, ValueError, RuntimeError, UnpicklingError) as error:
        raise NotAvailableError(
            f"llm: cannot load {config.model}: {error}",
            hint="Give a Hub id, a folder with safetensors weights, or embedded:smollm2. Weights "
            "published as .bin only: llm.bin_weights=true",
        ) from error
    if missing := sorted(loaded["missing_keys"]):
        raise NotAvailableError(
            f"llm: {config.model} is not a language model: {len(missing)} weights are missing: "
            f"{missing[0]} ...",
            hint="Give a language model. To train a judge on an encoder, type: medal train",
        )
    network.to(device).eval()
    name = model_name(config.model)
    if is_seq2seq:
        if config.thinking:
            raise ConfigError(
                f"llm.thinking: {config.model} has an encoder and does not think. Leave it out"
            )
        return EncoderDecoderModel(
            network, tokenizer, name=name, context=config.context, weights=weights
        )
    return LocalModel(
        network,
        tokenizer,
        name=name,
        context=config.context,
        thinking=config.thinking,
        weights=weights,
    )


class LocalModel(TokenModel):
    """A causal language model of transformers with its tokenizer.

    Args:
        model: The network.
        tokenizer: The tokenizer of the model.
        name: The name of the model.
        token_budget: The maximum number of tokens in a batch of prompts and answers, with padding.
            None is a number that grows with the device's memory, and at least 16,384.
        context: The context length in tokens, if it should be lower than the model's own.
        shared: Whether the common prefix of several continuations is computed once for all of them.
            None is True for tested architectures only.
        thinking: The maximum number of tokens of thinking before an answer. None is 4096 if the
            chat template begins each answer with ``<think>``, otherwise 0.
        weights: A hash of the model's files. None computes a hash of the parameters of ``model``.

    Raises:
        ConfigError: ``thinking`` is above 0, but the chat template has no block for thoughts.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        token_budget: int | None = None,
        context: int | None = None,
        shared: bool | None = None,
        thinking: int | None = None,
        weights: str | None = None,
    ) -> None:
        positions = context_length(model.config)
        window = min(positions, context or positions)
        super().__init__(tokenizer, name=name, window=window, thinking=thinking)
        self.model, self._shared = model, shared
        self.token_budget = token_budget or max(
            BATCH_TOKENS, max_batch_tokens(model.device)
        )
        self._weights = weights

    def identity(self) -> dict[str, str]:
        dtype = str(self.model.dtype).removeprefix("torch.")
        weights = self._weights or network_hash(self.model)
        return super().identity() | {"dtype": dtype, "weights": weights}

    def complete_prompts(
        self, prompts: Prompts, requests: Sequence[ChatRequest]
    ) -> list[Completion]:
        completions = []
        rows = self._generate_in_batches(prompts, requests)
        for row, request, prompt in zip(rows, requests, prompts, strict=True):
            completions.append(self._to_completion(row, request, len(prompt)))
        return completions

    def _to_completion(
        self, row: GeneratedAnswer, request: ChatRequest, prompt: int
    ) -> Completion:
        """Converts the generated token ids to a Completion.

        Args:
            row: The generated answer.
            request: The request that was answered.
            prompt: The length of the prompt in tokens.
        """
        finish: Finish = "length"
        if row.ended:
            finish = "stop"
        return Completion(
            str(self.tokenizer.decode(row.ids, skip_special_tokens=True)),
            finish=finish,
            enforced=request.schema is not None,
            usage=Usage(input=prompt, cached=row.cached, output=len(row.ids)),
        )

    def _generate_in_batches(
        self, prompts: Prompts, requests: Sequence[ChatRequest]
    ) -> list[GeneratedAnswer]:
        """Generates one answer for each prompt, in batches that fit the memory.

        Args:
            prompts: The token ids of each prompt.
            requests: The request of each prompt, with its token limit and sampling settings.
        """

        def generate(batch: Sequence[int]) -> list[GeneratedAnswer]:
            return generate_batch(
                self.model,
                self.tokenizer,
                [prompts[i] for i in batch],
                [requests[i] for i in batch],
                thinks=self.thinking > 0,
            )

        rows: dict[int, GeneratedAnswer] = {}
        for batch in prompt_batches(self.model, prompts, requests, self.token_budget):
            rows |= zip(batch, retry_on_oom(generate, batch), strict=True)
        return [rows[i] for i in range(len(prompts))]

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        shared = self._shared
        if shared is None:
            shared = is_tested(self.model.config)
        score = score_as_tree if shared else score_one_by_one
        answers: list[list[Likelihood]] = []
        with self.computing:
            for group in groups:
                answers.append([])
                if not group:
                    continue
                sequences = [self.to_sequence(continuation) for continuation in group]
                scored, prefix = score(self.model, sequences, joint=joint)
                for index, sequence in enumerate(sequences):
                    logprobs = tuple(scored[index].tolist())
                    tokens = sequence.start - 1
                    answers[-1].append(Likelihood(logprobs, prefix[index], tokens))
        return answers
