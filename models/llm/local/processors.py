"""What shapes an answer row by row: seeded sampling, penalties, limits, and the grammar of a JSON
schema. A row depends on its own request only, not on its batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from transformers import LogitsProcessor

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.llm.protocol import ChatRequest

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

FEW = 256  # words among which the nucleus is looked for first
# One way to write an object: free white space lets a small model write blanks without end.
_LAYOUT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# tokenizer -> {vocabulary size: llguidance's view of it}, which takes about a second to make
_WRAPPED: WeakKeyDictionary[Any, dict[int, Any]] = WeakKeyDictionary()


class SeededSampling(LogitsProcessor):
    """Turns greedy decoding into sampling: adds Gumbel noise to tempered, nucleus-cut scores.

    The largest of logits + Gumbel noise is a draw from their softmax (Gumbel, 1954), so the rows of
    a batch can have temperatures, nuclei and seeds of their own. A request without a seed gets 0:
    the same request gives the same answer.
    """

    def __init__(self, requests: Sequence[ChatRequest]) -> None:
        import torch

        self.requests = list(requests)
        self.generators = [torch.Generator().manual_seed(r.seed or 0) for r in requests]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [batch, words] whose largest entry in a row is that row's draw."""
        drawn = scores.clone()
        for row, request in enumerate(self.requests):
            if request.temperature > 0:
                drawn[row] = self._draw(row, scores[row].float() / request.temperature)
        return drawn

    def _draw(self, row: int, logits: torch.Tensor) -> torch.Tensor:
        import torch

        kept = _nucleus(logits, self.requests[row].top_p)
        uniform = torch.rand(logits.shape[-1], generator=self.generators[row]).to(logits.device)
        exponential = -torch.log(uniform.clamp_min(1e-20))
        return kept - torch.log(exponential.clamp_min(1e-20))


def _nucleus(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Logits of the likeliest words whose probability adds up to ``top_p``; -inf for the rest."""
    import torch

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
    """Takes each request's ``presence_penalty`` off the logits of tokens its answer has already,
    as OpenAI's and vLLM's setting of that name does; the prompt's tokens do not count."""

    def __init__(self, requests: Sequence[ChatRequest], prompt: int) -> None:
        self.penalties, self.prompt = [r.presence_penalty for r in requests], prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [batch, words], lower where a word was said before."""
        lowered = scores.clone()
        for row, penalty in enumerate(self.penalties):
            if penalty:
                # A token said twice is written twice with the same value: taken off once.
                lowered[row, input_ids[row, self.prompt :]] -= penalty
        return lowered


class MaxTokens(LogitsProcessor):
    """Ends each row at its own limit, so that short answers do not wait for a long one's."""

    def __init__(self, limits: Sequence[int], prompt: int, end: int) -> None:
        self.limits, self.prompt, self.end = list(limits), prompt, end

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores that leave only the end where a row has had its share."""
        done = input_ids.shape[1] - self.prompt
        for row, limit in enumerate(self.limits):
            if done >= limit:
                scores[row] = float("-inf")
                scores[row, self.end] = 0
        return scores


class StopAfter(LogitsProcessor):
    """Ends each row as soon as the text ``stop`` stands in its answer."""

    def __init__(self, stop: str, prompt: int, tokenizer: PreTrainedTokenizerBase) -> None:
        self.stop, self.prompt, self.tokenizer = stop, prompt, tokenizer
        # A token is a byte at least, and the text may begin and end inside one.
        self.reach = len(stop.encode()) + 2

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores that leave only the end where a row has written ``stop``."""
        for row, ids in enumerate(input_ids[:, self.prompt :][:, -self.reach :].tolist()):
            if self.stop in self.tokenizer.decode(ids):
                scores[row] = float("-inf")
                scores[row, self.tokenizer.eos_token_id] = 0
        return scores


def grammar_processor(
    tokenizer: PreTrainedTokenizerBase,
    schema: Mapping[str, Any] | Sequence[Mapping[str, Any] | None],
) -> GrammarMask:
    """A logits processor that lets every row of a batch write JSON of ``schema`` and then end.

    ``schema`` is one for all rows, or one a row (None: that row is free). One processor a call of
    ``generate``: it takes the width of its first ``input_ids`` as the prompt (padded anyhow), and
    constrains what comes after, each row by itself.
    Raises MissingExtraError without llguidance, ConfigError for a schema or tokenizer it refuses.
    """
    if find_spec("llguidance") is None:
        raise MissingExtraError("llguidance", "llm", "holding a local model to a JSON schema")
    if isinstance(schema, Mapping):
        return GrammarMask(tokenizer, _grammar(schema))
    made: dict[str, str] = {}  # rows mostly share a few schemas
    for each in schema:
        if each is not None and repr(each) not in made:
            made[repr(each)] = _grammar(each)
    return GrammarMask(tokenizer, [None if s is None else made[repr(s)] for s in schema])


def _grammar(schema: Mapping[str, Any]) -> str:
    from llguidance import LLMatcher

    try:
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(dict(schema)), defaults=_LAYOUT)
    except ValueError as error:
        raise ConfigError(f"no grammar can be made of the schema: {error}") from error
    if problem := LLMatcher.validate_grammar(grammar):
        raise ConfigError(f"no grammar can be made of the schema: {problem}")
    return grammar


