"""Generates answers with a local model in batches; a shared beginning of prompts is read once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.batching import pad_rows
from medal_judges.models.llm.chat_template import Prompts
from medal_judges.models.llm.local.likelihood import (
    cache_name,
    is_tested,
    reads_beginnings_once,
    takes,
)
from medal_judges.models.llm.protocol import (
    JSON_LAYOUT,
    ChatRequest,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


# A shorter common beginning is not worth a pass of its own.
SHARED_TOKENS = 64


class Row(NamedTuple):
    """The ``ids`` written after one prompt, whether the model ``ended`` there, and how many tokens
    of the prompt were read for another row (``cached``). ``logprobs``: of each written token, its
    own log-probability, and the ids and log-probabilities of the likeliest, likeliest first."""

    ids: list[int]
    ended: bool
    logprobs: Sequence[tuple[float, list[int], list[float]]]
    cached: int


def batches(
    model: PreTrainedModel,
    prompts: Prompts,
    requests: Sequence[ChatRequest],
    budget: int,
) -> Iterator[list[int]]:
    """Indices of prompts for batches of at most ``budget`` padded tokens. The number of
    alternatives is a setting of the batch, so requests that differ in it are in different ones."""
    alone = not is_tested(model.config)
    for top_logprobs in sorted({request.top_logprobs for request in requests}):
        indices = [i for i, r in enumerate(requests) if r.top_logprobs == top_logprobs]
        groups = _alike(prompts, indices)
        groups.sort(key=lambda group: -max(len(prompts[i]) for i in group))
        batch: list[int] = []
        longest = 0
        for i in chain.from_iterable(groups):
            length = len(prompts[i]) + requests[i].max_tokens
            longest = max(longest, length)
            if batch and (alone or (len(batch) + 1) * longest > budget):
                yield batch
                batch, longest = [], length
            batch.append(i)
        if batch:
            yield batch


def write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    requests: Sequence[ChatRequest],
    stop: str = "",
) -> list[Row]:
    """Generates the rows of one batch; with ``stop`` a row also ends after that text."""
    pad = tokenizer.pad_token_id
    if pad is None:
        pad = tokenizer.eos_token_id or 0
    inputs = read_inputs(model, prompts, pad)
    shaped = _processors(tokenizer, requests, inputs.ids.shape[1], stop)
    limits = [request.max_tokens for request in requests]
    top = requests[0].top_logprobs
    written, recorder = greedy(
        model, inputs, pad=pad, shaped=shaped, tokens=max(limits), top=top
    )
    logprobs: list[Any] = [[]] * len(prompts)
    if top:
        logprobs = recorder.rows()
    ends = {tokenizer.eos_token_id, *end_ids(model)}
    rows = []
    for index, ids in enumerate(written.tolist()):
        limit = min(len(ids), limits[index])
        length = next((k for k in range(limit) if ids[k] in ends), limit)
        steps = logprobs[index][:length]
        rows.append(Row(ids[:length], length < limit, steps, inputs.cached[index]))
    return rows


def end_ids(model: PreTrainedModel) -> list[int | None]:
    """The tokens at which the model's own settings end an answer."""
    ids: Any = model.generation_config.eos_token_id
    return ids if isinstance(ids, list) else [ids]


def _processors(
    tokenizer: PreTrainedTokenizerBase,
    requests: Sequence[ChatRequest],
    begin: int,
    stop: str,
) -> LogitsProcessorList:
    """What shapes the logits of each row by its request; the answers begin at column ``begin``."""
    shaped = LogitsProcessorList()
    schemas = [request.schema for request in requests]
    if any(schema is not None for schema in schemas):
        shaped.append(GrammarMask(tokenizer, schemas))
    if any(r.presence_penalty or r.frequency_penalty for r in requests):
        shaped.append(Penalties(requests, begin))
    if any(r.temperature > 0 for r in requests):
        shaped.append(SeededSampling(requests))
    if stop:
        shaped.append(StopAfter(stop, begin, tokenizer))
    limits = [request.max_tokens for request in requests]
    shaped.append(MaxTokens(limits, begin, tokenizer.eos_token_id))
    return shaped


