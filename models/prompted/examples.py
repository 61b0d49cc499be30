"""Scored example dialogues for one-shot and few-shot prompts (ORALIS, section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import field_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.rating import mean


class ScoredExample(Config):
    """A dialogue with its scores per dimension on [0, 1], and a ``summary`` to show instead."""

    id: str
    turns: tuple[Turn, ...]
    scores: Mapping[str, float]
    summary: str | None = None

    @field_validator("scores")
    @classmethod
    def _on_unit(cls, value: Mapping[str, float]) -> Mapping[str, float]:
        if bad := [f"{k}: {v}" for k, v in value.items() if not 0 <= v <= 1]:
            raise ValueError(f"scores lie in [0, 1], not {bad[0]}")
        return value


class ExampleFile(Config):
    """Reviewed examples; ``source`` says where they come from."""

    source: str
    examples: tuple[ScoredExample, ...]


def load_examples(path: str, dimensions: Sequence[Dimension]) -> tuple[ScoredExample, ...]:
    """Examples of a YAML file, or of labelled dialogues (.jsonl, .jsonl.gz), whose score is the
    mean over annotators; a label without scale is on the dimension's. Raises ConfigError,
    DataError."""
    if not path.endswith((".jsonl", ".jsonl.gz")):
        return build_config(ExampleFile, read_yaml(path), where=path).examples
    examples = []
    for row in read_labelled(path):
        scores = {}
        for dimension in dimensions:
            rating = row.rating(dimension.name)
            if rating is not None and (value := mean(rating)) is not None:
                low, high = rating.scale or (dimension.low, dimension.high)
                scores[dimension.name] = (value - low) / (high - low)
        examples.append(ScoredExample(id=row.id, turns=row.dialogue.turns, scores=scores))
    return tuple(examples)


def chosen_examples(
    examples: Sequence[ScoredExample], dimension: str, count: int, *, seed: int, without: str | None
) -> list[ScoredExample]:
    """``count`` 1: near the median. 3: lowest, near the median, highest. ``seed`` draws among
    equals. The dialogue called ``without`` is never its own example. Raises ConfigError for too few
    examples with a score for the dimension."""
    scored = [e for e in examples if dimension in e.scores and e.id != without]
    if len(scored) < count:
        raise ConfigError(
            f"{len(scored)} examples have a score for {dimension!r}, the prompt shows {count}",
            hint="examples=FILE with more dialogues, or variant=zero_shot",
        )
    generator = np.random.default_rng(seed)
    median = float(np.median([e.scores[dimension] for e in scored]))
    wanted = [median] if count == 1 else [0.0, median, 1.0]
    chosen: list[ScoredExample] = []
    for target in sorted(wanted, key=lambda t: t == median):  # the ends choose first
        left = [e for e in scored if e not in chosen]
        gap = min(abs(e.scores[dimension] - target) for e in left)
        near = [e for e in left if abs(e.scores[dimension] - target) == gap]
        chosen.append(near[int(generator.integers(len(near)))])
    return sorted(chosen, key=lambda e: e.scores[dimension])
