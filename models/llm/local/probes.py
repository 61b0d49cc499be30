"""How far a quick way of computing is from the model's own forward pass, in nats, by trying it.

The reference is always one sequence alone, read in one pass without cache, mask or padding
(plain.py). Prompts are random token ids, so a probe needs no tokenizer; a fault of a way (padding
that is attended to, positions counted wrongly, a step left out) shows on any text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from transformers import LogitsProcessor, LogitsProcessorList

from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.local.batches import Batching, beginnings, keep_answers, repeated
from medal_judges.models.llm.local.generation import written
from medal_judges.models.llm.local.layers import decoder_config
from medal_judges.models.llm.local.likelihood import plain_logprobs, tree_logprobs
from medal_judges.models.llm.local.prefix_store import PrefixStore

if TYPE_CHECKING:
    import torch
    from transformers import Cache, PreTrainedModel

COMMON = 40  # tokens that the prompts of a probe begin with
OWN = (1, 4, 11, 11)  # tokens of each prompt behind these
STEPS = 6  # tokens that are scored, or written, after each prompt
LONGEST = max(OWN) + STEPS
# Of fp32 the largest deviation counts. 16 bits round each layer, and a router may choose another
# expert: their mean counts, beside the mean by which the very same rows differ in a batch.
ALLOWED = 0.002
ALLOWED_HALF = 0.1
TIMES_NOISE = 4.0


@dataclass(frozen=True, slots=True)
class Finding:
    """``deviation`` in nats (None: the way was not tried, or raised) against ``allowed``, with the
    ``reason`` where the way is not to be taken."""

    deviation: float | None
    allowed: float
    reason: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the way may be taken."""
        return self.reason is None


