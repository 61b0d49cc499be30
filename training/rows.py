"""The rows of a run: load each entry, plant where asked, refuse a leak, make examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from medal_judges.data_prep.leaks import check_leaks
from medal_judges.data_prep.perturbation.plant import ISSUES
from medal_judges.data_prep.perturbation.planted_set import planted_set
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError, SourceError
from medal_judges.labelled import LabelledDialogue
from medal_judges.models.encoder_config import EncoderConfig
from medal_judges.models.lora_config import LoraConfig
from medal_judges.signature import content_hash
from medal_judges.training.config import DataEntry, TrainConfig
from medal_judges.training.examples import (
    Example,
    UnitMap,
    dimension_names,
    example_of,
    fit_unit_maps,
    human_example,
)


@dataclass(slots=True)
class RunRows:
    """Examples of a run, and ``facts`` on each entry for the card. Those of ``test`` have no
    targets: nothing is learnt from them."""

    train: list[Example]
    validation: list[Example]
    facts: list[dict[str, object]]
    test: list[Example] = field(default_factory=list)


def load_entry(entry: DataEntry, seed: int) -> list[LabelledDialogue]:
    """Labelled rows of one entry, filtered, limited, planted. Raises SourceError, ConfigError."""
    try:
        rows: Iterable[LabelledDialogue] = load_spec(entry.source)
        kept = [row for row in rows if _wanted(row, entry)]
    except SourceError:
        if entry.optional:
            return []
        raise
    kept = _limited(kept, entry, seed)
    if entry.plant is None:
        return kept
    plant = entry.plant
    return list(
        planted_set(
            kept,
            seed=seed,
            per_issue=plant.per_issue,
            clean_count=plant.clean_count,
            issues=plant.issues or ISSUES,
            strengths=plant.strengths,
            split=plant.split,
        )
    )


def _wanted(row: LabelledDialogue, entry: DataEntry) -> bool:
    dialogue = row.dialogue
    return (
        dialogue.chatbot not in entry.exclude_chatbots
        and entry.min_turns <= len(dialogue.turns) <= (entry.max_turns or len(dialogue.turns))
        and bool(dialogue.assistant_turns)
    )


def _limited(rows: list[LabelledDialogue], entry: DataEntry, seed: int) -> list[LabelledDialogue]:
    if entry.limit is None and not entry.skip:
        return rows
    order = np.random.default_rng(seed).permutation(len(rows))
    end = None if entry.limit is None else entry.skip + entry.limit
    return [rows[i] for i in sorted(order[entry.skip : end])]


def load_rows(config: TrainConfig, dimensions: Sequence[Dimension]) -> RunRows:
    """Everything a run reads. Raises LeakError when training and held-out rows share a dialogue."""
    loaded = {
        part: [(entry, load_entry(entry, config.seed)) for entry in getattr(config, part)]
        for part in ("train", "validation", "test")
    }
    held_out = [row for part in ("validation", "test") for _, rows in loaded[part] for row in rows]
    training = [row for _, rows in loaded["train"] for row in rows]
    if not training:
        raise ConfigError("no training rows", hint="check the `train` entries of the config")
    check_leaks(training, held_out)
    maps: dict[str, dict[str, UnitMap]] = {}
    examples = {
        part: [
            e
            for entry, rows in loaded[part]
            for e in _examples(config, dimensions, entry, rows, maps)
        ]
        for part in ("train", "validation")
    }
    facts = [
        {
            "part": part,
            "source": entry.source,
            "rows": len(rows),
            "hash": rows_hash(rows),
            "languages": sorted({row.dialogue.lang or "unknown" for row in rows}),
            "planted": entry.plant is not None,
        }
        for part in ("train", "validation", "test")
        for entry, rows in loaded[part]
    ]
    test = [e for entry, rows in loaded["test"] for e in _test_examples(dimensions, entry, rows)]
    return RunRows(examples["train"], examples["validation"], facts, test)


def _test_examples(
    dimensions: Sequence[Dimension],
    entry: DataEntry,
    rows: Sequence[LabelledDialogue],
) -> list[Example]:
    """The rows of a test entry that have a label of ``dimensions``, without targets: a source
    whose scale has no bounds can be ranked all the same."""
    names = dimension_names(entry, rows, [d.name for d in dimensions]) if rows else {}
    examples = [human_example(row, entry, names) for row in rows]
    return [example for example in examples if example.human]


def _examples(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    entry: DataEntry,
    rows: Sequence[LabelledDialogue],
    maps: dict[str, dict[str, UnitMap]],
) -> list[Example]:
    if not rows:
        return []
    named = {d.name: d for d in dimensions}
    names = dimension_names(entry, rows, list(named))
    # A source's map is fitted on its training rows, and its validation rows are mapped with it.
    source = entry.source.split(":")[0]
    fitted = maps.setdefault(source, {})
    for name in names:
        if name not in fitted:
            fitted |= fit_unit_maps(entry, rows, {name: names[name]})
    levels = class_levels(config, dimensions)
    return [
        example_of(row, entry, names, fitted, named, levels, config.soft_labels) for row in rows
    ]


def class_levels(config: TrainConfig, dimensions: Sequence[Dimension]) -> dict[str, int]:
    """Dimensions whose head wants a probability per level -> how many levels."""
    if not isinstance(config.model, EncoderConfig | LoraConfig):
        return {}
    kinds = {name: head.kind for name, head in config.model.heads.items()}
    return {
        d.name: len(d.levels)
        for d in dimensions
        if kinds.get(d.name) in ("ordinal", "classification")
    }


def rows_hash(rows: Sequence[LabelledDialogue]) -> str:
    """Revision of a set of rows: a hash of ids, texts and labels."""
    return content_hash([row.to_record() for row in rows])


def write_facts(folder: Path, facts: Sequence[dict[str, object]]) -> None:
    """data.json beside the judge: what it was trained and validated on."""
    import json

    text = json.dumps(list(facts), indent=2, ensure_ascii=False)
    (folder / "data.json").write_text(text + "\n", encoding="utf-8")
