"""Prepares the rows of a run: loads each data entry, injects issues, checks that no dialogue is in
both training and held-out rows, and makes training examples."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from medal_judges.data_prep.perturbation.edit import Split
from medal_judges.data_prep.perturbation.injection import make_issue_rows
from medal_judges.data_prep.sources.leaks import find_leaks, require_no_leaks
from medal_judges.data_prep.sources.registry import SOURCES, source_name, stream_rows
from medal_judges.errors import ConfigError, SourceError
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue, Scale, choose_split, mean
from medal_judges.records.signature import Signature
from medal_judges.storage.jsonl import json_line
from medal_judges.training.config import DataEntry, HeldOut, TrainConfig

PARTS = ("train", "validation", "test")
# The sentences of injected issues for each part.
_TABLES: dict[str, Split] = {"train": "train", "validation": "val", "test": "test"}
# Of the scale for one standard deviation, so that +-2.5 of them span it.
STANDARD_SHARE = 0.2

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TrainingExample:
    """One labelled dialogue to learn from or to test on.

    Attributes:
        dialogue: The dialogue.
        source: The name of the data source.
        targets: Dimension -> the value to learn: a number on [0, 1], or [levels] the probability of
            each level (possible rating).
        human: Dimension -> people's mean rating, on the scale of the source. If the setting
            ``rescale`` inverts that scale, the rating is inverted too and is on [0, 1].
        group: The id of its conversation. Examples of one conversation stay in one split.
        comments: Dimension -> what an annotator wrote about the rating.
    """

    dialogue: Dialogue
    source: str
    targets: dict[str, float | np.ndarray]
    human: dict[str, float] = field(default_factory=dict)
    group: str = ""
    comments: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class RunRows:
    """The labelled dialogues of a run, divided into training, validation and test.

    Attributes:
        train: The dialogues to learn from.
        validation: The dialogues on which weights or hyperparameters are chosen. May be empty.
        facts: What the judge's model card says about the data, one mapping for each data source,
            such as ``{"part": "train", "source": "labelled.jsonl", "rows": 900}``.
        test: The dialogues to test on. Each has a rating by people. Its ``targets`` may be empty.
    """

    train: list[TrainingExample]
    validation: list[TrainingExample]
    facts: list[dict[str, object]]
    test: list[TrainingExample] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EntryRows:
    """The rows (labelled dialogues) of one data source, all for training, all for validation or all
    for testing.

    Attributes:
        part: ``train``, ``validation`` or ``test``.
        entry: The settings of the source.
        rows: The labelled dialogues.
    """

    part: str
    entry: DataEntry
    rows: list[LabelledDialogue]


def load_and_split_entries(config: TrainConfig) -> list[EntryRows]:
    """Loads the rows (labelled dialogues) of all data sources of ``config``. If ``config.split`` is
    set, moves a share of the training rows to validation and test.

    Raises:
        ConfigError: There are no training rows, or a setting does not fit a source.
        LeakError: A dialogue is in both training and held-out rows.
        SourceError: A source cannot be read.
    """
    loaded: list[EntryRows] = []
    for part in PARTS:
        for entry in getattr(config, part):
            rows = load_entry(entry, part, config.seed)
            loaded.append(EntryRows(part, entry, rows))
    if config.split:
        loaded = split_without_leaks(loaded, config.split, config.seed)
    train = rows_of_parts(loaded, ["train"])
    if not train:
        raise ConfigError("no training rows. Check the `train` entries of the config")
    require_no_leaks(train, rows_of_parts(loaded, PARTS[1:]))
    return loaded


def load_rows(config: TrainConfig, dimensions: Sequence[Dimension]) -> RunRows:
    """Loads all rows (labelled dialogues) of a run as training examples.

    Args:
        config: The settings of the run.
        dimensions: The dimensions of the rubric, for which targets are made.

    Raises:
        ConfigError: There are no training rows, or a setting does not fit the labels.
        LeakError: A dialogue is in both training and held-out rows.
        SourceError: A source cannot be read.
    """
    loaded = load_and_split_entries(config)
    by_level = config.model.distribution_dimensions()
    levels = {}
    for dimension in dimensions:
        if dimension.name in by_level:
            levels[dimension.name] = len(dimension.levels)
    rubric = [dimension.name for dimension in dimensions]
    # A source's maps are fitted on its first rows, those of training. Test rows of a source whose
    # scale has no bounds have none, and can still be ranked.
    maps_by_source: dict[str, dict[str, UnitMap]] = {}
    examples: dict[str, list[TrainingExample]] = {part: [] for part in PARTS}
    for entry_rows in loaded:
        if not entry_rows.rows:
            continue
        entry, rows = entry_rows.entry, entry_rows.rows
        names = dimension_by_label(entry, label_scales(rows), rubric)
        maps = maps_by_source.setdefault(source_name(entry.source), {})
        for label in names:
            if label not in maps and entry_rows.part != "test":
                maps[label] = make_unit_map(entry, rows, label)
        for row in rows:
            example = to_example(row, entry, names, maps, levels)
            examples[entry_rows.part].append(example)
    test = [example for example in examples["test"] if example.human]
    facts = [entry_facts(entry_rows) for entry_rows in loaded]
    return RunRows(examples["train"], examples["validation"], facts, test)


def rows_of_parts(
    loaded: Iterable[EntryRows], parts: Sequence[str]
) -> list[LabelledDialogue]:
    """Returns the labelled dialogues of some sets of a run.

    Args:
        loaded: The rows of each data source and set.
        parts: The sets to return, of ``train``, ``validation`` and ``test``.
    """
    rows: list[LabelledDialogue] = []
    for entry_rows in loaded:
        if entry_rows.part in parts:
            rows += entry_rows.rows
    return rows


def entry_facts(loaded: EntryRows) -> dict[str, object]:
    """Returns facts about the rows of one data source for the judge's model card, such as
    ``{"rows": 900, "languages": ["de"], "licence": "CC-BY-4.0"}``.

    Args:
        loaded: The rows (labelled dialogues) and the settings of the source.
    """
    digest = hashlib.sha256()
    languages, labellers, texts = set(), set(), set()
    annotators = 0
    for row in loaded.rows:
        digest.update(json_line(row).encode())
        languages.add(row.dialogue.lang or "unknown")
        labellers.add(str(row.extra.get("labels_by", "")))
        texts.add(row.dialogue.text_hash)
        for rating in row.ratings():
            annotators = max(annotators, len(rating.given_values))
    facts: dict[str, object] = {
        "part": loaded.part,
        "source": loaded.entry.source,
        "rows": len(loaded.rows),
        "hash": digest.hexdigest()[:12],
        "languages": sorted(languages),
        "injected": loaded.entry.plant is not None,
        "annotators": annotators,
        "labels_by": sorted(map(describe_labeller, labellers - {""})),
    }
    source = SOURCES.get(source_name(loaded.entry.source))
    if source is not None:
        facts |= {"licence": source.licence, "citation": source.citation}
        facts["licensed"] = source.name
        if source.labelled_by and not facts["labels_by"]:
            facts["labels_by"] = [source.labelled_by]
    if loaded.part == "train":
        # medal benchmark warns of rows that a judge was trained on.
        facts["chats"] = " ".join(sorted(texts))
    return facts


def describe_labeller(text: str) -> str:
    """Returns who labelled a dialogue, in words for the judge's model card, such as ``judge length
    at revision 1a2b, llama``.

    Args:
        text: A person's name, or the string that identifies a judge: ``judge:length|seed:0``.
    """
    signature = Signature.parse(text)
    model = signature.base or signature.judge
    if not signature.revision:
        return model
    return f"judge {signature.judge} at revision {signature.revision}, {model}"


# -- from labels to targets ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnitMap:
    """A linear map from the labels of one source to [0, 1].

    A label ``value`` becomes (value - zero) / span, clipped to [0, 1].

    Attributes:
        zero: The label that becomes 0.
        span: The label that becomes 1, minus ``zero``. Negative if low labels become 1.
    """

    zero: float
    span: float

    def __call__(self, value: float) -> float:
        return float(np.clip((value - self.zero) / self.span, 0.0, 1.0))


def label_scales(rows: Iterable[LabelledDialogue]) -> dict[str, Scale | None]:
    """Returns label -> the (lowest, highest) value of its scale. None if the scale has no bounds.

    If ``rows`` have different scales for a label, the first row with the label decides.
    """
    scales: dict[str, Scale | None] = {}
    for row in rows:
        for label in row.labels:
            scales.setdefault(label, row.scales.get(label))
    return scales


def dimension_by_label(
    entry: DataEntry, labels: Iterable[str], judge_dimensions: Iterable[str]
) -> dict[str, str]:
    """Returns label of a data source -> the judge's dimension that learns it, such as ``{"helpful":
    "overall"}``.

    Args:
        entry: The settings of the source.
        labels: The names of the source's labels.
        judge_dimensions: The names of the judge's dimensions.

    Raises:
        ConfigError: ``entry`` names an unknown label or dimension.
    """
    dimensions = entry.dimensions
    if dimensions is None:
        return {name: name for name in judge_dimensions if name in labels}
    if not isinstance(dimensions, Mapping):
        dimensions = {name: name for name in dimensions}
    for label, dimension in dimensions.items():
        if dimension not in judge_dimensions:
            raise ConfigError(
                f"{entry.source}: the rubric has no dimension {dimension!r}",
                hint=f"Use one of: {', '.join(judge_dimensions)}",
            )
        if label not in labels:
            raise ConfigError(
                f"{entry.source}: no row has a label {label!r}",
                hint=f"Use one of: {', '.join(sorted(labels))}",
            )
    return dict(dimensions)


def make_unit_map(
    entry: DataEntry, rows: Sequence[LabelledDialogue], label: str
) -> UnitMap:
    """Returns the linear map of ``label`` to [0, 1] that the settings of its source describe.

    Args:
        entry: The settings of the source.
        rows: Rows of the source. With ``rescale: standardise`` the map is fitted on their labels.
        label: The name of the label.

    Raises:
        ConfigError: The label's scale has no bounds, or its lowest and highest value are equal.
    """
    bounds = entry.rescale_of(label)
    if bounds == "standardise":
        means = []
        for row in rows:
            rating = row.rating(label)
            if rating is not None and rating.given_values:
                means.append(mean(rating))
        values = np.array(means, dtype=float)
        span = float(values.std()) / STANDARD_SHARE or 1.0
        return UnitMap(float(values.mean()) - 0.5 * span, span)
    scale = bounds or label_scales(rows)[label]
    if scale is None:
        raise ConfigError(
            f"{entry.source}: the scale of {label!r} has no bounds",
            hint="Set rescale: standardise, or rescale: [low, high]",
        )
    low, high = scale
    if low == high:
        raise ConfigError(
            f"{entry.source}: rescale of {label!r}: {low:g} and {high:g} are equal",
            hint="Write two different numbers: rescale: [1, 5]",
        )
    return UnitMap(low, high - low)


def to_example(
    row: LabelledDialogue,
    entry: DataEntry,
    names: Mapping[str, str],
    maps: Mapping[str, UnitMap],
    levels: Mapping[str, int],
) -> TrainingExample:
    """Converts ``row``, a labelled dialogue, to a training example.

    Args:
        entry: The settings of the row's data source.
        names: Label -> the judge's dimension, such as ``{"helpful": "overall"}``.
        maps: Label -> its map to [0, 1]. A label without a map gives no target.
        levels: Dimension -> its number of levels (possible ratings). It has only dimensions that
            are learnt as a probability for each level.
    """
    example = TrainingExample(
        row.dialogue, source_name(entry.source), {}, group=row.group
    )
    comments = row.extra.get("comments") or {}
    for label, dimension in names.items():
        if comments.get(label):
            example.comments[dimension] = str(comments[label])
        rating = row.rating(label)
        if rating is None or not rating.given_values:
            continue
        values = rating.given_values
        average = sum(values) / len(values)
        example.human[dimension] = average
        bounds = entry.rescale_of(label)
        if isinstance(bounds, tuple) and bounds[0] > bounds[1]:
            to_unit = UnitMap(bounds[0], bounds[1] - bounds[0])
            example.human[dimension] = to_unit(average)
        if label not in maps:
            continue
        example.targets[dimension] = maps[label](average)
        if dimension in levels:
            level_count = levels[dimension]
            level = int(np.floor(maps[label](average) * (level_count - 1) + 0.5))
            example.targets[dimension] = np.eye(level_count, dtype=np.float32)[level]
    return example


# -- a split of training rows ----------------------------------------------------------------------


def split_without_leaks(
    loaded: Iterable[EntryRows], split: Mapping[HeldOut, float], seed: int
) -> list[EntryRows]:
    """Moves a random share of the training rows to validation and test. Then drops training rows
    that nearly repeat a moved row.

    Args:
        loaded: The rows (labelled dialogues) of each data source.
        split: ``validation`` or ``test`` -> its share of the training rows, such as ``{"test":
            0.1}``.
        seed: Decides which rows move.

    Returns:
        The rows of each source and set, training sets first.

    Raises:
        ConfigError: A source is already divided into several splits, or a set gets no rows.
    """
    validation, test = split.get("validation", 0.0), split.get("test", 0.0)
    shares = (1 - validation - test, validation, test)
    divided: list[EntryRows] = []
    for entry_rows in loaded:
        divided += split_entry(entry_rows, shares, seed)
    divided.sort(key=lambda entry_rows: PARTS.index(entry_rows.part))
    for part in split:
        if not rows_of_parts(divided, [part]):
            raise ConfigError(
                f"split: no row is in {part}",
                hint="Type a larger share, or another seed",
            )
    leaks = find_leaks(
        rows_of_parts(divided, PARTS[:1]), rows_of_parts(divided, PARTS[1:])
    )
    repeating = {leak.train_id for leak in leaks}
    if repeating:
        logger.warning(
            "split: %s training rows nearly repeat held-out rows: left out",
            len(repeating),
        )
    for entry_rows in divided:
        if entry_rows.part == "train":
            entry_rows.rows[:] = [
                row for row in entry_rows.rows if row.id not in repeating
            ]
    return divided


def split_entry(
    entry_rows: EntryRows, shares: Sequence[float], seed: int
) -> Iterator[EntryRows]:
    """Divides the training rows of one data source into training, validation and test rows, and
    yields each set.

    Validation or test rows are not divided but yielded unchanged.

    Args:
        entry_rows: The rows of the source.
        shares: The shares of train, validation and test, such as ``(0.8, 0.1, 0.1)``.
        seed: Decides which rows go where.

    Raises:
        ConfigError: The source is already divided into several splits.
    """
    if entry_rows.part != "train":
        yield entry_rows
        return
    source = entry_rows.entry.source
    splits = sorted({str(row.split) for row in entry_rows.rows})
    if len(splits) > 1:
        raise ConfigError(
            f"split: rows of {source} have splits already: {', '.join(splits)}",
            hint=f"Leave split out, or read {source}:train",
        )
    by_part: dict[str, list[LabelledDialogue]] = {"train": []}
    for row in entry_rows.rows:
        part = choose_split(row.group, seed=seed, shares=shares)
        by_part.setdefault(part, []).append(row)
    for part, rows in by_part.items():
        yield EntryRows(part, entry_rows.entry, rows)


# -- one entry -------------------------------------------------------------------------------------


def load_entry(entry: DataEntry, part: str, seed: int) -> list[LabelledDialogue]:
    """Returns the labelled dialogues of one data source, as its settings select them.

    If the settings have ``plant``, returns copies with injected issues (such as repetition)
    instead.

    Args:
        entry: The settings of the source.
        part: What the rows are for: ``train``, ``validation`` or ``test``. Each gets other injected
            sentences.
        seed: Draws the rows and the injected issues.

    Returns:
        The dialogues. Empty if the source cannot be read and is optional.

    Raises:
        SourceError: The source cannot be read and is not optional.
        ConfigError: A setting does not fit the source.
    """
    reading = ReadingReport(strict=True)
    try:
        stream = stream_rows(entry.source, reading=reading, options=entry.read_options)
        rows = [row for row in stream if passes_filters(row.dialogue, entry)]
        reading.show()
        rows = entry.select_langs(rows)
    except SourceError:
        if entry.optional:
            return []
        raise
    if entry.limit is not None:
        order = np.random.default_rng(seed).permutation(len(rows))
        rows = [rows[number] for number in sorted(order[: entry.limit])]
    if entry.plant is None:
        return rows
    injected = make_issue_rows(
        rows,
        seed=seed,
        split=_TABLES[part],
        per_issue=entry.plant.get("per_issue"),
        clean_count=entry.plant.get("clean_count"),
    )
    return list(injected)


def passes_filters(dialogue: Dialogue, entry: DataEntry) -> bool:
    """Returns whether the settings ``entry`` of a data source select ``dialogue``, by its chatbot
    and its number of turns. False if it has no assistant turn."""
    if dialogue.chatbot in entry.exclude_chatbots:
        return False
    turns = len(dialogue.turns)
    if turns < entry.min_turns or turns > (entry.max_turns or turns):
        return False
    return bool(dialogue.assistant_turns)
