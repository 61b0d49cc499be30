"""Answers of a local model, in batches; prompts that begin alike have their beginning read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.local.likelihood import logits_at
from medal_judges.models.llm.protocol import ChatRequest, Completion, TokenChoice

if TYPE_CHECKING:
    import torch
    from transformers import LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerBase

# A common beginning shorter than this is not worth a pass of its own.
SHARED_TOKENS = 64
Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Batching:
    """How prompts of one model may be put together; what is safe is found out in paths.py.

    ``padding``: ``middle`` pads between a beginning that is read once and the rest of each prompt,
    ``left`` in front, ``none`` keeps prompts of other lengths apart, ``alone`` each prompt.
    ``shared``: the common beginning of prompts of one length is read once (with ``middle``, of any
    prompts).
    """

    padding: Literal["middle", "left", "none", "alone"] = "middle"
    shared: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """What was written after one prompt: the ``ids`` up to the end or to the request's limit,
    whether the model ``ended`` there, the model's own ``logits`` [words] of each where they were
    asked for, and how many tokens of the prompt were ``shared``: read for another row."""

    ids: list[int]
    ended: bool
    logits: list[torch.Tensor]
    shared: int


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    requests: Sequence[ChatRequest],
    *,
    budget: int,
    batching: Batching,
    stop: str = "",
) -> Iterator[tuple[int, Row]]:
    """(index, row) for each prompt (token ids), a batch at a time; with ``stop`` a row also ends
    behind that text. A row does not depend on its batch."""
    for batch in batches(prompts, requests, budget, batching):
        asked, own = [requests[i] for i in batch], [prompts[i] for i in batch]
        shared = shared_length(own, batching)
        yield from zip(batch, write(model, tokenizer, own, asked, shared, stop), strict=True)


def write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    requests: Sequence[ChatRequest],
    shared: int = 0,
    stop: str = "",
) -> Iterator[Row]:
    """The rows of one batch, whose prompts begin with the same ``shared`` tokens."""
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    # An encoder's prompt is no part of what its decoder writes, which begins with one token.
    begin = 1 if model.config.is_encoder_decoder else max(map(len, prompts))
    new, logits = written(
        model,
        prompts,
        shared,
        pad=int(pad or 0),
        shaped=processors(tokenizer, requests, begin, stop),
        tokens=max(r.max_tokens for r in requests),
        logits=requests[0].top_logprobs > 0,
    )
    own: Any = model.generation_config.eos_token_id
    ends = {*(own if isinstance(own, list) else [own]), tokenizer.eos_token_id}
    for index, (tokens, request) in enumerate(zip(new.tolist(), requests, strict=True)):
        limit = min(len(tokens), request.max_tokens)
        length = next((k for k in range(limit) if tokens[k] in ends), limit)
        steps = [] if logits is None else [step[index] for step in logits[:length]]
        yield Row(tokens[:length], length < limit, steps, shared if index else 0)


def to_completion(
    tokenizer: PreTrainedTokenizerBase, row: Row, request: ChatRequest, prompt: int
) -> Completion:
    """The answer in ``row`` to a prompt of ``prompt`` tokens."""
    pairs = zip(row.ids, row.logits, strict=False)
    return Completion(
        str(tokenizer.decode(row.ids, skip_special_tokens=True)),
        finish="stop" if row.ended else "length",
        enforced=request.schema is not None,
        tokens=tuple(_choice(tokenizer, *pair, request.top_logprobs) for pair in pairs),
        usage=Usage(input=prompt, cached=row.shared, output=len(row.ids)),
    )


def _choice(
    tokenizer: PreTrainedTokenizerBase, token: int, logits: torch.Tensor, count: int
) -> TokenChoice:
    """Probabilities before any grammar or temperature: what the model itself thinks."""
    import torch

    logprobs = torch.log_softmax(logits.float(), dim=-1)
    values, ids = logprobs.topk(min(count, logprobs.shape[-1]))
    text, own = str(tokenizer.decode([token])), float(logprobs[token])
    # Ascending: where two tokens are spelt alike, the likelier one stays.
    likeliest = reversed(list(zip(ids.tolist(), values.tolist(), strict=True)))
    alternatives = {str(tokenizer.decode([i])): value for i, value in likeliest}
    alternatives.setdefault(text, own)
    return TokenChoice(text, own, alternatives)


def processors(
    tokenizer: PreTrainedTokenizerBase, requests: Sequence[ChatRequest], begin: int, stop: str
) -> LogitsProcessorList:
    """What shapes the answers, which begin after ``begin`` tokens; a row a request."""
    from transformers import LogitsProcessorList

    from medal_judges.models.llm.local.processors import (
        MaxTokens,
        PresencePenalty,
        SeededSampling,
        StopAfter,
        grammar_processor,
    )

    made = LogitsProcessorList()
    if any(r.schema is not None for r in requests):
        made.append(grammar_processor(tokenizer, [r.schema for r in requests]))
    if any(r.presence_penalty for r in requests):
        made.append(PresencePenalty(requests, begin))
    if any(r.temperature > 0 for r in requests):
        made.append(SeededSampling(requests))
    if stop:
        made.append(StopAfter(stop, begin, tokenizer))
    made.append(MaxTokens([r.max_tokens for r in requests], begin, tokenizer.eos_token_id))
    return made


def batches(
    prompts: Prompts, requests: Sequence[ChatRequest], budget: int, batching: Batching
) -> Iterator[list[int]]:
    """Indices of prompts that are answered together, within ``budget`` padded tokens.

    Prompts that begin alike make a batch of their own; the others are put together by length.
    Requests that want another number of alternatives are kept apart: that setting is a batch's.
    """

    def fits(batch: Sequence[int], i: int) -> bool:
        same = len(prompts[i]) == len(prompts[batch[0]])
        longest = max(len(prompts[k]) + requests[k].max_tokens for k in (*batch, i))
        together = batching.padding != "alone" and (same or batching.padding != "none")
        return together and (len(batch) + 1) * longest <= budget

    for kind in sorted({request.top_logprobs for request in requests}):
        members = [i for i, request in enumerate(requests) if request.top_logprobs == kind]
        groups = _alike(members, prompts, batching)
        single = sorted((g[0] for g in groups if len(g) == 1), key=lambda i: -len(prompts[i]))
        for group in [*(g for g in groups if len(g) > 1), single]:
            batch: list[int] = []
            for i in group:
                if batch and not fits(batch, i):
                    yield batch
                    batch = []
                batch.append(i)
            if batch:
                yield batch


def _alike(members: Sequence[int], prompts: Prompts, batching: Batching) -> list[list[int]]:
    """``members`` in groups, in which most of the shorter of two neighbours is the beginning of the
    other, and worth sharing."""
    groups: list[list[int]] = []
    for i in sorted(members, key=lambda i: tuple(prompts[i])):
        joins = False
        if groups and batching.shared:
            before, own = prompts[groups[-1][-1]], prompts[i]
            if len(before) == len(own) or batching.padding == "middle":
                enough = max(SHARED_TOKENS, min(len(before), len(own)) // 2)
                joins = common_length([before, own]) >= enough
        if joins:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def common_length(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with; one less than the shortest prompt at most."""
    shortest = min(map(len, prompts))
    for k in range(shortest - 1):
        if any(p[k] != prompts[0][k] for p in prompts):
            return k
    return shortest - 1


