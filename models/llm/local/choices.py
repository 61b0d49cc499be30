"""What a model itself thought of each token that it wrote, before any grammar or temperature."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import StoppingCriteria


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probability of the token that was written, and of the likeliest ``ids`` (likeliest
    first)."""

    own: float
    ids: list[int]
    logprobs: list[float]


class LogprobRecorder(StoppingCriteria):
    """Keeps, of each step of ``generate``, the ``count`` likeliest tokens and the one written.

    The logits of a step are read off the model's forward pass and let go of with the next: all of
    them would be rows x steps x words x 4 bytes. It is given to ``generate`` as a stopping
    criterion because that is called with each new token; it stops nothing.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._logprobs: torch.Tensor | None = None  # of the newest step, [rows, words]
        self._own: list[torch.Tensor] = []  # [rows] a step
        self._top: list[tuple[torch.Tensor, torch.Tensor]] = []  # each [rows, count] a step

    @contextmanager
    def reading(self, model: nn.Module) -> Iterator[None]:
        """Read the forward passes of ``model`` that are made inside."""

        def read(_: nn.Module, __: object, output: Any) -> None:
            self._logprobs = torch.log_softmax(output.logits[:, -1].float(), dim=-1)

        hook = model.register_forward_hook(read)
        try:
            yield
        finally:
            hook.remove()
            self._logprobs = None

    def __call__(self, input_ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        """Take in the step that has just written the last of ``input_ids`` [rows, tokens]; no row
        ends by it: False [rows]."""
        assert self._logprobs is not None
        chosen = input_ids[:, -1:].to(self._logprobs.device)
        self._own.append(self._logprobs.gather(1, chosen)[:, 0])
        values, ids = self._logprobs.topk(min(self.count, self._logprobs.shape[-1]))
        self._top.append((ids, values))
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    def own(self) -> torch.Tensor:
        """Log-probabilities of the written tokens, [rows, steps]."""
        return torch.stack(self._own, dim=1)

    def rows(self) -> list[list[TokenLogprobs]]:
        """The steps of each row."""
        own = self.own().tolist()
        ids, logprobs = (torch.stack(each, dim=1).tolist() for each in zip(*self._top, strict=True))
        return [
            [TokenLogprobs(*step) for step in zip(*row, strict=True)]
            for row in zip(own, ids, logprobs, strict=True)
        ]