def greedy(
    model: PreTrainedModel,
    inputs: Inputs,
    *,
    pad: int,
    shaped: LogitsProcessorList,
    tokens: int,
    top: int,
) -> tuple[torch.Tensor, LogprobRecorder]:
    """Greedy tokens [batch, new] after ``inputs``, and the log-probabilities of each and of the
    ``top`` likeliest (0: nothing is recorded)."""
    recorder = LogprobRecorder(top)
    extra = {} if inputs.cache is None else {cache_name(model): inputs.cache}
    hook = model.register_forward_hook(recorder.read) if top else None
    criteria = []
    if top:
        criteria = [recorder]
    generator: Any = model  # its annotations know no ``generate``
    try:
        with torch.inference_mode():
            out = generator.generate(
                input_ids=inputs.ids,
                attention_mask=inputs.mask,
                max_new_tokens=tokens,
                do_sample=False,  # SeededSampling samples, row by row
                temperature=None,
                top_p=None,
                top_k=None,
                num_beams=1,  # this and the next three override a model's own defaults
                repetition_penalty=1.0,
                no_repeat_ngram_size=0,
                min_length=0,
                pad_token_id=pad,
                logits_processor=shaped,
                stopping_criteria=StoppingCriteriaList(criteria),
                return_dict_in_generate=True,
                **extra,
            )
    finally:
        if hook is not None:
            hook.remove()
    return out.sequences[:, inputs.ids.shape[1] :], recorder


class LogprobRecorder(StoppingCriteria):
    """Records, at each step of ``generate``, the model's own log-probabilities before any grammar
    or temperature: of the token written and of the ``count`` likeliest.

    ``read`` is a hook of the forward pass. ``generate`` calls a stopping criterion after each
    token, so the recorder is one that stops nothing.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._logprobs = torch.empty(0)  # of the newest step, [rows, words]
        self._written: list[torch.Tensor] = []  # [rows] a step
        # Ids and log-probabilities, both [rows, count] a step.
        self._top: list[tuple[torch.Tensor, torch.Tensor]] = []

    def read(self, _: nn.Module, __: object, output: Any) -> None:
        self._logprobs = torch.log_softmax(output.logits[:, -1].float(), dim=-1)

    def __call__(
        self, input_ids: torch.Tensor, scores: object, **_: object
    ) -> torch.Tensor:
        """Records the step that wrote the last of ``input_ids`` [rows, tokens]."""
        chosen = input_ids[:, -1:].to(self._logprobs.device)
        self._written.append(self._logprobs.gather(1, chosen)[:, 0])
        values, ids = self._logprobs.topk(min(self.count, self._logprobs.shape[-1]))
        self._top.append((ids, values))
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    def written(self) -> torch.Tensor:
        """Log-probabilities of the written tokens, [rows, steps]."""
        return torch.stack(self._written, dim=1)

    def rows(self) -> list[list[tuple[float, list[int], list[float]]]]:
        """The steps of each row."""
        ids = torch.stack([ids for ids, _ in self._top], dim=1).tolist()
        logprobs = torch.stack([values for _, values in self._top], dim=1).tolist()
        rows = []
        for row in zip(self.written().tolist(), ids, logprobs, strict=True):
            rows.append(list(zip(*row, strict=True)))
        return rows


# -- shared beginnings -----------------------------------------------------------------------------


class Inputs(NamedTuple):
    """A batch for ``generate``: ids and mask [rows, columns], the ``cache`` of the first columns if
    these were read already, and how many tokens of each row were read for another one."""

    ids: torch.Tensor
    mask: torch.Tensor
    cache: Any
    cached: list[int]


def read_inputs(
    model: PreTrainedModel,
    prompts: Prompts,
    pad: int,
    shortest: int = SHARED_TOKENS,
) -> Inputs:
    """``prompts`` padded at the left. A beginning of at least ``shortest`` tokens that several
    prompts share is read once if the model allows it: the columns are then the left-padded
    beginnings, which are in the cache, and the left-padded rests."""
    groups = [[index] for index in range(len(prompts))]
    if reads_beginnings_once(model.config):
        groups = _alike(prompts, range(len(prompts)), shortest)
    if len(groups) == len(prompts):
        ids, mask = _padded(model, prompts, pad)
        return Inputs(ids, mask, None, [0] * len(prompts))
    lengths = np.array([len(prompt) for prompt in prompts])
    rows = np.zeros_like(lengths)  # of each prompt, that of its beginning
    heads = np.zeros_like(lengths)  # tokens of the beginning
    for row, group in enumerate(groups):
        rows[group] = row
        heads[group] = common_length([prompts[index] for index in group])
    # Of a prompt that shares nothing only its end has to go through the pass of all.
    alone = np.bincount(rows)[rows] == 1
    longest_tail = (lengths - heads)[~alone].max()
    heads[alone] = np.maximum(1, lengths[alone] - longest_tail)
    firsts = [group[0] for group in groups]
    ids, mask = _padded(model, [prompts[i][: heads[i]] for i in firsts], pad)
    extra: dict[str, Any] = {}
    if takes(model, "logits_to_keep"):
        extra["logits_to_keep"] = 1
    if takes(model, "position_ids"):
        extra["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)
    with torch.inference_mode():
        out = model(input_ids=ids, attention_mask=mask, use_cache=True, **extra)
        chosen = torch.tensor(rows, device=model.device)
        cache = getattr(out, cache_name(model))
        cache.batch_select_indices(chosen)
    tails = [prompt[head:] for prompt, head in zip(prompts, heads, strict=True)]
    tail_ids, tail_mask = _padded(model, tails, pad)
    heads[firsts] = 0  # these were read, the others copied
    return Inputs(
        torch.cat([ids[chosen], tail_ids], 1),
        torch.cat([mask[chosen], tail_mask], 1),
        cache,
        heads.tolist(),
    )


def _alike(
    prompts: Prompts, indices: Iterable[int], shortest: int = SHARED_TOKENS
) -> list[list[int]]:
    """Groups ``indices`` of prompts. In the order of their tokens, two neighbours are in one group
    if they share at least half of the shorter prompt as their beginning."""
    groups: list[list[int]] = []
    before: Sequence[int] = ()
    for index in sorted(indices, key=lambda index: tuple(prompts[index])):
        prompt = prompts[index]
        enough = max(shortest, min(len(before), len(prompt)) // 2)
        if common_length([before, prompt]) >= enough:
            groups[-1].append(index)
        else:
            groups.append([index])
        before = prompt
    return groups


def common_length(prompts: Prompts) -> int:
    """The number of tokens that all prompts begin with; at most one less than the shortest has."""
    shortest = min(map(len, prompts))
    for position, tokens in enumerate(zip(*prompts, strict=False)):
        if position >= shortest - 1 or len(set(tokens)) > 1:
            return position
    return 0


def _padded(
    model: PreTrainedModel, prompts: Prompts, pad: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask [rows, longest], padded at the left."""
    ids, mask = pad_rows([prompt[::-1] for prompt in prompts], pad)
    return ids.flip(1).to(model.device), mask.flip(1).to(model.device)


