"""The rows of a run: load each entry, plant where asked, refuse a leak, make examples."""

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
    Segment,
    StoredExamples,
    TrainingExample,
    UnitMap,
    dimension_names,
    example_of,
    fit_unit_map,
    in_store,
)
from medal_judges.training.rows.row_store import (
    RowStore,
    is_large,
    languages_of,
    open_store,
    rows_hash,
    store_lock,
)


@dataclass(slots=True)
class RunRows:
    """Examples of a run, and ``facts`` on each entry for the card. Those of ``test`` have no
    targets: nothing is learnt from them. Held-out rows are in memory, large training files not."""

    train: Sequence[TrainingExample]
    validation: list[TrainingExample]
    facts: list[dict[str, object]]
    test: list[TrainingExample] = field(default_factory=list)


def load_entry(entry: DataEntry, seed: int, *, keep: bool = True) -> Sequence[LabelledDialogue]:
    """Labelled rows of one entry: filtered, limited, injected. Raises SourceError, ConfigError.

    With ``keep`` they are in memory; without, rows of large files stay on disk where nothing is
    drawn from them or injected into them.
    """
    rows = (
        row for row in stream_spec(entry.source, options=entry.read_options) if _wanted(row, entry)
    )
    try:
        drawn = entry.plant is not None or entry.limit is not None or entry.skip
        if not keep and not drawn and (files := _large_files(entry)):
            return open_store(rows, files, entry.model_dump(include=_CHOOSES))
        kept = list(rows)
    except SourceError:
        if entry.optional:
            return []
        raise
    kept = _limited(kept, entry, seed)
    if entry.plant is None:
        return kept
    plant = entry.plant
    return list(
        injected_set(
            kept,
            seed=seed,
            per_issue=plant.per_issue,
            clean_count=plant.clean_count,
            issues=plant.issues or ISSUES,
            strengths=plant.strengths,
            split=plant.split,
        )
    )


# What of an entry decides which rows it has.
_CHOOSES = {
    "source",
    "format",
    "columns",
    "assistant",
    "exclude_chatbots",
    "min_turns",
    "max_turns",
}


def _large_files(entry: DataEntry) -> list[Path]:
    """The files of an entry's source where they are here and one of them is large; else none."""
    spec = parse_spec(entry.source)
    parts = [] if spec.is_file else SOURCES[spec.name].parts
    paths = [Path(spec.name)] if spec.is_file else [p for part in parts if (p := find_local(part))]
    files = [path for path in paths if path.is_file()]
    return files if any(is_large(path) for path in files) else []


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
        part: [
            (entry, load_entry(entry, config.seed, keep=part != "train"))
            for entry in getattr(config, part)
        ]
        for part in ("train", "validation", "test")
    }
    held_out = [row for part in ("validation", "test") for _, rows in loaded[part] for row in rows]
    if not any(rows for _, rows in loaded["train"]):
        raise ConfigError("no training rows", hint="check the `train` entries of the config")
    check_stored_leaks([rows for _, rows in loaded["train"]], held_out)
    maps: dict[str, dict[str, UnitMap]] = {}
    parts = [_examples(config, dimensions, entry, rows, maps) for entry, rows in loaded["train"]]
    stored = StoredExamples(parts)
    train = stored if in_store(stored) else list(stored)
    validation = StoredExamples(
        [_examples(config, dimensions, entry, rows, maps) for entry, rows in loaded["validation"]]
    )
    test = [e for entry, rows in loaded["test"] for e in _test_examples(dimensions, entry, rows)]
    facts = [
        {
            "part": part,
            "source": entry.source,
            "rows": len(rows),
            "hash": rows_hash(rows),
            "languages": languages_of(rows),
            "injected": entry.plant is not None,
        }
        for part in loaded
        for entry, rows in loaded[part]
    ]
    return RunRows(train, list(validation), facts, test)


def check_stored_leaks(
    train: Sequence[Sequence[LabelledDialogue]], held_out: Sequence[LabelledDialogue]
) -> None:
    """The leak check of all training rows; of a store's it is made once for the same held-out
    rows, since it reads every word. Raises LeakError."""
    in_memory = [row for rows in train if not isinstance(rows, RowStore) for row in rows]
    if in_memory:
        check_leaks(in_memory, held_out)
    for rows in train:
        if isinstance(rows, RowStore) and held_out:
            done = rows.folder / f"no-leak-{rows_hash(held_out)}"
            with store_lock(rows.folder):  # one process does it, the others find it done
                if not done.is_file():
                    check_leaks(rows, held_out)
                    done.touch()


def _test_examples(
    dimensions: Sequence[Dimension],
    entry: DataEntry,
    rows: Sequence[LabelledDialogue],
) -> list[TrainingExample]:
    """The rows of a test entry that have a label of ``dimensions``, without targets: a source
    whose scale has no bounds can be ranked all the same."""
    names = dimension_names(entry, rows, [d.name for d in dimensions]) if rows else {}
    examples = [example_of(row, entry, names, None, {}, False) for row in rows]
    return [example for example in examples if example.human]


def _examples(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    entry: DataEntry,
    rows: Sequence[LabelledDialogue],
    maps: dict[str, dict[str, UnitMap]],
) -> Segment | Sequence[TrainingExample]:
    if not rows:
        return []
    names = dimension_names(entry, rows, [d.name for d in dimensions])
    # A source's map is fitted on its training rows, and its validation rows are mapped with it.
    source = source_of(entry.source)
    fitted = maps.setdefault(source, {})
    for name in names:
        if name not in fitted:
            fitted[name] = fit_unit_map(entry, rows, name)
    levels = class_levels(config, dimensions)

    def make(row: LabelledDialogue) -> TrainingExample:
        return example_of(row, entry, names, fitted, levels, config.soft_labels)

    if not isinstance(rows, RowStore):
        return [make(row) for row in rows]
    judged = {judge_name: source_name for source_name, judge_name in names.items()}
    used = {name: (fitted[name].zero, fitted[name].span) for name in names}
    settings = [judged, used, levels, config.soft_labels, [d.to_record() for d in dimensions]]
    key = content_hash([rows.folder.name, settings])
    return Segment(rows, source, entry.weight, make, judged, dict(fitted), key)


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