def shared_length(prompts: Prompts, batching: Batching) -> int:
    """How many tokens of a batch's common beginning are read once."""
    if len(prompts) == 1 or not batching.shared:
        return 0
    if batching.padding != "middle" and len({len(p) for p in prompts}) > 1:
        return 0
    common = common_length(prompts)
    return common if common >= SHARED_TOKENS else 0


def written(
    model: PreTrainedModel,
    prompts: Prompts,
    shared: int,
    *,
    pad: int,
    shaped: LogitsProcessorList,
    tokens: int,
    logits: bool,
) -> tuple[torch.Tensor, Sequence[torch.Tensor] | None]:
    """Greedy tokens [batch, new] after ``prompts``, whose first ``shared`` tokens are read once;
    with ``logits`` also the model's own logits [batch, words] of each step."""
    import torch

    ids, mask = (row.to(model.device) for row in _padded(prompts, shared, pad))
    extra: dict[str, Any] = {}
    with torch.inference_mode():
        if shared:
            extra["past_key_values"] = _read(model, prompts[0][:shared], len(prompts))
        generator: Any = model  # its annotations know no ``generate``
        out = generator.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=tokens,
            do_sample=False,  # sampling is SeededSampling's, row by row
            temperature=None,
            top_p=None,
            top_k=None,
            num_beams=1,  # this and what follows: a model's own habits are not asked for
            repetition_penalty=1.0,
            no_repeat_ngram_size=0,
            encoder_no_repeat_ngram_size=0,
            min_length=0,
            pad_token_id=pad,
            logits_processor=shaped,
            return_dict_in_generate=True,
            output_logits=logits,
            **extra,
        )
    # An encoder's prompt is no part of the sequences: they begin with the decoder's first token.
    own = 1 if model.config.is_encoder_decoder else ids.shape[1]
    return out.sequences[:, own:], out.logits


def _padded(prompts: Prompts, shared: int, pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask [batch, longest]: the shared beginning, padding, then what is each prompt's own.

    Padding stands between: the beginning's cache is the same for all rows.
    """
    import torch

    longest = max(map(len, prompts))
    ids, mask = [], []
    for prompt in prompts:
        gap = longest - len(prompt)
        ids.append([*prompt[:shared], *[pad] * gap, *prompt[shared:]])
        mask.append([1] * shared + [0] * gap + [1] * (len(prompt) - shared))
    return torch.tensor(ids), torch.tensor(mask)


def _read(model: PreTrainedModel, beginning: Sequence[int], rows: int) -> Any:
    import torch

    tokens = torch.tensor([list(beginning)], device=model.device)
    cache = logits_at(model, tokens, [0], use_cache=True)[1].past_key_values
    cache.batch_repeat_interleave(rows)
    return cache