# -- logits processors: each shapes a row by its own request, whatever its batch -------------------

FEW = 256  # words in which the nucleus is searched first
# tokenizer -> {vocabulary size: llguidance's view of it}, which takes about a second to build
_WRAPPED: WeakKeyDictionary[Any, dict[int, Any]] = WeakKeyDictionary()


class SeededSampling(LogitsProcessor):
    """Turns greedy decoding into sampling: adds Gumbel noise to tempered, nucleus-cut scores.

    The argmax of logits + Gumbel noise is a draw from their softmax (Gumbel, 1954), so each row of
    a batch has its own temperature, nucleus and seed, and ``generate`` needs no change. A request
    without a seed gets 0.
    """

    def __init__(self, requests: Sequence[ChatRequest]) -> None:
        self.requests = list(requests)
        self.generators = [torch.Generator().manual_seed(r.seed or 0) for r in requests]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        drawn = scores.clone()
        for row, request in enumerate(self.requests):
            if request.temperature > 0:
                tempered = scores[row].float() / request.temperature
                logits = _nucleus(tempered, request.top_p)
                uniform = torch.rand(logits.shape[-1], generator=self.generators[row])
                exponential = -torch.log(uniform.to(logits.device).clamp_min(1e-20))
                drawn[row] = logits - torch.log(exponential.clamp_min(1e-20))
        return drawn


