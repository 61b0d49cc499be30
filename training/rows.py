"""The rows of a run: load each entry, inject issues, refuse leaks, make training examples."""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from medal_judges.data_prep.labelling import labelled
from medal_judges.data_prep.perturbation.injection import injected_set
from medal_judges.data_prep.sources.leaks import check_leaks, find_leaks
from medal_judges.data_prep.sources.registry import source_of, stream_spec
from medal_judges.errors import ConfigError, SourceError
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.joining import ScoreKey, join_labels
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale, mean, rescale
from medal_judges.storage.jsonl import to_line
from medal_judges.storage.judgements import read_judgements
from medal_judges.training.config import DataEntry, SplitConfig, TrainConfig

_Loaded = tuple[str, DataEntry, list[LabelledDialogue]]  # part, entry, rows
PARTS = ("train", "validation", "test")
logger = logging.getLogger(__name__)
STANDARD_SHARE = 0.2  # of the scale for one standard deviation, so that +-2.5 of them span it


@dataclass(slots=True)
class TrainingExample:
    """One labelled dialogue. A target is a number on [0, 1], or a probability per level [levels]
    for ordinal and classification heads; a missing dimension is a missing label."""

    dialogue: Dialogue
    source: str
    targets: dict[str, float | np.ndarray]
    weight: float = 1.0
    # Mean rating on the raw scale; on [0, 1] as the target if the entry inverts the scale.
    human: dict[str, float] = field(default_factory=dict)
    group: str = ""
    comments: Mapping[str, str] = field(default_factory=dict)  # an annotator's words by dimension


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What a run needs to know of all rows of an entry: a hash of them, their languages (sorted,
    ``unknown`` among them), the scale of each label (as the first row with it states it), and the
    mean label of each row [n], NaN without one."""

    hash: str
    languages: list[str]
    scales: dict[str, Scale | None]
    means: dict[str, np.ndarray]

    @classmethod
    def of(cls, rows: Iterable[LabelledDialogue]) -> RowFacts:
        """Reads all rows once."""
        digest, languages = hashlib.sha256(), set()
        scales: dict[str, Scale | None] = {}
        means: dict[str, array[float]] = {}
        for count, row in enumerate(rows):
            digest.update(to_line(row).encode())
            languages.add(row.dialogue.lang or "unknown")
            for name in row.labels:
                if name not in means:
                    means[name] = array("d", [np.nan]) * count
                    scales[name] = row.scales.get(name)
            for name, column in means.items():
                rating = row.rating(name)
                value = None if rating is None else mean(rating)
                column.append(np.nan if value is None else value)
        columns = {name: np.frombuffer(column, dtype=float) for name, column in means.items()}
        return cls(digest.hexdigest()[:12], sorted(languages), scales, columns)


@dataclass(frozen=True, slots=True)
class UnitMap:
    """Linear map of one source's label to [0, 1]: (value - zero) / span, clipped."""

    zero: float
    span: float

    def __call__(self, value: float) -> float:
        return float(np.clip((value - self.zero) / self.span, 0.0, 1.0))


def dimension_names(entry: DataEntry, labels: Iterable[str], judged: list[str]) -> dict[str, str]:
    """Label -> dimension of the judge. Raises ConfigError for unknown names."""
    named = entry.dimensions
    if named is None:
        return {name: name for name in judged if name in labels}
    pairs = dict(named) if isinstance(named, Mapping) else {n: n for n in named}
    for label, dimension in pairs.items():
        if dimension not in judged:
            raise ConfigError(
                f"{entry.source}: the rubric has no dimension {dimension!r}",
                hint=f"it has: {', '.join(judged)}",
            )
        if label not in labels:
            raise ConfigError(
                f"{entry.source}: no row has a label {label!r}",
                hint=f"its labels: {', '.join(sorted(labels))}",
            )
    return pairs


def fit_unit_map(entry: DataEntry, facts: RowFacts, label: str) -> UnitMap:
    """The map of ``label``; ``standardise`` computes it from the labels themselves."""
    bounds = entry.bounds(label)
    if bounds == "standardise":
        values = facts.means[label][np.isfinite(facts.means[label])]
        span = float(values.std()) / STANDARD_SHARE or 1.0
        return UnitMap(float(values.mean()) - 0.5 * span, span)
    scale = bounds or facts.scales[label]
    if scale is None:
        raise ConfigError(
            f"{entry.source}: the scale of {label!r} has no bounds",
            hint="set rescale: standardise, or rescale: [low, high]",
        )
    return UnitMap(scale[0], scale[1] - scale[0])


