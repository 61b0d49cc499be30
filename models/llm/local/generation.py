"""Generates answers with a local model in batches. A beginning that prompts share is computed
once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.batching import pad_rows
from medal_judges.models.llm.chat_template import STOP, Prompts
from medal_judges.models.llm.local.likelihood import (
    cache_argument,
    can_share_prefix,
    is_tested,
    takes_argument,
)
from medal_judges.models.llm.protocol import JSON_LAYOUT, ChatRequest

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


THOUGHT_END = 8  # tokens that the end of a block of thoughts can have
# A shorter common beginning is not worth a pass of its own.
SHARED_TOKENS = 64


class GeneratedAnswer(NamedTuple):
    """A generated answer to one prompt.

    Attributes:
        ids: The token ids of the answer.
        ended: Whether the model itself ended the answer. False: it was cut at the token limit.
        cached: How many tokens at the beginning of the prompt were not computed for this prompt,
            because the computation of another prompt of the batch was copied.
    """

    ids: list[int]
    ended: bool
    cached: int


def prompt_batches(
    model: PreTrainedModel,
    prompts: Prompts,
    requests: Sequence[ChatRequest],
    budget: int,
) -> Iterator[list[int]]:
    """Yields batches of prompts, each as a list of indices into ``prompts``. All prompts of a batch
    have the same ``max_tokens``.

    Prompts with the same beginning form a group and follow each other. Groups with longer prompts
    come first.

    Args:
        model: The network. If its architecture is not one of the tested ones, each batch has one
            prompt.
        prompts: The token ids of each prompt.
        requests: The request of each prompt.
        budget: The maximum number of tokens of a batch, with padding and answers. A longer prompt
            has a batch of its own.
    """
    alone = not is_tested(model.config)
    by_limit: dict[int, list[int]] = {}
    for index, request in enumerate(requests):
        by_limit.setdefault(request.max_tokens, []).append(index)
    for max_tokens, indices in by_limit.items():
        groups = _group_by_beginning(prompts, indices)
        groups.sort(key=lambda group: -max(len(prompts[i]) for i in group))
        batch: list[int] = []
        longest = 0
        for i in chain.from_iterable(groups):
            length = len(prompts[i]) + max_tokens
            longest = max(longest, length)
            if batch and (alone or (len(batch) + 1) * longest > budget):
                yield batch
                batch, longest = [], length
            batch.append(i)
        yield batch


def generate_batch(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    requests: Sequence[ChatRequest],
    *,
    thinks: bool = False,
) -> list[GeneratedAnswer]:
    """Returns the answers of ``model`` to one batch of prompts.

    Args:
        prompts: The token ids of each prompt.
        requests: The request of each prompt, with its sampling settings and JSON schema. All have
            the same ``max_tokens``.
        thinks: Whether the model thinks before it answers. If so, the schema applies after the
            thoughts.

    Raises:
        MissingExtraError: A request has a schema, and the package llguidance is not installed.
        ConfigError: A request has a schema, and llguidance does not support the tokenizer.
    """
    pad = tokenizer.pad_token_id
    if pad is None:
        pad = tokenizer.eos_token_id or 0
    inputs = prepare_cached_inputs(model, prompts, pad)
    begin = inputs.ids.shape[1]
    settings: dict[str, Any] = {}
    if inputs.cache is not None:
        settings[cache_argument(model)] = inputs.cache
    generator: Any = model  # its annotations know no ``generate``
    with torch.inference_mode():
        sequences = generator.generate(
            input_ids=inputs.ids,
            attention_mask=inputs.mask,
            max_new_tokens=requests[0].max_tokens,
            do_sample=False,  # SeededSampling samples, row by row
            temperature=None,
            top_p=None,
            top_k=None,
            num_beams=1,  # this and the next three override a model's own defaults
            repetition_penalty=1.0,
            no_repeat_ngram_size=0,
            min_length=0,
            pad_token_id=pad,
            logits_processor=_logits_processors(tokenizer, requests, begin, thinks),
            **settings,
        )
    written = sequences[:, begin:]
    ends = {tokenizer.eos_token_id, *end_token_ids(model)}
    rows = []
    for index, ids in enumerate(written.tolist()):
        length = next((k for k, token in enumerate(ids) if token in ends), len(ids))
        ended = length < len(ids) or len(ids) < requests[index].max_tokens
        rows.append(GeneratedAnswer(ids[:length], ended, inputs.cached[index]))
    return rows


def end_token_ids(model: PreTrainedModel) -> list[int | None]:
    """Returns the ids of the tokens that end an answer, from the generation config of ``model``. If
    the config names none, returns ``[None]``."""
    ids: Any = model.generation_config.eos_token_id
    return ids if isinstance(ids, list) else [ids]


def _logits_processors(
    tokenizer: PreTrainedTokenizerBase,
    requests: Sequence[ChatRequest],
    begin: int,
    thinks: bool,
) -> LogitsProcessorList:
    """Returns the logits processors of a batch, for the JSON schemas, the penalties and the
    sampling.

    Args:
        tokenizer: The tokenizer of the model.
        requests: The request of each row of the batch.
        begin: The column at which the answers begin, after the padded prompts.
        thinks: Whether the model thinks before it answers.
    """
    processors = LogitsProcessorList()
    schemas = [request.schema for request in requests]
    if any(schema is not None for schema in schemas):
        processors.append(GrammarMask(tokenizer, schemas, thinks=thinks))
    if any(r.presence_penalty or r.frequency_penalty for r in requests):
        processors.append(Penalties(requests, begin))
    if any(r.temperature > 0 for r in requests):
        processors.append(SeededSampling(requests))
    return processors


# -- shared beginnings -----------------------------------------------------------------------------


class Inputs(NamedTuple):
    """The inputs of transformers' ``generate`` for a batch of prompts, one prompt in each row.

    Attributes:
        ids: The token ids, padded, [rows, columns].
        mask: The attention mask, [rows, columns]: 1 for tokens, 0 for padding.
        cache: The key-value cache of the beginnings that prompts share, or None if they share none.
        cached: For each row, how many of its tokens were not computed, because the computation of
            another row was copied.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    cache: Any
    cached: list[int]


