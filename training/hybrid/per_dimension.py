"""One judge a dimension, as ORALIS trains them (sections 4.3, 4.4), joined to one saved judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from medal_judges.dimension import Dimension
from medal_judges.models.base.judge import Judge
from medal_judges.models.hybrid.combination import Selection
from medal_judges.models.hybrid.judge import HybridJudge
from medal_judges.models.hybrid.members import Member
from medal_judges.models.hybrid.saved_member import MEMBERS
from medal_judges.training.config import TrainConfig


def part_config(config: TrainConfig, dimension: str) -> TrainConfig:
    """The run of one dimension: the same data and settings, a folder of its own."""
    return config.model_copy(
        update={
            "name": f"{config.name}_{dimension}",
            "output_dir": str(Path(config.output_dir) / MEMBERS / dimension),
            "per_dimension": False,
            "only": (dimension,),
        }
    )


def join_parts(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    folders: Sequence[Path],
    told: Sequence[Mapping[str, float]],
) -> tuple[HybridJudge, dict[str, float]]:
    """(the judge that asks each dimension's own, their figures of validation ``told`` as one)."""
    names = [d.name for d in dimensions]
    members = {
        name: Member(name, Judge.from_pretrained(folder), {})
        for name, folder in zip(names, folders, strict=True)
    }
    figures: dict[str, float] = {}
    for one in told:
        figures |= {key: value for key, value in one.items() if "/" in key}
    for kind in ("spearman", "auc"):
        if values := [v for key, v in figures.items() if key.startswith(f"{kind}/")]:
            figures[kind] = float(np.mean(values))
    choices = Selection({name: name for name in names})
    facts = {"seed": config.seed, "per_dimension": True}
    return HybridJudge(members, choices, dimensions, name=config.name, facts=facts), figures