def _nucleus(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Logits of the likeliest words whose probability adds up to ``top_p``; -inf for the rest."""
    if top_p >= 1:
        return logits
    total = logits.logsumexp(dim=-1)
    # Sorting a whole vocabulary for each row and token takes longer than the rest of sampling.
    for count in (min(FEW, logits.shape[-1]), logits.shape[-1]):
        likeliest, ids = logits.topk(count)
        probabilities = (likeliest - total).exp()
        if float(probabilities.sum()) >= top_p:
            break
    before = probabilities.cumsum(dim=-1) - probabilities
    cut = torch.full_like(logits, float("-inf"))
    keep = ids[before < top_p]
    cut[keep] = logits[keep]
    return cut


class Penalties(LogitsProcessor):
    """Subtracts each request's ``presence_penalty`` from the logits of tokens that its answer
    already contains, and ``frequency_penalty`` for each time, as OpenAI and vLLM define them; the
    prompt's tokens do not count."""

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


class MaxTokens(LogitsProcessor):
    """Ends each row at its own token limit, so that short answers do not wait for long ones."""

    def __init__(self, limits: Sequence[int], prompt: int, end: int) -> None:
        self.limits, self.prompt, self.end = list(limits), prompt, end

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        written = input_ids.shape[1] - self.prompt
        for row, limit in enumerate(self.limits):
            if written >= limit:
                scores[row] = float("-inf")
                scores[row, self.end] = 0
        return scores


class StopAfter(LogitsProcessor):
    """Ends each row once its answer contains the text ``stop``."""

    def __init__(
        self, stop: str, prompt: int, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self.stop, self.prompt, self.tokenizer = stop, prompt, tokenizer
        # A token is at least a byte, and the text may begin and end inside one.
        self.reach = len(stop.encode()) + 2

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        newest = input_ids[:, self.prompt :][:, -self.reach :]
        for row, ids in enumerate(newest.tolist()):
            if self.stop in self.tokenizer.decode(ids):
                scores[row] = float("-inf")
                scores[row, self.tokenizer.eos_token_id] = 0
        return scores


class GrammarMask(LogitsProcessor):
    """Makes row i write JSON of ``schemas[i]`` (None: anything), then end. For one call of
    ``generate`` only.

    Raises MissingExtraError without llguidance, ConfigError for a schema or tokenizer it refuses.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        schemas: Sequence[Mapping[str, Any] | None],
    ) -> None:
        if find_spec("llguidance") is None:
            raise MissingExtraError(
                "llguidance", "llm", "holding a local model to a JSON schema"
            )
        self.tokenizer = tokenizer
        self.grammars: list[str | None] = []
        for schema in schemas:
            grammar = None
            if schema is not None:
                grammar = _grammar(json.dumps(dict(schema)))
            self.grammars.append(grammar)
        self.matchers: list[Any] = []  # one per row from the first call on

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        words = scores.shape[1]
        if self.matchers:
            self._advance(input_ids[:, -1].tolist())
        else:
            self.matchers = self._first_matchers(words)
        allowed = np.zeros((len(self.matchers), words), dtype=bool)
        for row, matcher in zip(allowed, self.matchers, strict=True):
            if matcher is None:
                row[:] = True
            elif matcher.is_stopped():
                row[self.tokenizer.eos_token_id] = True  # only the end follows the JSON
            else:
                bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
                next_words = np.unpackbits(bits, bitorder="little")[:words]
                row[: len(next_words)] = next_words
        mask = torch.from_numpy(~allowed).to(scores.device)
        return scores.masked_fill(mask, float("-inf"))

    def _advance(self, tokens: Sequence[int]) -> None:
        """Tells the matcher of each row the token that was written."""
        for index, (token, matcher) in enumerate(
            zip(tokens, self.matchers, strict=True)
        ):
            if matcher is None or matcher.is_stopped():
                continue  # the object is complete; the end and padding follow
            if token == self.tokenizer.eos_token_id:
                self.matchers[index] = None  # cut at its token limit; padding follows
            elif not matcher.consume_token(token):
                problem = matcher.get_error()
                raise RuntimeError(f"a token outside the grammar was chosen: {problem}")

    def _first_matchers(self, words: int) -> list[Any]:
        """Returns a matcher for each row; rows mostly share a few grammars."""
        from llguidance import LLMatcher

        view = self._wrapped(words)
        compiled: dict[str, Any] = {}
        matchers = []
        for grammar in self.grammars:
            matcher = None
            if grammar is not None:
                if grammar not in compiled:
                    compiled[grammar] = LLMatcher(view, grammar)
                matcher = compiled[grammar].deep_copy()
            matchers.append(matcher)
        return matchers

    def _wrapped(self, words: int) -> Any:
        """Returns llguidance's view of the tokenizer for a network with ``words`` logits."""
        from llguidance.hf import from_tokenizer

        by_size = _WRAPPED.setdefault(self.tokenizer, {})
        if words not in by_size:
            # Some tokenizers have a token more than the network has vectors (Gemma 3's for images).
            size = max(words, len(self.tokenizer))
            try:
                by_size[words] = from_tokenizer(self.tokenizer, n_vocab=size)  # type: ignore[arg-type]
            except ValueError as error:
                raise ConfigError(
                    f"no grammar works with this tokenizer: {error}",
                    hint="use a model with a fast tokenizer; else set enforce: false in a "
                    "judge's file, model.head: scoring in a LoRA training",
                ) from error
        return by_size[words]


@lru_cache(maxsize=64)
def _grammar(schema: str) -> str:
    """Returns llguidance's grammar of a JSON schema. Raises ConfigError."""
    from llguidance import LLMatcher

    try:
        grammar: str = LLMatcher.grammar_from_json_schema(schema, defaults=JSON_LAYOUT)
        problem = LLMatcher.validate_grammar(grammar)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise ConfigError(f"no grammar can be made of the schema: {problem}")
    return grammar