class Probe:
    """The reference numbers of one model for a few random prompts, and ways held against them.

    ``common`` tokens begin all prompts; their own parts have different lengths.
    """

    def __init__(self, model: PreTrainedModel, *, common: int = COMMON, seed: int = 0) -> None:
        self.model = model
        rng = np.random.default_rng(seed)
        words = _ordinary_ids(model)
        start = rng.choice(words, common)
        own = [rng.choice(words, n) for n in OWN]
        self.prompts = [tuple(map(int, (*start, *part))) for part in own]
        self.said = [tuple(map(int, rng.choice(words, STEPS))) for _ in own]
        self.sequences = [
            TokenSequence((*prompt, *said), len(prompt))
            for prompt, said in zip(self.prompts, self.said, strict=True)
        ]
        self.rows = range(len(self.prompts))
        self.wanted, _ = plain_logprobs(model, self.sequences)
        self.half = "float32" not in str(model.dtype)
        self.allowed = self._allowed()

    def _allowed(self) -> float:
        # Weights that say nearly the same of each word would hide a fault: their scale counts.
        scale = min(1.0, float(np.std(np.concatenate(self.wanted))))
        if not self.half:
            return ALLOWED * scale
        rows = self._batch([*self.prompts[:1]] * 3, [*self.said[:1]] * 3)
        noise = float(np.mean([np.abs(row - self.wanted[0]).mean() for row in rows]))
        return max(ALLOWED_HALF * scale, TIMES_NOISE * noise)

    def finding(self, way: Callable[[], Sequence[np.ndarray]], rows: Sequence[int]) -> Finding:
        """What ``way`` gives for the sequences ``rows`` against the reference.

        What a model's code raises on a way that it was not made for is its own; memory that runs
        out says nothing of the way, and is raised.
        """
        import torch

        try:
            values = way()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # as above
            said = (str(error).strip().splitlines() or [""])[0][:120]
            return Finding(None, self.allowed, f"raises {type(error).__name__}: {said}")
        apart = np.concatenate(
            [np.abs(v - self.wanted[row]) for v, row in zip(values, rows, strict=True)]
        )
        deviation = float(apart.mean() if self.half else apart.max())
        # Negated: not a number is no agreement.
        wrong = not deviation <= self.allowed
        return Finding(deviation, self.allowed, f"{deviation:.2g} nats off" if wrong else None)

    # -- the ways ---------------------------------------------------------------------------

    def tree(self) -> Finding:
        """Shared-prefix likelihoods (prefix.py)."""
        return self.finding(lambda: tree_logprobs(self.model, self.sequences)[0], self.rows)

    def alone(self) -> Finding:
        """A prompt answered alone, token by token with a cache."""
        return self.finding(lambda: self._batch(self.prompts[2:3], self.said[2:3]), [2])

    def together(self) -> Finding:
        """Prompts of one length answered together: no padding."""
        return self.finding(lambda: self._batch(self.prompts[2:], self.said[2:]), [2, 3])

    def left(self) -> Finding:
        """Prompts of several lengths answered together, padding in front."""
        return self.finding(lambda: self._batch(self.prompts, self.said), self.rows)

    def kept(self) -> Finding:
        """Beginnings of several lengths kept from an earlier answer, padding in front."""

        def way() -> list[np.ndarray]:
            store = PrefixStore(1 << 40)
            # Each row is answered twice: alone, up to its last but few words, and then with others.
            for prompt, cut, said in zip(self.prompts, (9, 2, 5, 1), self.said, strict=True):
                self._batch([prompt[:-cut] if cut < len(prompt) else prompt], [said], store=store)
            return self._batch(self.prompts, self.said, store=store)

        return self.finding(way, self.rows)

    def shared(self) -> Finding:
        """The common beginning of prompts of one length read once, no padding."""
        common = max(1, len(self.prompts[2]) - OWN[2] - 1)
        begun = self.prompts[2][:common]

        def way() -> list[np.ndarray]:
            return self._batch(self.prompts[2:], self.said[2:], repeated(self.model, begun, 2))

        return self.finding(way, [2, 3])

    def padded_forward(self, side: str) -> Finding:
        """One forward pass over rows of several lengths with a mask, padded at ``side``."""
        return self.finding(lambda: self._forward(side), self.rows)

    def _batch(
        self,
        prompts: Sequence[Sequence[int]],
        said: Sequence[Sequence[int]],
        cache: Cache | None = None,
        store: PrefixStore | None = None,
    ) -> list[np.ndarray]:
        """Log-probabilities of ``said``, written after ``prompts`` in one batch, of which ``cache``
        or ``store`` has the beginnings."""
        longest = max(map(len, prompts))
        forced = LogitsProcessorList([_Forced(said, longest)])
        begun = beginnings(self.model, prompts, Batching(), store) if store else None
        _, recorder, cache = written(
            self.model,
            prompts,
            begun.cache if begun else cache,
            pad=0,
            shaped=forced,
            tokens=STEPS,
            top=1,
        )
        if store and begun:
            keep_answers(store, prompts, begun, said, cache)
        assert recorder is not None
        return list(recorder.own().cpu().numpy().astype(float))

    def _forward(self, side: str) -> list[np.ndarray]:
        import torch

        longest = max(len(s.ids) for s in self.sequences)
        ids, mask, starts = [], [], []
        for sequence in self.sequences:
            gap = [0] * (longest - len(sequence.ids))
            at = len(gap) if side == "left" else 0
            row = [*gap, *sequence.ids] if side == "left" else [*sequence.ids, *gap]
            ids.append(row)
            mask.append([int(at <= k < at + len(sequence.ids)) for k in range(longest)])
            starts.append(at)
        tokens = torch.tensor(ids, device=self.model.device)
        seen = torch.tensor(mask, device=self.model.device)
        places = (seen.cumsum(1) - 1).clamp_min(0)
        extra = {"position_ids": places} if _takes_positions(self.model) else {}
        with torch.inference_mode():
            out = self.model(input_ids=tokens, attention_mask=seen, use_cache=False, **extra)
            values = torch.log_softmax(out.logits.float(), dim=-1)
        return [
            np.array([float(values[i, at + k - 1, s.ids[k]]) for k in range(s.start, len(s.ids))])
            for i, (s, at) in enumerate(zip(self.sequences, starts, strict=True))
        ]


class _Forced(LogitsProcessor):
    """Lets row i write ``said[i]`` and nothing else."""

    def __init__(self, said: Sequence[Sequence[int]], prompt: int) -> None:
        self.said, self.prompt = said, prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch

        step = input_ids.shape[1] - self.prompt
        forced = torch.full_like(scores, float("-inf"))
        for row, said in enumerate(self.said):
            forced[row, said[step]] = 0
        return forced


def _ordinary_ids(model: PreTrainedModel) -> np.ndarray:
    """Token ids that neither end an answer nor pad."""
    config = decoder_config(model.config)
    ends = model.generation_config.eos_token_id
    special = {*(ends if isinstance(ends, list) else [ends])}
    special |= {getattr(config, f"{name}_token_id", None) for name in ("pad", "bos", "eos")}
    first = min(1000, config.vocab_size // 10)  # the low ids are marks and single bytes
    return np.array([i for i in range(first, config.vocab_size) if i not in special])


def _takes_positions(model: PreTrainedModel) -> bool:
    import inspect

    return "position_ids" in inspect.signature(model.forward).parameters