def to_example(
    row: LabelledDialogue,
    entry: DataEntry,
    names: Mapping[str, str],
    maps: Mapping[str, UnitMap] | None,
    levels: Mapping[str, int],
    soft: bool,
) -> TrainingExample:
    """The example of one row. ``names`` maps a label to the judge's dimension, ``maps`` a label to
    [0, 1] (None: an example without targets), ``levels`` a dimension with a target per level to
    their number. With ``soft`` such a target is each annotator's share, else the mean's level."""
    targets: dict[str, float | np.ndarray] = {}
    human: dict[str, float] = {}
    for label, dimension in names.items():
        rating = row.rating(label)
        average = None if rating is None else mean(rating)
        if rating is None or average is None:
            continue
        human[dimension] = average
        bounds = entry.bounds(label)
        if isinstance(bounds, tuple) and bounds[0] > bounds[1]:
            human[dimension] = UnitMap(bounds[0], bounds[1] - bounds[0])(average)
        if maps is None:
            continue
        unit, count = maps[label], levels.get(dimension, 0)
        if not count:
            targets[dimension] = unit(average)
            continue
        values = (
            rating.without_nulls
            if soft
            else (sum(rating.without_nulls) / len(rating.without_nulls),)
        )
        shares = np.zeros(count, dtype=np.float32)
        for value in values:
            level = rescale(unit(value), (0, 1), (0, count - 1))
            shares[int(np.floor(level + 0.5))] += 1 / len(values)
        targets[dimension] = shares
    given = row.extra.get("comments") or {}
    comments = {d: str(given[label]) for label, d in names.items() if given.get(label)}
    source, weight = source_of(entry.source), entry.weight
    return TrainingExample(row.dialogue, source, targets, weight, human, row.group, comments)


# -- all examples of a run -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Columns:
    """Of all examples: ``weights`` [n], ``sources`` [n], and by dimension ``targets`` [n] on [0,
    1], the mean of a target per level, NaN without one."""

    weights: np.ndarray
    sources: np.ndarray
    targets: dict[str, np.ndarray]

    @classmethod
    def of(cls, examples: Sequence[TrainingExample]) -> Columns:
        """Reads all examples once."""
        weights, sources = np.zeros(len(examples)), []
        targets: dict[str, np.ndarray] = {}
        for row, example in enumerate(examples):
            weights[row] = example.weight
            sources.append(example.source)
            for name, target in example.targets.items():
                if isinstance(target, np.ndarray):
                    target = float(target @ np.linspace(0, 1, len(target)))
                targets.setdefault(name, np.full(len(examples), np.nan))[row] = target
        return cls(weights, np.array(sources), targets)


