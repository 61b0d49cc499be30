"""Logits processors that shape each row of a batch by its own request: seeded sampling, penalties,
limits, and the grammar of a JSON schema. A row does not depend on its batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import LogitsProcessor

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.llm.protocol import ChatRequest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FEW = 256  # words in which the nucleus is searched first
# One way to write an object: with free white space a small model may write blanks without end.
_LAYOUT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
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
                logits = _nucleus(scores[row].float() / request.temperature, request.top_p)
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


class PresencePenalty(LogitsProcessor):
    """Subtracts each request's ``presence_penalty`` from the logits of tokens that its answer
    already contains, as OpenAI and vLLM define it; the prompt's tokens do not count."""

    def __init__(self, requests: Sequence[ChatRequest], prompt: int) -> None:
        self.penalties, self.prompt = [r.presence_penalty for r in requests], prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        lowered = scores.clone()
        for row, penalty in enumerate(self.penalties):
            if penalty:  # a repeated token is assigned the same value twice
                lowered[row, input_ids[row, self.prompt :]] -= penalty
        return lowered


class MaxTokens(LogitsProcessor):
    """Ends each row at its own limit, so that short answers do not wait for a long one's."""

    def __init__(self, limits: Sequence[int], prompt: int, end: int) -> None:
        self.limits, self.prompt, self.end = list(limits), prompt, end

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        done = input_ids.shape[1] - self.prompt
        for row, limit in enumerate(self.limits):
            if done >= limit:
                scores[row] = float("-inf")
                scores[row, self.end] = 0
        return scores


class StopAfter(LogitsProcessor):
    """Ends each row once its answer contains the text ``stop``."""

    def __init__(self, stop: str, prompt: int, tokenizer: PreTrainedTokenizerBase) -> None:
        self.stop, self.prompt, self.tokenizer = stop, prompt, tokenizer
        # A token is at least a byte, and the text may begin and end inside one.
        self.reach = len(stop.encode()) + 2

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        for row, ids in enumerate(input_ids[:, self.prompt :][:, -self.reach :].tolist()):
            if self.stop in self.tokenizer.decode(ids):
                scores[row] = float("-inf")
                scores[row, self.tokenizer.eos_token_id] = 0
        return scores


def grammar_processor(
    tokenizer: PreTrainedTokenizerBase, schemas: Sequence[Mapping[str, Any] | None]
) -> GrammarMask:
    """A logits processor that makes row i write JSON of ``schemas[i]`` (None: anything), then end.

    One processor per call of ``generate``.
    Raises MissingExtraError without llguidance, ConfigError for a schema or tokenizer it refuses.
    """
    if find_spec("llguidance") is None:
        raise MissingExtraError("llguidance", "llm", "holding a local model to a JSON schema")
    from llguidance import LLMatcher

    grammars: dict[str, str] = {}  # rows mostly share a few schemas
    for schema in schemas:
        if schema is None or repr(schema) in grammars:
            continue
        try:
            text = json.dumps(dict(schema))
            grammar = LLMatcher.grammar_from_json_schema(text, defaults=_LAYOUT)
            problem = LLMatcher.validate_grammar(grammar)
        except ValueError as error:
            problem = str(error)
        if problem:
            raise ConfigError(f"no grammar can be made of the schema: {problem}")
        grammars[repr(schema)] = grammar
    return GrammarMask(tokenizer, [None if s is None else grammars[repr(s)] for s in schemas])


class GrammarMask(LogitsProcessor):
    """See ``grammar_processor``. Has one matcher per row from the first call on."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, grammars: Sequence[str | None]) -> None:
        self.tokenizer, self.grammars = tokenizer, grammars
        self.matchers: list[Any] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        from llguidance import LLMatcher

        words, end = scores.shape[1], self.tokenizer.eos_token_id
        if not self.matchers:
            tokens = _wrapped(self.tokenizer, words)
            first = {g: LLMatcher(tokens, g) for g in set(self.grammars) if g is not None}
            self.matchers = [None if g is None else first[g].deep_copy() for g in self.grammars]
        else:
            for i, token in enumerate(input_ids[:, -1].tolist()):
                matcher = self.matchers[i]
                if matcher is None or matcher.is_stopped():
                    continue  # the object is complete; the end and padding follow
                if token == end:
                    self.matchers[i] = None  # cut at its token limit; padding follows
                elif not matcher.consume_token(token):
                    problem = matcher.get_error()
                    raise RuntimeError(f"a token outside the grammar was chosen: {problem}")
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


def _wrapped(tokenizer: Any, words: int) -> Any:
    by_size = _WRAPPED.setdefault(tokenizer, {})
    if words not in by_size:
        from llguidance.hf import from_tokenizer

        try:
            # Some tokenizers have a token more than the network has vectors (Gemma 3's for images).
            by_size[words] = from_tokenizer(tokenizer, n_vocab=max(words, len(tokenizer)))
        except ValueError as error:
            raise ConfigError(
                f"no grammar works with this tokenizer: {error}",
                hint="set enforce: false in the judge, or use a model with a fast tokenizer",
            ) from error
    return by_size[words]
