"""Sampling row by row: a row's draws depend on its own seed only, not on its batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transformers import LogitsProcessor

from medal_judges.models.llm.protocol import ChatRequest

if TYPE_CHECKING:
    import torch

FEW = 256  # words among which the nucleus is looked for first


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

    def __init__(self, stop: str, prompt: int, tokenizer: Any) -> None:
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
