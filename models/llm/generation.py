"""Answers of a local model, in batches; prompts that begin alike have their beginning read once."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from medal_judges.models.llm.protocol import ChatRequest, Completion, TokenChoice, Usage

if TYPE_CHECKING:
    import torch

# A common beginning shorter than this is not worth a pass of its own.
SHARED_TOKENS = 64


def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    requests: Sequence[ChatRequest],
    *,
    budget: int,
) -> list[Completion]:
    """One completion per prompt (token ids), in order. An answer does not depend on its batch."""
    answers: dict[int, Completion] = {}
    for batch in batches(prompts, requests, budget):
        done = _batch(model, tokenizer, [prompts[i] for i in batch], [requests[i] for i in batch])
        answers.update(zip(batch, done, strict=True))
    return [answers[i] for i in range(len(prompts))]


def batches(
    prompts: Sequence[Sequence[int]], requests: Sequence[ChatRequest], budget: int
) -> Iterator[list[int]]:
    """Indices of prompts that are answered together, within ``budget`` padded tokens.

    Prompts that begin alike make a batch of their own; the others are put together by length.
    Requests that want another number of alternatives are kept apart: that setting is a batch's.
    """
    order = sorted(range(len(prompts)), key=lambda i: (_kind(requests[i]), tuple(prompts[i])))
    groups: list[list[int]] = []
    for i in order:
        if not groups or not _alike(groups[-1][-1], i, prompts, requests):
            groups.append([])
        groups[-1].append(i)
    single = [group[0] for group in groups if len(group) == 1]
    single.sort(key=lambda i: (_kind(requests[i]), -len(prompts[i])))
    for group in [*(g for g in groups if len(g) > 1), single]:
        yield from _within_budget(group, prompts, requests, budget)


def _alike(
    a: int, b: int, prompts: Sequence[Sequence[int]], requests: Sequence[ChatRequest]
) -> bool:
    """Whether most of the shorter prompt is the beginning of the other, and worth sharing."""
    if _kind(requests[a]) != _kind(requests[b]):
        return False
    common = common_length([prompts[a], prompts[b]])
    return common >= max(SHARED_TOKENS, min(len(prompts[a]), len(prompts[b])) // 2)


def _within_budget(
    group: Sequence[int],
    prompts: Sequence[Sequence[int]],
    requests: Sequence[ChatRequest],
    budget: int,
) -> Iterator[list[int]]:
    batch: list[int] = []
    for i in group:
        if batch and (
            _kind(requests[i]) != _kind(requests[batch[0]])
            or _cost([*batch, i], prompts, requests) > budget
        ):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _kind(request: ChatRequest) -> int:
    return request.top_logprobs


def _cost(
    batch: Sequence[int], prompts: Sequence[Sequence[int]], requests: Sequence[ChatRequest]
) -> int:
    longest = max(len(prompts[i]) + requests[i].max_tokens for i in batch)
    return len(batch) * longest


def common_length(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with; one less than the shortest prompt at most."""
    shortest = min(map(len, prompts))
    for k in range(shortest - 1):
        if any(p[k] != prompts[0][k] for p in prompts):
            return k
    return shortest - 1


def _batch(
    model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], requests: Sequence[ChatRequest]
) -> list[Completion]:
    import torch

    shared = common_length(prompts) if len(prompts) > 1 else 0
    shared = shared if shared >= SHARED_TOKENS else 0
    ids, mask = _padded(prompts, shared, _pad(tokenizer), model.device)
    extra: dict[str, Any] = {}
    with torch.inference_mode():
        if shared:
            extra["past_key_values"] = _read(model, prompts[0][:shared], len(prompts))
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=max(r.max_tokens for r in requests),
            do_sample=False,  # sampling is SeededSampling's, row by row
            temperature=None,
            top_p=None,
            top_k=None,
            pad_token_id=_pad(tokenizer),
            logits_processor=_processors(tokenizer, requests, ids.shape[1]),
            return_dict_in_generate=True,
            output_logits=requests[0].top_logprobs > 0,
            **extra,
        )
    new = out.sequences[:, ids.shape[1] :]
    ends = _end_ids(model, tokenizer)
    return [
        _completion(tokenizer, new[row], out.logits, row, request, len(prompts[row]), shared, ends)
        for row, request in enumerate(requests)
    ]


def _padded(
    prompts: Sequence[Sequence[int]], shared: int, pad: int, device: Any
) -> tuple[torch.Tensor, torch.Tensor]:
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
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _read(model: Any, beginning: Sequence[int], rows: int) -> Any:
    import torch

    tokens = torch.tensor([list(beginning)], device=model.device)
    cache = model.base_model(input_ids=tokens, use_cache=True).past_key_values
    cache.batch_repeat_interleave(rows)
    return cache


def _pad(tokenizer: Any) -> int:
    pad = tokenizer.pad_token_id
    return int(tokenizer.eos_token_id if pad is None else pad)


def _end_ids(model: Any, tokenizer: Any) -> set[int]:
    own = model.generation_config.eos_token_id
    ends = own if isinstance(own, list) else [own]
    return {int(e) for e in [*ends, tokenizer.eos_token_id] if e is not None}


def _processors(tokenizer: Any, requests: Sequence[ChatRequest], prompt: int) -> Any:
    from transformers import LogitsProcessorList

    from medal_judges.models.llm.sampling import MaxTokens, PresencePenalty, SeededSampling

    processors = LogitsProcessorList()
    if any(r.schema is not None for r in requests):
        from medal_judges.models.llm.structured import grammar_processor

        processors.append(grammar_processor(tokenizer, [r.schema for r in requests]))
    if any(r.presence_penalty for r in requests):
        processors.append(PresencePenalty(requests, prompt))
    if any(r.temperature > 0 for r in requests):
        processors.append(SeededSampling(requests))
    processors.append(MaxTokens([r.max_tokens for r in requests], prompt, tokenizer.eos_token_id))
    return processors


def _completion(
    tokenizer: Any,
    row: torch.Tensor,
    logits: Sequence[torch.Tensor] | None,
    index: int,
    request: ChatRequest,
    prompt: int,
    shared: int,
    ends: set[int],
) -> Completion:
    tokens = row.tolist()
    length = next((k for k, token in enumerate(tokens) if token in ends), len(tokens))
    length = min(length, request.max_tokens)
    finished = length < min(len(tokens), request.max_tokens)
    choices: tuple[TokenChoice, ...] = ()
    if request.top_logprobs and logits is not None:
        choices = tuple(
            _choice(tokenizer, tokens[k], logits[k][index], request.top_logprobs)
            for k in range(length)
        )
    return Completion(
        tokenizer.decode(tokens[:length], skip_special_tokens=True),
        finish="stop" if finished else "length",
        enforced=request.schema is not None,
        tokens=choices,
        usage=Usage(input=prompt, cached=shared if index else 0, output=length),
    )


def _choice(tokenizer: Any, token: int, logits: torch.Tensor, count: int) -> TokenChoice:
    """Probabilities before any grammar or temperature: what the model itself thinks."""
    import torch

    logprobs = torch.log_softmax(logits.float(), dim=-1)
    values, ids = logprobs.topk(min(count, logprobs.shape[-1]))
    own = float(logprobs[token])
    likeliest = zip(ids.tolist(), values.tolist(), strict=True)
    alternatives = {tokenizer.decode([i]): v for i, v in reversed(list(likeliest))}
    alternatives.setdefault(tokenizer.decode([token]), own)
    return TokenChoice(tokenizer.decode([token]), own, copy.copy(alternatives))
