"""Answers of a local model, in batches; prompts that begin alike have their beginning read once."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.local.likelihood import logits_at
from medal_judges.models.llm.protocol import ChatRequest, Completion, TokenChoice

if TYPE_CHECKING:
    import torch

# A common beginning shorter than this is not worth a pass of its own.
SHARED_TOKENS = 64


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


def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    requests: Sequence[ChatRequest],
    *,
    budget: int,
    batching: Batching | None = None,
) -> list[Completion]:
    """One completion per prompt (token ids), in order. An answer does not depend on its batch."""
    batching = batching or Batching()
    answers: dict[int, Completion] = {}
    for batch in batches(prompts, requests, budget, batching):
        asked, own = [requests[i] for i in batch], [prompts[i] for i in batch]
        new, logits, shared = _batch(model, tokenizer, own, asked, batching)
        done = completions(model, tokenizer, new, logits, asked, [len(p) for p in own], shared)
        answers.update(zip(batch, done, strict=True))
    return [answers[i] for i in range(len(prompts))]


def generate_until(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    requests: Sequence[ChatRequest],
    *,
    budget: int,
    batching: Batching,
    stop: str,
) -> list[list[int]]:
    """The token ids that follow each prompt, up to the text ``stop`` (it is part of them), the end
    of the answer or the request's limit."""
    written_ids: dict[int, list[int]] = {}
    for batch in batches(prompts, requests, budget, batching):
        asked, own = [requests[i] for i in batch], [prompts[i] for i in batch]
        new, _, _ = _batch(model, tokenizer, own, asked, batching, stop)
        ends = _end_ids(model, tokenizer)
        for row, i in zip(new.tolist(), batch, strict=True):
            length = next((k for k, token in enumerate(row) if token in ends), len(row))
            written_ids[i] = row[: min(length, requests[i].max_tokens)]
    return [written_ids[i] for i in range(len(prompts))]


def batches(
    prompts: Sequence[Sequence[int]],
    requests: Sequence[ChatRequest],
    budget: int,
    batching: Batching,
) -> Iterator[list[int]]:
    """Indices of prompts that are answered together, within ``budget`` padded tokens.

    Prompts that begin alike make a batch of their own; the others are put together by length.
    Requests that want another number of alternatives are kept apart: that setting is a batch's.
    """

    def alike(a: int, b: int) -> bool:
        """Whether most of the shorter prompt is the beginning of the other, and worth sharing."""
        same = len(prompts[a]) == len(prompts[b])
        if _kind(requests[a]) != _kind(requests[b]) or not (same or batching.padding == "middle"):
            return False
        common = common_length([prompts[a], prompts[b]])
        return common >= max(SHARED_TOKENS, min(len(prompts[a]), len(prompts[b])) // 2)

    order = sorted(range(len(prompts)), key=lambda i: (_kind(requests[i]), tuple(prompts[i])))
    groups: list[list[int]] = []
    for i in order:
        if not batching.shared or not groups or not alike(groups[-1][-1], i):
            groups.append([])
        groups[-1].append(i)
    single = [group[0] for group in groups if len(group) == 1]
    single.sort(key=lambda i: (_kind(requests[i]), -len(prompts[i])))

    def fits(batch: Sequence[int], i: int) -> bool:
        same = len(prompts[i]) == len(prompts[batch[0]])
        return (
            _kind(requests[i]) == _kind(requests[batch[0]])
            and batching.padding != "alone"
            and (same or batching.padding != "none")
            and _cost([*batch, i], prompts, requests) <= budget
        )

    for group in [*(g for g in groups if len(g) > 1), single]:
        batch: list[int] = []
        for i in group:
            if batch and not fits(batch, i):
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
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    requests: Sequence[ChatRequest],
    batching: Batching,
    stop: str = "",
) -> tuple[torch.Tensor, Sequence[torch.Tensor] | None, int]:
    """(new ids [batch, steps], logits of each step where asked for, tokens that were shared)."""
    shared = shared_length(prompts, batching)
    new, logits = written(
        model,
        prompts,
        shared,
        pad=_pad(tokenizer),
        shaped=processors(tokenizer, requests, max(map(len, prompts)), stop),
        tokens=max(r.max_tokens for r in requests),
        logits=requests[0].top_logprobs > 0,
    )
    return new, logits, shared


def shared_length(prompts: Sequence[Sequence[int]], batching: Batching) -> int:
    """How many tokens of a batch's common beginning are read once."""
    if len(prompts) == 1 or not batching.shared:
        return 0
    if batching.padding != "middle" and len({len(p) for p in prompts}) > 1:
        return 0
    common = common_length(prompts)
    return common if common >= SHARED_TOKENS else 0


def written(
    model: Any,
    prompts: Sequence[Sequence[int]],
    shared: int,
    *,
    pad: int,
    shaped: Any,
    tokens: int,
    logits: bool,
) -> tuple[torch.Tensor, Sequence[torch.Tensor] | None]:
    """Greedy tokens [batch, new] after ``prompts``, whose first ``shared`` tokens are read once;
    with ``logits`` also the model's own logits [batch, words] of each step."""
    import torch

    ids, mask = _padded(prompts, shared, pad, model.device)
    extra: dict[str, Any] = {}
    with torch.inference_mode():
        if shared:
            extra["past_key_values"] = _read(model, prompts[0][:shared], len(prompts))
        out = model.generate(
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
    cache = logits_at(model, tokens, [0], use_cache=True)[1].past_key_values
    cache.batch_repeat_interleave(rows)
    return cache


def _pad(tokenizer: Any) -> int:
    pad = tokenizer.pad_token_id
    return int(tokenizer.eos_token_id if pad is None else pad)


def _end_ids(model: Any, tokenizer: Any) -> set[int]:
    own = model.generation_config.eos_token_id
    ends = own if isinstance(own, list) else [own]
    return {int(e) for e in [*ends, tokenizer.eos_token_id] if e is not None}


def processors(tokenizer: Any, requests: Sequence[ChatRequest], prompt: int, stop: str = "") -> Any:
    """What shapes the answers, which begin after ``prompt`` tokens; a row a request."""
    from transformers import LogitsProcessorList

    from medal_judges.models.llm.local.sampling import (
        MaxTokens,
        PresencePenalty,
        SeededSampling,
        StopAfter,
    )

    made = LogitsProcessorList()
    if any(r.schema is not None for r in requests):
        from medal_judges.models.llm.local.structured import grammar_processor

        made.append(grammar_processor(tokenizer, [r.schema for r in requests]))
    if any(r.presence_penalty for r in requests):
        made.append(PresencePenalty(requests, prompt))
    if any(r.temperature > 0 for r in requests):
        made.append(SeededSampling(requests))
    if stop:
        made.append(StopAfter(stop, prompt, tokenizer))
    made.append(MaxTokens([r.max_tokens for r in requests], prompt, tokenizer.eos_token_id))
    return made


def completions(
    model: Any,
    tokenizer: Any,
    new: torch.Tensor,
    logits: Sequence[torch.Tensor] | None,
    requests: Sequence[ChatRequest],
    lengths: Sequence[int],
    shared: int,
) -> list[Completion]:
    """The answers in the ids ``new`` [batch, steps] to prompts of ``lengths`` tokens."""
    ends = _end_ids(model, tokenizer)
    return [
        _completion(tokenizer, new[row], logits, row, request, lengths[row], shared, ends)
        for row, request in enumerate(requests)
    ]


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
