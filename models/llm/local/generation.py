"""Generates answers with a local model in batches; a shared beginning of prompts is read once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
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
from medal_judges.models.llm.chat_template import Prompts
from medal_judges.models.llm.local.likelihood import cache_name, takes
from medal_judges.models.llm.protocol import (
    JSON_LAYOUT,
    ChatRequest,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


# A shorter common beginning is not worth a pass of its own.
SHARED_TOKENS = 64
# Which prompts go into one batch. shared: any, and a common beginning is read once. left: any,
# padded at the left. alone: one. trial.py finds what a model allows.
Batching = Literal["shared", "left", "alone"]


class Row(NamedTuple):
    """The ``ids`` written after one prompt, whether the model ``ended`` there, and how many tokens
    of the prompt were read for another row (``cached``). ``logprobs``: of each written token, its
    own log-probability, and the ids and log-probabilities of the likeliest, likeliest first."""

    ids: list[int]
    ended: bool
    logprobs: Sequence[tuple[float, list[int], list[float]]]
    cached: int


def batches(
    prompts: Prompts, requests: Sequence[ChatRequest], budget: int, batching: Batching
) -> Iterator[list[int]]:
    """Indices of prompts for batches of at most ``budget`` padded tokens. The number of
    alternatives is a setting of the batch, so requests that differ in it are in different ones."""
    for top_logprobs in sorted({request.top_logprobs for request in requests}):
        indices = [i for i, r in enumerate(requests) if r.top_logprobs == top_logprobs]
        if batching == "shared":
            groups = _alike(prompts, indices)
            groups.sort(key=lambda group: -max(len(prompts[i]) for i in group))
            indices = list(chain.from_iterable(groups))
        else:
            indices.sort(key=lambda i: -len(prompts[i]))
        batch: list[int] = []
        longest = 0
        for i in indices:
            length = len(prompts[i]) + requests[i].max_tokens
            longest = max(longest, length)
            if batch and (batching == "alone" or (len(batch) + 1) * longest > budget):
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
    *,
    shared: bool = False,
    stop: str = "",
) -> list[Row]:
    """Generates the rows of one batch; with ``stop`` a row also ends after that text."""
    pad = (
        tokenizer.eos_token_id
        if tokenizer.pad_token_id is None
        else tokenizer.pad_token_id
    )
    inputs = read_inputs(model, prompts, int(pad or 0), shared=shared)
    shaped = _processors(tokenizer, requests, inputs.ids.shape[1], stop)
    tokens, top = max(r.max_tokens for r in requests), requests[0].top_logprobs
    written, recorder = greedy(
        model, inputs, pad=int(pad or 0), shaped=shaped, tokens=tokens, top=top
    )
    logprobs = recorder.rows() if top else [[]] * len(prompts)
    ends = {tokenizer.eos_token_id, *end_ids(model)}
    rows = []
    for index, (ids, request) in enumerate(
        zip(written.tolist(), requests, strict=True)
    ):
        limit = min(len(ids), request.max_tokens)
        length = next((k for k in range(limit) if ids[k] in ends), limit)
        row = Row(
            ids[:length], length < limit, logprobs[index][:length], inputs.cached[index]
        )
        rows.append(row)
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
    if any(request.schema is not None for request in requests):
        shaped.append(GrammarMask(tokenizer, [request.schema for request in requests]))
    if any(
        request.presence_penalty or request.frequency_penalty for request in requests
    ):
        shaped.append(Penalties(requests, begin))
    if any(request.temperature > 0 for request in requests):
        shaped.append(SeededSampling(requests))
    if stop:
        shaped.append(StopAfter(stop, begin, tokenizer))
    shaped.append(
        MaxTokens([r.max_tokens for r in requests], begin, tokenizer.eos_token_id)
    )
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
    criteria = [recorder] if top else []
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
        self._top: list[
            tuple[torch.Tensor, torch.Tensor]
        ] = []  # each [rows, count] a step

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
        ids, logprobs = (
            torch.stack(steps, dim=1) for steps in zip(*self._top, strict=True)
        )
        columns = (self.written().tolist(), ids.tolist(), logprobs.tolist())
        return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)]


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
    *,
    shared: bool,
    shortest: int = SHARED_TOKENS,
) -> Inputs:
    """``prompts`` padded at the left. With ``shared`` every beginning of at least ``shortest``
    tokens that several prompts share is read once: the columns are then the left-padded beginnings,
    which are in the cache, and the left-padded rests."""
    groups = _alike(prompts, range(len(prompts)), shortest) if shared else []
    if all(len(group) == 1 for group in groups):
        ids, mask = _padded(model, prompts, pad)
        return Inputs(ids, mask, None, [0] * len(prompts))
    lengths = [common_length([prompts[i] for i in group]) for group in groups]
    longest_tail = 0  # of the prompts that share a beginning
    for group, length in zip(groups, lengths, strict=True):
        if len(group) > 1:
            longest_tail = max(longest_tail, *(len(prompts[i]) - length for i in group))
    heads, cached = [0] * len(prompts), [0] * len(prompts)
    rows, begun = [0] * len(prompts), []
    for row, (group, length) in enumerate(zip(groups, lengths, strict=True)):
        first = group[0]
        if len(group) == 1:  # only its end has to go through the pass of all
            length = max(1, len(prompts[first]) - longest_tail)
        begun.append(prompts[first][:length])
        for i in group:
            rows[i], heads[i], cached[i] = row, length, length
        cached[first] = 0
    ids, mask = _padded(model, begun, pad)
    extra: dict[str, Any] = (
        {"logits_to_keep": 1} if takes(model, "logits_to_keep") else {}
    )
    if takes(model, "position_ids"):
        extra["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)
    with torch.inference_mode():
        out = model(input_ids=ids, attention_mask=mask, use_cache=True, **extra)
        chosen = torch.tensor(rows, device=model.device)
        cache = getattr(out, cache_name(model))
        cache.batch_select_indices(chosen)
    tails = [prompt[head:] for prompt, head in zip(prompts, heads, strict=True)]
    tail_ids, tail_mask = _padded(model, tails, pad)
    ids = torch.cat([ids[chosen], tail_ids], 1)
    return Inputs(ids, torch.cat([mask[chosen], tail_mask], 1), cache, cached)


def _alike(
    prompts: Prompts, indices: Iterable[int], shortest: int = SHARED_TOKENS
) -> list[list[int]]:
    """Groups ``indices`` of prompts. In the order of their tokens, two neighbours are in one group
    if they share at least half of the shorter prompt as their beginning."""
    groups: list[list[int]] = []
    for i in sorted(indices, key=lambda i: tuple(prompts[i])):
        before = prompts[groups[-1][-1]] if groups else ()
        enough = max(shortest, min(len(before), len(prompts[i])) // 2)
        if groups and common_length([before, prompts[i]]) >= enough:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def common_length(prompts: Prompts) -> int:
    """The number of tokens that all prompts begin with; at most one less than the shortest has."""
    shortest, first = min(map(len, prompts)), prompts[0]
    differ = (k for k in range(shortest - 1) if any(p[k] != first[k] for p in prompts))
    return next(differ, shortest - 1)


def _padded(
    model: PreTrainedModel, prompts: Prompts, pad: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask [rows, longest], padded at the left."""
    longest = max(map(len, prompts))
    gaps = [longest - len(prompt) for prompt in prompts]
    ids = [[*[pad] * gap, *prompt] for gap, prompt in zip(gaps, prompts, strict=True)]
    mask = [[0] * gap + [1] * (longest - gap) for gap in gaps]
    return torch.tensor(ids, device=model.device), torch.tensor(
        mask, device=model.device
    )


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
                logits = _nucleus(
                    scores[row].float() / request.temperature, request.top_p
                )
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
                counts = torch.bincount(
                    input_ids[row, self.prompt :], minlength=scores.shape[1]
                )
                lowered[row] -= (presence * (counts > 0) + frequency * counts).to(
                    scores.dtype
                )
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
        for row, ids in enumerate(
            input_ids[:, self.prompt :][:, -self.reach :].tolist()
        ):
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
        from llguidance import LLMatcher

        texts = [
            None if schema is None else json.dumps(dict(schema)) for schema in schemas
        ]
        grammars: dict[str, str] = {}  # rows mostly share a few schemas
        for text in filter(None, dict.fromkeys(texts)):
            try:
                grammars[text] = LLMatcher.grammar_from_json_schema(
                    text, defaults=JSON_LAYOUT
                )
                problem = LLMatcher.validate_grammar(grammars[text])
            except ValueError as error:
                problem = str(error)
            if problem:
                raise ConfigError(f"no grammar can be made of the schema: {problem}")
        self.tokenizer = tokenizer
        self.grammars = [None if text is None else grammars[text] for text in texts]
        self.matchers: list[Any] = []  # one per row from the first call on

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        from llguidance import LLMatcher

        words, end = scores.shape[1], self.tokenizer.eos_token_id
        for index, (token, matcher) in enumerate(
            zip(input_ids[:, -1].tolist(), self.matchers, strict=False)
        ):
            if matcher is None or matcher.is_stopped():
                continue  # the object is complete; the end and padding follow
            if token == end:
                self.matchers[index] = None  # cut at its token limit; padding follows
            elif not matcher.consume_token(token):
                problem = matcher.get_error()
                raise RuntimeError(f"a token outside the grammar was chosen: {problem}")
        if not self.matchers:
            view = self._wrapped(words)
            first = {g: LLMatcher(view, g) for g in {*self.grammars} if g is not None}
            self.matchers = [
                None if g is None else first[g].deep_copy() for g in self.grammars
            ]
        allowed = np.zeros((len(self.matchers), words), dtype=bool)
        for row, matcher in zip(allowed, self.matchers, strict=True):
            if matcher is None:
                row[:] = True
            elif matcher.is_stopped():
                row[end] = True  # only the end follows the JSON
            else:
                bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
                next_words = np.unpackbits(bits, bitorder="little")[:words]
                row[: len(next_words)] = next_words
        mask = torch.from_numpy(~allowed).to(scores.device)
        return scores.masked_fill(mask, float("-inf"))

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
