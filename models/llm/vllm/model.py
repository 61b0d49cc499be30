"""Language models in vLLM's engine, in this process (extra ``vllm``).

Prompts are token ids, from the same chat template as with transformers. ``LLM.chat`` of vLLM is not
used. So a dialogue has the same tokens with both backends, a turn cannot forge the template's
special tokens, and there is exactly one beginning-of-sequence token.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError, MissingExtraError, NotAvailableError
from medal_judges.models.device import torch_dtype
from medal_judges.models.llm.chat_template import Prompts, TokenModel, TokenSequence
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.local.weights import find_or_convert_model, model_name
from medal_judges.models.llm.protocol import (
    JSON_LAYOUT,
    ChatRequest,
    Completion,
    Continuation,
    Likelihood,
    failed_completion,
)
from medal_judges.models.llm.settings import VllmLLM
from medal_judges.models.model_files import files_hash, local_model_path

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Settings of vLLM itself, unless the user has set them.
ENVIRONMENT = {
    # In this process: a killed run leaves no engine behind that would hold memory, and the batches
    # of two equal runs are equal.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",  # else it reports each step of its start
}
# Tokens of a block of the prefix cache. The default of vLLM's CPU build, 128, leaves most of a
# dialogue to be read again for each continuation; it wants multiples of 32. A GPU has 16.
CPU_BLOCK = 32


def load_vllm(config: VllmLLM) -> VllmModel:
    """Returns the language model that ``config`` names, in a new engine of vLLM. Code that comes
    with a model is never run.

    Raises:
        MissingExtraError: vLLM is not installed.
        NotAvailableError: The engine does not start.
        ConfigError: A setting does not fit the model.
    """
    if find_spec("vllm") is None:
        raise MissingExtraError("vllm", "vllm", f"llm: vllm:{config.model}")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from vllm import LLM

    try:
        engine = LLM(**engine_arguments(config))
        return VllmModel(engine, engine.get_tokenizer(), config)
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise NotAvailableError(
            f"llm: vLLM does not start with {config.model}: {str(error).partition(' [type=')[0]}",
            hint="Give llm.model a Hub id or a folder with safetensors weights. For less memory, "
            "lower llm.context or llm.engine.gpu_memory_utilization",
        ) from error


def engine_arguments(config: VllmLLM) -> dict[str, Any]:
    """Returns the arguments for ``vllm.LLM`` as a mapping, such as ``{"model": "ORG/NAME",
    "max_model_len": 4096}``.

    Args:
        config: The settings of the model.

    Raises:
        ConfigError: ``config.engine`` sets an argument that cannot be changed, such as ``model``.
    """
    from vllm.platforms import current_platform

    arguments: dict[str, Any] = {
        "model": find_or_convert_model(config.model),
        "revision": config.revision,
        "max_model_len": config.context,
        "trust_remote_code": False,
        # The grammars of llguidance, as for a model in transformers.
        "structured_outputs_config": {"backend": "guidance"},
    }
    if current_platform.is_cpu():
        arguments["block_size"] = CPU_BLOCK
    if config.dtype is not None:
        arguments["dtype"] = torch_dtype(config.dtype)
    if taken := sorted(arguments.keys() & config.engine.keys()):
        raise ConfigError(f"llm.engine.{taken[0]} cannot be set. Leave it out")
    return arguments | config.engine


def sampling_params(request: ChatRequest, *, thinks: bool = False) -> Any:
    """Returns the sampling settings of ``request`` as vLLM's SamplingParams.

    Args:
        thinks: Whether the model thinks before it answers. If so, the JSON schema is not enforced.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    params = SamplingParams(
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed or 0,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
    )
    if request.schema is not None and not thinks:
        schema = {**request.schema, "x-guidance": JSON_LAYOUT}
        params.structured_outputs = StructuredOutputsParams(json=schema)
    return params


def scoring_params(*, read_cache: bool) -> Any:
    """Returns SamplingParams that make vLLM return the log-probabilities of the tokens of a prompt.

    Args:
        read_cache: Whether to use vLLM's prefix cache. vLLM returns no log-probability for cached
            tokens.
    """
    from vllm import SamplingParams

    return SamplingParams(
        max_tokens=1,
        temperature=0.0,
        prompt_logprobs=0,
        detokenize=False,
        skip_reading_prefix_cache=not read_cache,
    )


