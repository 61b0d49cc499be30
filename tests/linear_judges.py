"""Linear judges whose heads are random, so that every turn and every column matters."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medal_judges.models.linear.config import HeadName, LinearConfig
from medal_judges.models.linear.heads import FittedHead
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.models.linear.reply import Reactions
from medal_judges.records.dimension import Dimension


def random_head(kind: HeadName, width: int, seed: int = 0) -> FittedHead:
    """A head of four hidden units, or a linear one."""
    rng = np.random.default_rng(seed)
    if kind in ("ridge", "logistic"):
        middle = 0.5 if kind == "ridge" else 0.0
        averages = float(rng.normal() * 0.1), float(rng.normal() * 0.1)
        return FittedHead.linear(
            kind, rng.normal(size=width) * 0.3 / width**0.5, middle, averages
        )
    outputs = 3 if kind == "mlp_classifier" else 1
    shapes = [(width, 4), (4, outputs)]
    layers = tuple(
        (rng.normal(size=s) * 0.3, rng.normal(size=s[1]) * 0.1) for s in shapes
    )
    classes = (0, 1, 2) if kind == "mlp_classifier" else ()
    return FittedHead(kind, layers, top=2, classes=classes)


def random_judge(
    base: Path,
    dimensions: Sequence[Dimension],
    *,
    name: str = "linear",
    heads: Mapping[str, HeadName] | None = None,
    **settings: Any,
) -> LinearJudge:
    """A judge on ``base`` that no training has seen."""
    config = LinearConfig(**({"base": str(base), "max_tokens": 64} | settings))
    judge = LinearJudge.create(config, dimensions, name=name, device="cpu")
    reader, rng = judge.reader, np.random.default_rng(1)
    reader.scale.mean = rng.normal(size=reader.scale.mean.shape) * 0.1
    reader.scale.deviation = rng.uniform(0.5, 1.5, reader.scale.mean.shape)
    reader.scale.centre = rng.normal(size=reader.scale.centre.shape) * 0.05
    if config.reply is not None and reader.encoder is not None:
        torch.manual_seed(0)
        sizes = reader.encoder.width, len(config.bare_names_without_reply)
        made = Reactions(config.reply, *sizes)
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        made.half().float()  # as it is saved
        for vectors in (made.positive, made.negative):
            vectors.copy_(
                torch.nn.functional.normalize(torch.randn(vectors.shape), dim=-1)
            )
        reader.reactions = made.requires_grad_(False)
    for number, dimension in enumerate(dimensions):
        kind = (heads or {}).get(dimension.name, config.head_name(dimension.kind))
        judge.heads[dimension.name] = random_head(kind, len(reader.vector_mask), number)
    return judge
