"""The rows of a run: load each entry, inject issues, refuse leaks, make examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from medal_judges.data_prep.perturbation.injection import ISSUES, injected_set
from medal_judges.data_prep.sources.leaks import check_leaks
from medal_judges.data_prep.sources.registry import source_of, stream_spec
from medal_judges.errors import ConfigError, SourceError
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.lora.config import LoraConfig
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.training.config import DataEntry, TrainConfig
from medal_judges.training.rows.examples import (
    RowFacts,
    TrainingExample,
    UnitMap,
    dimension_names,
    fit_unit_map,
    to_example,
)

PARTS = ("train", "validation", "test")


@dataclass(slots=True)
class RunRows:
    """The examples of a run, and ``facts`` on each entry for the card. ``test`` examples have no
    targets."""

    train: list[TrainingExample]
    validation: list[TrainingExample]
    facts: list[dict[str, object]]
    test: list[TrainingExample] = field(default_factory=list)


def load_rows(config: TrainConfig, dimensions: Sequence[Dimension]) -> RunRows:
    """Loads everything that a run reads. Raises LeakError if training and held-out rows share a
    dialogue."""
    loaded = [
        (part, entry, load_entry(entry, config.seed))
        for part in PARTS
        for entry in getattr(config, part)
    ]
    train = [row for part, _, rows in loaded if part == "train" for row in rows]
    if not train:
        raise ConfigError("no training rows", hint="check the `train` entries of the config")
    check_leaks(train, [row for part, _, rows in loaded if part != "train" for row in rows])
    judged = [d.name for d in dimensions]
    # Dimensions whose head has a probability per level.
    levels = {}
    if isinstance(config.model, EncoderConfig | LoraConfig):
        kinds = {name: head.kind for name, head in config.model.heads.items()}
        by_level = [d for d in dimensions if kinds.get(d.name) in ("ordinal", "classification")]
        levels = {d.name: len(d.levels) for d in by_level}
    maps: dict[str, dict[str, UnitMap]] = {}
    facts: list[dict[str, object]] = []
    examples: dict[str, list[TrainingExample]] = {part: [] for part in PARTS}
    for part, entry, rows in loaded:
        known = RowFacts.of(rows)
        about = {"part": part, "source": entry.source, "rows": len(rows), "hash": known.hash}
        planted = {"languages": known.languages, "injected": entry.plant is not None}
        facts.append(about | planted)
        if not rows:
            continue
        names = dimension_names(entry, known.scales, judged)
        # A source's maps are fitted on its training rows; its validation rows are mapped by them.
        # Test examples have none: a source whose scale has no bounds can still be ranked.
        own: dict[str, UnitMap] | None = None
        if part != "test":
            fitted = maps.setdefault(source_of(entry.source), {})
            for label in names:
                if label not in fitted:
                    fitted[label] = fit_unit_map(entry, known, label)
            own = {label: fitted[label] for label in names}
        soft = config.soft_labels
        examples[part] += [to_example(row, entry, names, own, levels, soft) for row in rows]
    test = [example for example in examples["test"] if example.human]
    return RunRows(examples["train"], examples["validation"], facts, test)


def load_entry(entry: DataEntry, seed: int) -> list[LabelledDialogue]:
    """Labelled rows of one entry: filtered, limited, injected. Raises SourceError, ConfigError."""

    def wanted(row: LabelledDialogue) -> bool:
        turns = len(row.dialogue.turns)
        return (
            row.dialogue.chatbot not in entry.exclude_chatbots
            and entry.min_turns <= turns <= (entry.max_turns or turns)
            and bool(row.dialogue.assistant_turns)
        )

    try:
        rows = [*filter(wanted, stream_spec(entry.source, options=entry.read_options))]
    except SourceError:
        if entry.optional:
            return []
        raise
    if entry.limit is not None or entry.skip:
        order = np.random.default_rng(seed).permutation(len(rows))
        end = None if entry.limit is None else entry.skip + entry.limit
        rows = [rows[i] for i in sorted(order[entry.skip : end])]
    plant = entry.plant
    if plant is None:
        return rows
    return list(
        injected_set(
            rows,
            seed=seed,
            per_issue=plant.per_issue,
            clean_count=plant.clean_count,
            issues=plant.issues or ISSUES,
            strengths=plant.strengths,
            split=plant.split,
        )
    )
