"""Answers of a local model, in batches; prompts that begin alike have their beginning read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medal_judges.models.batching import is_out_of_memory, retry_on_oom
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.local.batches import (
    Batching,
    Beginnings,
    Prompts,
    batches,
    beginnings,
    keep_answers,
)
from medal_judges.models.llm.local.prefix_store import PrefixStore
from medal_judges.models.llm.protocol import ChatRequest, Completion, TokenChoice

if TYPE_CHECKING:
    import torch
    from transformers import Cache, LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerBase

    from medal_judges.models.llm.local.choices import LogprobRecorder, TokenLogprobs


@dataclass(frozen=True, slots=True)
class Row:
    """What was written after one prompt: the ``ids`` up to the end or to the request's limit,
    whether the model ``ended`` there, its own ``logprobs`` of each where they were asked for, and
    how many tokens of the prompt were ``cached``: read before, or for others."""

    ids: list[int]
    ended: bool
    logprobs: Sequence[TokenLogprobs]
    cached: int


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    requests: Sequence[ChatRequest],
    *,
    budget: int,
    batching: Batching,
    store: PrefixStore,
    stop: str = "",
) -> Iterator[tuple[int, Row]]:
    """(index, row) for each prompt (token ids), a batch at a time; with ``stop`` a row also ends
    behind that text. A row does not depend on its batch, nor on what is in ``store``."""

    def rows(batch: Sequence[int]) -> list[Row]:
        asked, own = [requests[i] for i in batch], [prompts[i] for i in batch]
        begun = beginnings(model, own, batching, store)
        return write(model, tokenizer, own, asked, begun, stop, store)

    def rows_with_room(batch: Sequence[int]) -> list[Row]:
        try:
            return rows(batch)
        except RuntimeError as error:
            if not store.bytes or not is_out_of_memory(error):
                raise
        store.clear()  # what is kept goes before a batch is halved
        return rows(batch)

    for batch in batches(prompts, requests, budget, batching):
        yield from zip(batch, retry_on_oom(rows_with_room, batch), strict=True)


def write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Prompts,
    requests: Sequence[ChatRequest],
    begun: Beginnings | None = None,
    stop: str = "",
    store: PrefixStore | None = None,
) -> list[Row]:
    """The rows of one batch, of whose prompts ``begun`` was read before; what is read and written
    now goes into ``store``."""
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    # An encoder's prompt is no part of what its decoder writes, which begins with one token.
    begin = 1 if model.config.is_encoder_decoder else max(map(len, prompts))
    new, recorder, cache = written(
        model,
        prompts,
        begun.cache if begun else None,
        pad=int(pad or 0),
        shaped=processors(tokenizer, requests, begin, stop),
        tokens=max(r.max_tokens for r in requests),
        top=requests[0].top_logprobs,
    )
    logprobs = [[]] * len(prompts) if recorder is None else recorder.rows()
    own: Any = model.generation_config.eos_token_id
    ends = {*(own if isinstance(own, list) else [own]), tokenizer.eos_token_id}
    rows = []
    for index, (tokens, request) in enumerate(zip(new.tolist(), requests, strict=True)):
        limit = min(len(tokens), request.max_tokens)
        length = next((k for k in range(limit) if tokens[k] in ends), limit)
        cached = begun.cached[index] if begun else 0
        rows.append(Row(tokens[:length], length < limit, logprobs[index][:length], cached))
    if store is not None and store.limit and begun is not None and begun.chains is not None:
        keep_answers(store, prompts, begun, [row.ids for row in rows], cache)
    return rows


def to_completion(
    tokenizer: PreTrainedTokenizerBase, row: Row, request: ChatRequest, prompt: int
) -> Completion:
    """The answer in ``row`` to a prompt of ``prompt`` tokens."""
    pairs = zip(row.ids, row.logprobs, strict=False)
    return Completion(
        str(tokenizer.decode(row.ids, skip_special_tokens=True)),
        finish="stop" if row.ended else "length",
        enforced=request.schema is not None,
        tokens=tuple(_choice(tokenizer, token, said) for token, said in pairs),
        usage=Usage(input=prompt, cached=row.cached, output=len(row.ids)),
    )


def _choice(tokenizer: PreTrainedTokenizerBase, token: int, said: TokenLogprobs) -> TokenChoice:
    text = str(tokenizer.decode([token]))
    # Ascending: where two tokens are spelt alike, the likelier one stays.
    likeliest = reversed(list(zip(said.ids, said.logprobs, strict=True)))
    alternatives = {str(tokenizer.decode([i])): value for i, value in likeliest}
    alternatives.setdefault(text, said.own)
    return TokenChoice(text, said.own, alternatives)


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


def written(
    model: PreTrainedModel,
    prompts: Prompts,
    begun: Cache | None,
    *,
    pad: int,
    shaped: LogitsProcessorList,
    tokens: int,
    top: int,
) -> tuple[torch.Tensor, LogprobRecorder | None, Any]:
    """Greedy tokens [batch, new] after ``prompts``; what the model itself thought of each and of
    the ``top`` likeliest (0: not kept); and the cache of all that was read. ``begun`` holds what
    was read before: the first columns of the prompts, which stand at the same right end."""
    import torch
    from transformers import StoppingCriteriaList

    from medal_judges.models.llm.local.choices import LogprobRecorder

    ids, mask = (row.to(model.device) for row in _padded(prompts, pad))
    extra = {} if begun is None else {"past_key_values": begun}
    recorder = LogprobRecorder(top) if top else None
    reading = recorder.reading(model) if recorder else nullcontext()
    with torch.inference_mode(), reading:
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
            stopping_criteria=StoppingCriteriaList([recorder] if recorder else []),
            return_dict_in_generate=True,
            **extra,
        )
    # An encoder's prompt is no part of the sequences: they begin with the decoder's first token.
    own = 1 if model.config.is_encoder_decoder else ids.shape[1]
    return out.sequences[:, own:], recorder, getattr(out, "past_key_values", None)


def _padded(prompts: Prompts, pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask [batch, longest], padding in front."""
    import torch

    longest = max(map(len, prompts))
    gaps = [longest - len(prompt) for prompt in prompts]
    ids = [[*[pad] * gap, *prompt] for gap, prompt in zip(gaps, prompts, strict=True)]
    mask = [[0] * gap + [1] * (longest - gap) for gap in gaps]
    return torch.tensor(ids), torch.tensor(mask)