class VllmModel(TokenModel):
    """A language model in an engine of vLLM.

    Args:
        engine: A ``vllm.LLM``.
        tokenizer: The tokenizer of the model.
        config: The settings with which the engine was started.

    Raises:
        ConfigError: ``config.thinking`` is above 0, but the chat template has no block for
            thoughts.
    """

    def __init__(
        self, engine: Any, tokenizer: PreTrainedTokenizerBase, config: VllmLLM
    ) -> None:
        # One less than the engine's window: it always generates a token, even to score a prompt.
        window = int(engine.model_config.max_model_len) - 1
        super().__init__(
            tokenizer,
            name=f"vllm/{model_name(config.model)}",
            window=window,
            thinking=config.thinking,
        )
        self.engine, self.config = engine, config

    def identity(self) -> dict[str, str]:
        import vllm

        model = self.engine.model_config
        fingerprint = super().identity() | {
            "backend": f"vllm {vllm.__version__}",
            "dtype": str(model.dtype).removeprefix("torch."),
            "weights": files_hash(
                local_model_path(str(model.model), self.config.revision)
            ),
        }
        return fingerprint

    def close(self) -> None:
        """Stops the engine and frees its memory."""
        self.engine.llm_engine.engine_core.shutdown()

    def complete_prompts(
        self, prompts: Prompts, requests: Sequence[ChatRequest]
    ) -> list[Completion]:
        thinks = self.thinking > 0
        params = [sampling_params(request, thinks=thinks) for request in requests]
        outputs = self._run_engine(prompts, params)
        return list(map(self._to_completion, outputs, requests))

    def _to_completion(self, output: Any, request: ChatRequest) -> Completion:
        """Returns the answer in ``output``, a RequestOutput of vLLM, as the completion of
        ``request``."""
        answer, ids = output.outputs[0], answer_ids(output)
        cached = output.num_cached_tokens or 0
        usage = Usage(
            input=len(output.prompt_token_ids), cached=cached, output=len(ids)
        )
        if answer.finish_reason not in ("stop", "length"):
            return failed_completion(
                f"vLLM ended the answer with {answer.finish_reason!r}", usage
            )
        return Completion(
            answer.text,
            finish=answer.finish_reason,
            enforced=request.schema is not None and not self.thinking,
            usage=usage,
        )

    def _run_engine(self, prompts: Prompts, params: Sequence[Any]) -> list[Any]:
        """Runs the engine and returns vLLM's RequestOutput for each prompt.

        Args:
            prompts: The token ids of each prompt.
            params: The SamplingParams of each prompt.
        """
        if not prompts:
            return []
        inputs = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        outputs = self.engine.generate(inputs, list(params), use_tqdm=False)
        return list(outputs)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Computes how likely the model is to write given texts (continuations), each as the next
        turn of a chat.

        Args:
            groups: Lists of continuations. The beginning that chats share is computed once.
            joint: Whether to compute the log-probability of the chat before each text too.

        Returns:
            For each list, the likelihoods of its continuations, in order.

        Raises:
            ConfigError: A text is empty, or a text and its chat are longer than the context length.
        """
        sequences = list(map(self.to_sequence, chain.from_iterable(groups)))
        first_with_prefix: dict[tuple[int, ...], int] = {}
        for index, sequence in enumerate(sequences):
            first_with_prefix.setdefault(sequence.ids[: sequence.start], index)
        likelihoods: dict[int, Likelihood] = {}
        unscored = list(first_with_prefix.values())
        # First one sequence for each prefix, which fills vLLM's prefix cache. Then the others with
        # the cache. At last, without it, those whose scored tokens the cache had.
        for read_cache in (False, True, False):
            likelihoods |= self._score_sequences(
                sequences, unscored, read_cache=read_cache, joint=joint
            )
            unscored = [i for i in range(len(sequences)) if i not in likelihoods]
        in_order = []
        for index, sequence in enumerate(sequences):
            writer = likelihoods[first_with_prefix[sequence.ids[: sequence.start]]]
            prefix_logprob = writer.prefix_logprob
            in_order.append(replace(likelihoods[index], prefix_logprob=prefix_logprob))
        unread = iter(in_order)
        return [list(islice(unread, len(group))) for group in groups]

    def _score_sequences(
        self,
        sequences: Sequence[TokenSequence],
        indices: Sequence[int],
        *,
        read_cache: bool,
        joint: bool,
    ) -> dict[int, Likelihood]:
        """Returns index of a sequence -> its likelihood, for the ``sequences`` at ``indices``.

        A sequence is left out if vLLM had one of its scored tokens in the cache and so returned no
        log-probability for this token.

        Args:
            read_cache: Whether to use vLLM's prefix cache.
            joint: Whether to compute the log-probability of each prefix too. With ``read_cache`` it
                never is, because vLLM returns none for cached tokens.
        """
        params = scoring_params(read_cache=read_cache)
        prompts = [sequences[index].ids for index in indices]
        likelihoods = {}
        outputs = self._run_engine(prompts, [params] * len(prompts))
        for index, output in zip(indices, outputs, strict=True):
            likelihood = to_likelihood(
                output, sequences[index], joint=joint and not read_cache
            )
            if likelihood is not None:
                likelihoods[index] = likelihood
        return likelihoods


def answer_ids(output: Any) -> Sequence[int]:
    """Returns the token ids of the answer in ``output`` (a RequestOutput of vLLM), without the
    token that ends it."""
    answer = output.outputs[0]
    ids: Sequence[int] = answer.token_ids
    return ids[:-1] if answer.finish_reason == "stop" else ids


def to_likelihood(
    output: Any, sequence: TokenSequence, *, joint: bool
) -> Likelihood | None:
    """Returns the likelihood of the scored part of ``sequence``, which is its tokens from ``start``
    on.

    vLLM gives no log-probability for tokens that it reads from its cache. Returns None if the
    log-probability of such a token is needed.

    Args:
        output: The RequestOutput of vLLM for the sequence.
        joint: Whether to include the log-probability of the tokens before the scored part.
    """
    first_scored = sequence.start
    if joint:
        first_scored = 1
    if (output.num_cached_tokens or 0) >= first_scored:
        return None
    token_ids = sequence.ids[first_scored:]
    logprobs = []
    # Counted from the end, because vLLM may leave out cached tokens.
    entries = output.prompt_logprobs[-len(token_ids) :]
    for entry, token_id in zip(entries, token_ids, strict=True):
        logprobs.append(float(entry[token_id].logprob))
    scored = len(sequence.ids) - sequence.start
    prefix_logprob = None
    if joint:
        prefix_logprob = sum(logprobs[:-scored])
    return Likelihood(tuple(logprobs[-scored:]), prefix_logprob, sequence.start - 1)
