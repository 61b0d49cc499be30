"""The rows of a run: load each entry, inject issues, refuse leaks, make examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from medal_judges.data_prep.perturbation.injection import ISSUES, injected_set
from medal_judges.data_prep.sources.leaks import check_leaks
from medal_judges.data_prep.sources.registry import files_of, source_of, stream_spec
from medal_judges.data_prep.sources.source import sha256
from medal_judges.errors import ConfigError, SourceError
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.lora.config import LoraConfig
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.records.signature import content_hash
from medal_judges.training.config import DataEntry, TrainConfig
from medal_judges.training.rows.examples import (
    ExampleMaker,
    RowFacts,
    StoredExamples,
    TrainingExample,
    UnitMap,
    dimension_names,
    fit_unit_map,
)
from medal_judges.training.rows.store import MappedRows, is_large, mapped_rows

PARTS = ("train", "validation", "test")
# The settings of an entry that choose its rows.
_CHOOSE = {
    *("source", "format", "columns", "assistant"),
    *("exclude_chatbots", "min_turns", "max_turns"),
}


@dataclass(slots=True)
class RunRows:
    """The examples of a run, and ``facts`` on each entry for the card. Held-out examples are in
    memory, large training files are not. ``test`` examples have no targets."""

    train: Sequence[TrainingExample]
    validation: list[TrainingExample]
    facts: list[dict[str, object]]
    test: list[TrainingExample] = field(default_factory=list)


def load_rows(config: TrainConfig, dimensions: Sequence[Dimension]) -> RunRows:
    """Load everything that a run reads. Raises LeakError if training and held-out rows share a
    dialogue."""
    loaded = [
        (part, entry, load_entry(entry, config.seed, in_memory=part != "train"))
        for part in PARTS
        for entry in getattr(config, part)
    ]
    train = [rows for part, _, rows in loaded if part == "train"]
    if not any(map(len, train)):
        raise ConfigError("no training rows", hint="check the `train` entries of the config")
    held_out = [row for part, _, rows in loaded if part != "train" for row in rows]
    check_leaks(chain.from_iterable(train), held_out)
    stored = any(isinstance(rows, MappedRows) for _, _, rows in loaded)
    judged = [d.name for d in dimensions]
    # Dimensions whose head has a probability per level.
    levels = {}
    if isinstance(config.model, EncoderConfig | LoraConfig):
        kinds = {name: head.kind for name, head in config.model.heads.items()}
        by_level = [d for d in dimensions if kinds.get(d.name) in ("ordinal", "classification")]
        levels = {d.name: len(d.levels) for d in by_level}
    maps: dict[str, dict[str, UnitMap]] = {}
    facts: list[dict[str, object]] = []
    examples: dict[str, list[Sequence[TrainingExample]]] = {part: [] for part in PARTS}
    keys: list[object] = [[d.to_record() for d in dimensions]]
    for part, entry, rows in loaded:
        known = RowFacts.of(rows)
        about = {"part": part, "source": entry.source, "rows": len(rows), "hash": known.hash}
        planted = {"languages": known.languages, "injected": entry.plant is not None}
        facts.append(about | planted)
        if not len(rows):
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
        make = ExampleMaker(entry, names, own, levels, config.soft_labels)
        mapped = rows.converted(make) if isinstance(rows, MappedRows) else None
        examples[part].append([make(row) for row in rows] if mapped is None else mapped)
        keys.append([known.hash, names, str(own), entry.weight, levels, config.soft_labels])
    whole = StoredExamples(examples["train"], content_hash(keys))
    return RunRows(
        whole if stored else [e for rows in examples["train"] for e in rows],
        [e for rows in examples["validation"] for e in rows],
        facts,
        [e for rows in examples["test"] for e in rows if e.human],
    )


def load_entry(
    entry: DataEntry, seed: int, *, in_memory: bool = True
) -> Sequence[LabelledDialogue]:
    """Labelled rows of one entry: filtered, limited, injected. Raises SourceError, ConfigError.

    Unless ``in_memory``, rows of large files stay on disk if none are drawn or injected.
    """

    def wanted(row: LabelledDialogue) -> bool:
        turns = len(row.dialogue.turns)
        return (
            row.dialogue.chatbot not in entry.exclude_chatbots
            and entry.min_turns <= turns <= (entry.max_turns or turns)
            and bool(row.dialogue.assistant_turns)
        )

    plant = entry.plant
    drawn = entry.limit is not None or entry.skip
    found = filter(wanted, stream_spec(entry.source, options=entry.read_options))
    try:
        if not (in_memory or drawn or plant):
            files = [path for path in files_of(entry.source) if path.is_file()]
            if any(is_large(path) for path in files):
                key = [[sha256(path) for path in files], entry.model_dump(include=_CHOOSE)]
                return mapped_rows(found, key, parse_labelled)
        rows = list(found)
    except SourceError:
        if entry.optional:
            return []
        raise
    if drawn:
        order = np.random.default_rng(seed).permutation(len(rows))
        end = None if entry.limit is None else entry.skip + entry.limit
        rows = [rows[i] for i in sorted(order[entry.skip : end])]
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