def spread(examples: Sequence[TrainingExample], count: int) -> list[TrainingExample]:
    """At most ``count`` examples, evenly over all."""
    step = max(1, len(examples) // count)
    return [examples[i] for i in range(0, len(examples), step)][:count]


# -- loading ---------------------------------------------------------------------------------------


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
    if config.split is not None:
        loaded = _divided(loaded, config.split)
    train = [row for part, _, rows in loaded if part == "train" for row in rows]
    if not train:
        raise ConfigError("no training rows", hint="check the `train` entries of the config")
    check_leaks(train, [row for part, _, rows in loaded if part != "train" for row in rows])
    judged = [d.name for d in dimensions]
    # Dimensions whose head has a probability per level.
    by_level = config.model.level_dimensions()
    levels = {d.name: len(d.levels) for d in dimensions if d.name in by_level}
    maps: dict[str, dict[str, UnitMap]] = {}
    facts: list[dict[str, object]] = []
    examples: dict[str, list[TrainingExample]] = {part: [] for part in PARTS}
    for part, entry, rows in loaded:
        known = RowFacts.of(rows)
        about: dict[str, object] = {"part": part, "source": entry.source, "rows": len(rows)}
        about["hash"] = known.hash
        about |= {"languages": known.languages, "injected": entry.plant is not None}
        ratings = [len(rating.without_nulls) for row in rows for rating in row.ratings()]
        about["annotators"] = max(ratings, default=0)
        about["labels_by"] = sorted({str(row.extra.get("labels_by", "")) for row in rows} - {""})
        if part == "train":  # medal benchmark warns of rows that a judge was trained on
            about["chats"] = " ".join(sorted({row.dialogue.text_hash for row in rows}))
        facts.append(about)
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


def _divided(loaded: Sequence[_Loaded], split: SplitConfig) -> list[_Loaded]:
    """``loaded`` with training rows divided by ``split``, without those that nearly repeat a new
    held-out row. Raises ConfigError for rows with splits of their own and a part without rows."""
    divided: list[_Loaded] = []
    for _, entry, rows in (each for each in loaded if each[0] == "train"):
        if len(own := {str(row.split) for row in rows}) > 1:
            problem = f"split: rows of {entry.source} have splits already: {', '.join(sorted(own))}"
            raise ConfigError(problem, hint=f"leave out split, or read {entry.source}:train")
        sides: dict[str, list[LabelledDialogue]] = {part: [] for part in PARTS}
        for row in rows:
            sides[split.part_of(row.group)].append(row)
        divided += [(part, entry, side) for part, side in sides.items() if side]
    learnt = [rows for part, _, rows in divided if part == "train"]
    held = [row for part, _, rows in divided if part != "train" for row in rows]
    alike = {leak.train_id for leak in find_leaks(chain.from_iterable(learnt), held)}
    for rows in learnt:
        rows[:] = [row for row in rows if row.id not in alike]
    if alike:
        logger.warning("split: %s training rows nearly repeat held-out rows: left out", len(alike))
    divided += [each for each in loaded if each[0] != "train"]
    for part, share in zip(PARTS, split.shares, strict=True):
        if share and part not in {each[0] for each in divided}:
            raise ConfigError(f"split: no row is in {part}", hint="a larger share, or another seed")
    return sorted(divided, key=lambda each: PARTS.index(each[0]))


def _judged(row: LabelledDialogue, judgement: Judgement) -> LabelledDialogue:
    """Returns the row, up to the judged turn, with the judgement's scores as labels."""
    dialogue = row.dialogue.upto(judgement.turn)
    row = replace(row, dialogue=dialogue, level="dialogue" if judgement.turn is None else "turn")
    if judgement.dimensions:
        return labelled(row, judgement, judgement.dimensions)
    # Without a stated scale, the entry has to say `rescale`.
    plain = [Dimension(name, "continuous", 0, 1) for name in judgement.scores]
    return replace(labelled(row, judgement, plain), scales={})


def load_entry(entry: DataEntry, seed: int) -> list[LabelledDialogue]:
    """Labelled rows of one entry: filtered, judged, limited, injected. Raises SourceError,
    ConfigError."""

    def wanted(row: LabelledDialogue) -> bool:
        turns = len(row.dialogue.turns)
        return (
            row.dialogue.chatbot not in entry.exclude_chatbots
            and entry.min_turns <= turns <= (entry.max_turns or turns)
            and bool(row.dialogue.assistant_turns)
        )

    try:
        reading = ReadingReport(strict=True)
        stream = stream_spec(entry.source, reading=reading, options=entry.read_options)
        read = [*filter(wanted, stream)]
        reading.show()
        rows = entry.in_langs(read)
    except SourceError:
        if entry.optional:
            return []
        raise
    if entry.labels is not None:
        scored = []
        for judgement in read_judgements(entry.labels):
            if set(judgement.scores.values()) - {None}:
                scored.append(replace(judgement, contributions={}, distributions={}))
        keys = [ScoreKey(judgement.id, judgement.turn, judgement.chat) for judgement in scored]
        joined = join_labels(rows, keys)
        for note in joined.notes(entry.labels):
            logger.warning("%s: %s", entry.source, note)
        judged: list[list[LabelledDialogue]] = []
        for row, places in zip(rows, joined.score_rows, strict=True):
            judged.append([_judged(row, scored[place]) for place in places])
        if not all(judged):
            left = f"{judged.count([])} of {len(rows)} chats have no score in {entry.labels}"
            if not any(judged):
                hint = f"score this very file: medal score CHATS --judge NAME --out {entry.labels}"
                raise ConfigError(f"{entry.source}: {left}", hint=hint)
            logger.warning("%s: %s: left out", entry.source, left)
        rows = list(chain.from_iterable(judged))
    if entry.limit is not None or entry.skip:
        order = np.random.default_rng(seed).permutation(len(rows))
        end = None if entry.limit is None else entry.skip + entry.limit
        rows = [rows[i] for i in sorted(order[entry.skip : end])]
    if entry.plant is None:
        return rows
    return [*injected_set(rows, seed=seed, **entry.plant.model_dump(exclude_none=True))]
