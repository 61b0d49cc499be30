"""The rows of a run: load each entry, inject issues, refuse leaks, make examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from medal_judges.data_prep.perturbation.injection import ISSUES, injected_set
from medal_judges.data_prep.sources.leaks import check_leaks
from medal_judges.data_prep.sources.registry import (
    SOURCES,
    find_local,
    parse_spec,
    source_of,
    stream_spec,
)
from medal_judges.errors import ConfigError, SourceError
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.lora.config import LoraConfig
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.training.config import DataEntry, TrainConfig
from medal_judges.training.rows.examples import (
    ExampleMaker,
    Segment,
    StoredExamples,
    TrainingExample,
    UnitMap,
    dimension_names,
    fit_unit_map,
)
from medal_judges.training.rows.store import (
    RowFacts,
    RowStore,
    is_large,
    open_store,
    row_facts,
    store_lock,
)

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
    loaded = {
        part: [
            (entry, load_entry(entry, config.seed, in_memory=part != "train"))
            for entry in getattr(config, part)
        ]
        for part in PARTS
    }
    if not any(rows for _, rows in loaded["train"]):
        raise ConfigError("no training rows", hint="check the `train` entries of the config")
    held_out = [row for part in PARTS[1:] for _, rows in loaded[part] for row in rows]
    stores = [rows for _, rows in loaded["train"] if isinstance(rows, RowStore)]
    others = [r for _, rows in loaded["train"] if not isinstance(rows, RowStore) for r in rows]
    if others:
        check_leaks(others, held_out)
    for store in stores if held_out else ():
        # Once for these held-out rows: the check reads every word of the store.
        checked = store.folder / f"no-leak-{row_facts(held_out).hash}"
        with store_lock(store.folder):
            if not checked.is_file():
                check_leaks(store, held_out)
                checked.touch()
    maps: dict[str, dict[str, UnitMap]] = {}
    facts: list[dict[str, object]] = []
    examples: dict[str, list[Segment | list[TrainingExample]]] = {part: [] for part in PARTS}
    for part in PARTS:
        for entry, rows in loaded[part]:
            known = rows.facts if isinstance(rows, RowStore) else row_facts(rows)
            facts.append(
                {
                    "part": part,
                    "source": entry.source,
                    "rows": len(rows),
                    "hash": known.hash,
                    "languages": known.languages,
                    "injected": entry.plant is not None,
                }
            )
            if rows:
                fitted = None if part == "test" else maps.setdefault(source_of(entry.source), {})
                examples[part].append(_examples(config, dimensions, entry, rows, known, fitted))
    train = StoredExamples(examples["train"])
    return RunRows(
        train if stores else list(train),
        list(StoredExamples(examples["validation"])),
        facts,
        [e for e in StoredExamples(examples["test"]) if e.human],
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
            spec = parse_spec(entry.source)
            parts = [] if spec.is_file else SOURCES[spec.name].parts
            files = [Path(spec.name)] if spec.is_file else list(filter(None, map(find_local, parts)))
            files = [path for path in files if path.is_file()]
            if any(is_large(path) for path in files):
                return open_store(found, files, entry.model_dump(include=_CHOOSE))
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


def _examples(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    entry: DataEntry,
    rows: Sequence[LabelledDialogue],
    facts: RowFacts,
    maps: dict[str, UnitMap] | None,
) -> Segment | list[TrainingExample]:
    """The examples of one entry. ``maps`` of its source are fitted on the source's first entry:
    validation rows are mapped as its training rows are. Without them there are no targets, so that
    a source whose scale has no bounds can be ranked."""
    names = dimension_names(entry, facts.scales, [d.name for d in dimensions])
    for label in names if maps is not None else ():
        if maps is not None and label not in maps:
            maps[label] = fit_unit_map(entry, facts, label)
    # Dimensions whose head has a probability per level.
    levels = {}
    if isinstance(config.model, EncoderConfig | LoraConfig):
        kinds = {name: head.kind for name, head in config.model.heads.items()}
        by_level = [d for d in dimensions if kinds.get(d.name) in ("ordinal", "classification")]
        levels = {d.name: len(d.levels) for d in by_level}
    make = ExampleMaker(entry, names, maps and dict(maps), levels, config.soft_labels)
    if not isinstance(rows, RowStore):
        return [make(row) for row in rows]
    used = {name: (maps[name].zero, maps[name].span) for name in names} if maps else {}
    settings = [names, used, levels, config.soft_labels, [d.to_record() for d in dimensions]]
    return Segment(rows, make, content_hash([rows.folder.name, settings]))
