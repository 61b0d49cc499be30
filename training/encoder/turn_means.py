"""The average turn of the training data, around which an encoder judge's contributions are told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from medal_judges.dialogue import Dialogue
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.batching import budget_batches
from medal_judges.models.encoder.judge import EncoderJudge

_DIALOGUES = 256  # a mean needs no more


@torch.inference_mode()
def fit_turn_means(judge: EncoderJudge, dialogues: Sequence[Dialogue]) -> None:
    """Set ``judge.turn_means``: per dimension what a turn of the user, and one of the assistant,
    adds to ``Head.linear`` on average, weighted as the head pools them.

    Of 256 dialogues spread evenly over ``dialogues``; a side that never speaks has 0.
    """
    chosen = dialogues[:: max(1, len(dialogues) // _DIALOGUES)][:_DIALOGUES]
    sums = {d.name: np.zeros((2, 2)) for d in judge.dimensions}  # evidence and weight, by role
    for start in range(0, len(chosen), judge.window):
        items = [ScoreRequest(dialogue, None) for dialogue in chosen[start : start + judge.window]]
        judge._prepare(items)
        for batch in budget_batches(items, lambda item: item.tokens, judge.token_budget):
            _add(judge, batch, sums)
    judge.turn_means = {}
    for name, (evidence, weight) in sums.items():
        user, assistant = np.divide(evidence, weight, out=np.zeros(2), where=weight > 0).tolist()
        judge.turn_means[name] = (user, assistant)


def _add(judge: EncoderJudge, batch: Sequence[ScoreRequest], sums: dict[str, np.ndarray]) -> None:
    members = judge.members(batch)
    for name, total in sums.items():
        for k in (0, 1):
            table = judge.net.combine([m[k + 1] for m in members], name).cpu().numpy()
            for row, item in zip(table, batch, strict=True):
                roles = item.payload[0].roles
                if row.size:  # the net ``sequence`` does not tell turns apart
                    own = row[: len(roles)]
                    total[k] += [own[roles == role].sum() for role in (0, 1)]