class GrammarMask(LogitsProcessor):
    """See ``grammar_processor``. Holds one matcher a row, from the first call on."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, grammar: str | Sequence[str | None]
    ) -> None:
        self.tokenizer, self.grammar = tokenizer, grammar
        self.matchers: list[Any] = []
        self.read = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [batch, words] with -inf for each token that the grammar does not take next."""
        if not self.matchers:
            self._start(len(input_ids), scores.shape[1])
        else:
            self._consume(input_ids[:, self.read :].tolist())
        self.read = input_ids.shape[1]
        return self._masked(scores)

    def _start(self, rows: int, words: int) -> None:
        from llguidance import LLMatcher

        grammars = [self.grammar] * rows if isinstance(self.grammar, str) else list(self.grammar)
        if len(grammars) != rows:
            raise ValueError(f"{len(grammars)} schemas for a batch of {rows}")
        tokens = _wrapped(self.tokenizer, words)
        first = {g: LLMatcher(tokens, g) for g in set(grammars) if g is not None}
        self.matchers = [None if g is None else first[g].deep_copy() for g in grammars]

    def _consume(self, rows: list[list[int]]) -> None:
        for i, tokens in enumerate(rows):
            for token in tokens:
                matcher = self.matchers[i]
                if matcher is None or matcher.is_stopped():
                    break  # the object is whole; what comes now is the end and padding
                if token == self.tokenizer.eos_token_id:
                    self.matchers[i] = None  # cut at its token limit: the rest is padding
                elif not matcher.consume_token(token):
                    problem = matcher.get_error()
                    raise RuntimeError(f"a token outside the grammar was chosen: {problem}")

    def _masked(self, scores: torch.Tensor) -> torch.Tensor:
        import torch

        words = scores.shape[1]
        end = self.tokenizer.eos_token_id
        allowed = np.stack([_allowed(matcher, words, end) for matcher in self.matchers])
        mask = torch.from_numpy(~allowed).to(scores.device)
        return scores.masked_fill(mask, float("-inf"))


def _allowed(matcher: Any, words: int, end: int) -> np.ndarray:
    """Whether each of ``words`` tokens may come next, bool [words]; only ``end`` after the JSON."""
    if matcher is None:
        return np.ones(words, dtype=bool)
    allowed: np.ndarray = np.zeros(words, dtype=bool)
    if matcher.is_stopped():
        allowed[end] = True
        return allowed
    bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
    next_words = np.unpackbits(bits, bitorder="little")[:words].astype(bool)
    allowed[: len(next_words)] = next_words
    return allowed


def _wrapped(tokenizer: Any, words: int) -> Any:
    by_size = _WRAPPED.setdefault(tokenizer, {})
    if words not in by_size:
        from llguidance.hf import from_tokenizer

        try:
            # Some tokenizers have a token more than the network has vectors (Gemma 3's for images).
            by_size[words] = from_tokenizer(tokenizer, n_vocab=max(words, len(tokenizer)))
        except ValueError as error:
            raise ConfigError(
                f"a grammar cannot be laid on this tokenizer: {error}",
                hint="set enforce: false in the judge, or use a model with a fast tokenizer",
            ) from error
    return by_size[words]