def prepare_cached_inputs(
    model: PreTrainedModel,
    prompts: Prompts,
    pad: int,
    shortest: int = SHARED_TOKENS,
) -> Inputs:
    """Returns a padded batch for transformers' ``generate``, with a key-value cache of shared
    beginnings.

    A beginning that several prompts share is computed once, here.

    Args:
        model: The network that computes the shared beginnings.
        prompts: The token ids of each prompt.
        pad: The id of the token for padding on the left.
        shortest: The minimum length of a shared beginning in tokens.
    """
    groups = [[index] for index in range(len(prompts))]
    if can_share_prefix(model.config):
        groups = _group_by_beginning(prompts, range(len(prompts)), shortest)
    if len(groups) == len(prompts):
        ids, mask = _pad_left(model, prompts, pad)
        return Inputs(ids, mask, None, [0] * len(prompts))
    rows = np.zeros(len(prompts), dtype=int)  # of each prompt, that of its beginning
    heads = np.zeros_like(rows)  # tokens of the beginning
    for row, group in enumerate(groups):
        rows[group] = row
        heads[group] = shareable_prefix_length([prompts[index] for index in group])
    firsts = [group[0] for group in groups]
    ids, mask = _pad_left(model, [prompts[i][: heads[i]] for i in firsts], pad)
    extra: dict[str, Any] = {}
    if takes_argument(model, "logits_to_keep"):
        extra["logits_to_keep"] = 1
    if takes_argument(model, "position_ids"):
        extra["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)
    with torch.inference_mode():
        out = model(input_ids=ids, attention_mask=mask, use_cache=True, **extra)
        chosen = torch.tensor(rows, device=model.device)
        cache = getattr(out, cache_argument(model))
        cache.batch_select_indices(chosen)
    tails = [prompt[head:] for prompt, head in zip(prompts, heads, strict=True)]
    tail_ids, tail_mask = _pad_left(model, tails, pad)
    heads[firsts] = 0  # these were read, the others copied
    return Inputs(
        torch.cat([ids[chosen], tail_ids], 1),
        torch.cat([mask[chosen], tail_mask], 1),
        cache,
        heads.tolist(),
    )


def _group_by_beginning(
    prompts: Prompts, indices: Iterable[int], shortest: int = SHARED_TOKENS
) -> list[list[int]]:
    """Divides ``indices`` of prompts into groups whose prompts begin with the same tokens, and
    returns the groups.

    Args:
        prompts: The token ids of each prompt.
        shortest: The minimum number of tokens that neighbours in a group share. They also share at
            least half of the shorter prompt.
    """
    groups: list[list[int]] = []
    before: Sequence[int] = ()
    for index in sorted(indices, key=lambda index: tuple(prompts[index])):
        prompt = prompts[index]
        enough = max(shortest, min(len(before), len(prompt)) // 2)
        if shareable_prefix_length([before, prompt]) >= enough:
            groups[-1].append(index)
        else:
            groups.append([index])
        before = prompt
    return groups


def shareable_prefix_length(prompts: Prompts) -> int:
    """Returns how many tokens at the beginning are the same in all ``prompts``.

    The last token of the shortest prompt never counts, because the model must read at least one
    token of each prompt.

    Args:
        prompts: The token ids of each prompt.
    """
    shortest = min(map(len, prompts))
    for position, tokens in enumerate(zip(*prompts, strict=False)):
        if position >= shortest - 1 or len(set(tokens)) > 1:
            return position
    return 0


def _pad_left(
    model: PreTrainedModel, prompts: Prompts, pad: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ``prompts`` as token ids and mask [rows, longest], padded on the left with the token
    ``pad``."""
    ids, mask = pad_rows([prompt[::-1] for prompt in prompts], pad)
    return ids.flip(1).to(model.device), mask.flip(1).to(model.device)


# -- logits processors: each shapes a row by its own request, whatever its batch -------------------


class SeededSampling(LogitsProcessor):
    """A logits processor that draws each token at random, with the seed of its row's request. Use
    it with ``generate(do_sample=False)``.

    It adds random noise to the logits, so that the token with the highest sum is a sample. Rows
    with temperature 0 do not change.

    Args:
        requests: The request of each row, with temperature, ``top_p`` and seed.
    """

    def __init__(self, requests: Sequence[ChatRequest]) -> None:
        self.requests = list(requests)
        self.generators = [torch.Generator().manual_seed(r.seed or 0) for r in requests]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        drawn = scores.clone()
        for row, request in enumerate(self.requests):
            if request.temperature > 0:
                tempered = scores[row].float() / request.temperature
                logits = _keep_top_p(tempered, request.top_p)
                uniform = torch.rand(logits.shape[-1], generator=self.generators[row])
                # Gumbel noise: the highest sum is a draw from the softmax (Gumbel, 1954).
                exponential = -torch.log(uniform.to(logits.device).clamp_min(1e-20))
                drawn[row] = logits - torch.log(exponential.clamp_min(1e-20))
        return drawn


def _keep_top_p(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Returns ``logits`` with -inf for tokens outside the nucleus: the most likely tokens that
    together reach the probability ``top_p``."""
    if top_p >= 1:
        return logits
    likeliest, ids = logits.sort(descending=True)
    probabilities = likeliest.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    cut = torch.full_like(logits, float("-inf"))
    keep = ids[before < top_p]
    cut[keep] = logits[keep]
    return cut


class Penalties(LogitsProcessor):
    """A logits processor that lowers the logits of tokens that an answer already contains, by the
    presence and frequency penalties of its request.

    Args:
        requests: The request of each row, with its penalties.
        prompt: The number of columns of the padded prompts. The answers begin after them.
    """

    def __init__(self, requests: Sequence[ChatRequest], prompt: int) -> None:
        self.penalties = [(r.presence_penalty, r.frequency_penalty) for r in requests]
        self.prompt = prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        lowered = scores.clone()
        for row, (presence, frequency) in enumerate(self.penalties):
            if presence or frequency:
                answer = input_ids[row, self.prompt :]
                counts = torch.bincount(answer, minlength=scores.shape[1])
                penalty = presence * (counts > 0) + frequency * counts
                lowered[row] -= penalty.to(scores.dtype)
        return lowered


class GrammarMask(LogitsProcessor):
    """A logits processor that lets each row write only JSON that fits the row's schema, and then
    the end token.

    Create a new object for each call of transformers' ``generate``, because it keeps the state of
    every row.

    Args:
        tokenizer: The tokenizer of the model.
        schemas: The JSON schema of each row. None allows any text.
        thinks: Whether a row may write thoughts before the JSON.

    Raises:
        MissingExtraError: The package llguidance is not installed.
        ConfigError: llguidance does not support the tokenizer. This is raised when the first token
            is chosen.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        schemas: Sequence[Mapping[str, Any] | None],
        *,
        thinks: bool = False,
    ) -> None:
        if find_spec("llguidance") is None:
            raise MissingExtraError(
                "llguidance", "llm", "holding a local model to a JSON schema"
            )
        self.tokenizer, self.schemas = tokenizer, schemas
        self.thoughts = [thinks] * len(schemas)  # whether each row still thinks
        self.matchers: list[Any] = []  # one per row from the first call on

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self.matchers:
            self._advance_matchers(input_ids)
        else:
            self._create_matchers(scores.shape[1])
        allowed = np.ones(scores.shape, dtype=bool)
        for row, matcher, is_thought in zip(
            allowed, self.matchers, self.thoughts, strict=True
        ):
            if matcher is not None and not is_thought:
                # After the JSON it allows the end only.
                bias = np.frombuffer(matcher.compute_logit_bias(), dtype=np.uint8)
                row[:] = bias[: len(row)] > 0
        mask = torch.from_numpy(~allowed).to(scores.device)
        return scores.masked_fill(mask, float("-inf"))

    def _create_matchers(self, words: int) -> None:
        """Creates a grammar checker for each row that has a JSON schema. ``words`` is the size of
        the vocabulary."""
        from llguidance import LLMatcher

        view = _to_llguidance_tokenizer(self.tokenizer, words)
        for schema in self.schemas:
            matcher = None
            if schema is not None:
                grammar = LLMatcher.grammar_from_json_schema(
                    json.dumps(dict(schema)), defaults=JSON_LAYOUT
                )
                matcher = LLMatcher(view, grammar)
            self.matchers.append(matcher)

    def _advance_matchers(self, input_ids: torch.Tensor) -> None:
        """Tells the grammar checker of each row the token that was generated last.

        Args:
            input_ids: [rows, columns] token ids so far.
        """
        for index, ids in enumerate(input_ids[:, -THOUGHT_END:].tolist()):
            matcher, token = self.matchers[index], ids[-1]
            if matcher is None or matcher.is_stopped():
                continue  # the object is complete; the end and padding follow
            if self.thoughts[index]:
                self.thoughts[index] = STOP not in self.tokenizer.decode(ids)
            elif token == self.tokenizer.eos_token_id:
                self.matchers[index] = None  # padding follows
            elif not matcher.consume_token(token):
                problem = matcher.get_error()
                raise RuntimeError(f"a token outside the grammar was chosen: {problem}")


@lru_cache(maxsize=4)
def _to_llguidance_tokenizer(tokenizer: PreTrainedTokenizerBase, words: int) -> Any:
    """Returns ``tokenizer`` in the form that llguidance needs. ``words`` is the size of the
    vocabulary. Raises ConfigError if llguidance does not support the tokenizer."""
    from llguidance.hf import from_tokenizer

    # Some tokenizers have a token more than the network has vectors (Gemma 3's for images).
    size = max(words, len(tokenizer))
    try:
        return from_tokenizer(tokenizer, n_vocab=size)  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigError(
            f"no grammar works with this tokenizer: {error}",
            hint="Use a model with a fast tokenizer, or set enforce: false in a judge's file, "
            "model.head: scoring in a LoRA training",
        ) from error
