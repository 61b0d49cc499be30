"""The dialogues of a trial: a user's file or what ships; parallel dialogues and rated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from medal_judges.config import config_text, parse_yaml
from medal_judges.data_prep.perturbation.edit import Donors, stable_hash
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.errors import ConfigError, MissingExtraError, SourceError
from medal_judges.eval.trial.config import TrialConfig
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.languages import UNKNOWN_LANGUAGE
from medal_judges.records.rating import mean, rescale

SHIPPED = "chitchat:test"
QUALITY = (1.0, 5.0)  # the scale that every score of a trial is put on


@dataclass(frozen=True, slots=True)
class RatedSet:
    """Rows that people rated, with their mean rating by id; ``scaled``: from 1 to 5, where the set
    states its scale, else as the source has it."""

    name: str
    dialogues: tuple[Dialogue, ...]
    ratings: Mapping[str, float]
    groups: Mapping[str, str]
    scaled: bool


@dataclass(slots=True)
class TrialData:
    """What a trial works on. ``groups`` maps ids to conversations, ``parallel`` the name of a
    dialogue to its versions by language. ``notes`` say what is not here."""

    dialogues: list[Dialogue] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    donors: Donors = field(default_factory=Donors)
    parallel: dict[str, dict[str, Dialogue]] = field(default_factory=dict)
    rated: list[RatedSet] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_parallel(self, name: str, dialogue: Dialogue) -> None:
        self.parallel.setdefault(name, {})[dialogue.lang] = dialogue
        self.groups[dialogue.id] = name


def load_data(
    config: TrialConfig,
    file: str | None = None,
    *,
    reading: ReadingReport | None = None,
    options: ReadOptions = DEFAULT_READING,
) -> TrialData:
    """The dialogues that ``config`` asks for: those of ``file``, read by ``options``, else
    chitchat's and our own.

    The network is never asked: sets that are not on this machine are left out with a note. Raises
    what reading ``file`` raises, and ConfigError where nothing is left to work on.
    """
    data = TrialData()
    own = own_dialogues()[: config.own]
    for name, versions in own:
        for lang in config.languages:
            data.add_parallel(name, versions[lang])
    rows = _shipped(data) if file is None else load_spec(file, reading=reading, options=options)
    if file is not None:
        data.rated += [r for r in [_rated_file(file, rows, config)] if r is not None]
    chosen = [row for row in rows if _fits(row, config, alone=file is None)]
    chosen.sort(key=lambda row: (stable_hash(config.seed, "trial", row.id), row.id))
    for row in chosen[: config.dialogues]:
        data.dialogues.append(row.dialogue)
        data.groups[row.id] = row.group
    if unknown := sum(dialogue.lang == UNKNOWN_LANGUAGE for dialogue in data.dialogues):
        data.notes.append(
            f"{unknown} of {len(data.dialogues)} dialogues state no language: the checks that put "
            "text in leave them out (a column lang, or --column lang=NAME, states it)"
        )
    if file is None:
        data.dialogues += [d for versions in data.parallel.values() for d in versions.values()]
    if not data.dialogues:
        raise ConfigError(
            f"no dialogue to put a judge on trial with ({len(rows)} read)",
            hint=f"min_turns={config.min_turns} and max_turns={config.max_turns} leave out others; "
            "dialogues=24 says how many of them take part",
        )
    ours = [labelled_own(d, name) for name, by in own for d in by.values()]
    data.donors = Donors.of([*rows, *ours])
    _add_translated(data, config)
    _add_rated(data, config)
    return data


def _shipped(data: TrialData) -> list[LabelledDialogue]:
    try:
        return load_spec(SHIPPED)
    except MissingExtraError as error:
        data.notes.append(f"without real conversations in English: {error}")
        return []


def _fits(row: LabelledDialogue, config: TrialConfig, *, alone: bool) -> bool:
    """Whether a row takes part: a whole dialogue with an answer. Of what ships only those of
    middling length; of a user's file all."""
    turns = len(row.dialogue.turns)
    least, most = (config.min_turns, config.max_turns) if alone else (2, turns)
    answered = bool(row.dialogue.assistant_turns)
    return row.level == "dialogue" and answered and least <= turns <= most


@lru_cache(maxsize=1)
def own_dialogues() -> tuple[tuple[str, Mapping[str, Dialogue]], ...]:
    """(Name, the dialogue by language) of configs/trial/dialogues.yaml."""
    entries = parse_yaml(config_text("trial/dialogues"), "configs/trial/dialogues.yaml")
    made = []
    for entry in entries:
        name = f"own-{entry['id']}"
        versions = {
            lang: Dialogue(f"{name}-{lang}", _turns(entry["turns"], lang), lang, source="trial")
            for lang in entry["turns"][0]
        }
        made.append((name, versions))
    return tuple(made)


def _turns(turns: Sequence[Mapping[str, str]], lang: str) -> tuple[Turn, ...]:
    return tuple(Turn("assistant" if i % 2 else "user", turn[lang]) for i, turn in enumerate(turns))


def labelled_own(dialogue: Dialogue, name: str) -> LabelledDialogue:
    return LabelledDialogue(dialogue, {}, {}, group=name)


def _add_translated(data: TrialData, config: TrialConfig) -> None:
    """Parallel dialogues of a source that is here; those that are marked not parallel stay out."""
    if config.parallel is None:
        return
    try:
        rows = load_spec(config.parallel, offline=True)
    except SourceError as error:
        data.notes.append(
            f"the language check is on our own dialogues alone, in {len(config.languages)} "
            f"languages: {error.message}"
        )
        return
    rows = [row for row in rows if "not_parallel" not in row.extra.get("defects", ())]
    names = sorted(
        {str(row.extra.get("parallel_id", row.group)) for row in rows},
        key=lambda name: stable_hash(config.seed, "parallel", name),
    )[: config.parallel_dialogues]
    for row in rows:
        name = str(row.extra.get("parallel_id", row.group))
        if name in names:
            data.add_parallel(name, row.dialogue)


def _add_rated(data: TrialData, config: TrialConfig) -> None:
    for spec, dimension in config.rated.items():
        try:
            rows = load_spec(spec, offline=True)
        except (SourceError, MissingExtraError) as error:
            data.notes.append(f"no calibration on {spec}: {error.message}")
            continue
        if (made := _rated(spec, rows, dimension, config)) is not None:
            data.rated.append(made)


def _rated_file(
    file: str, rows: Sequence[LabelledDialogue], config: TrialConfig
) -> RatedSet | None:
    """The user's own rows, where they have ratings of overall."""
    return _rated(file.rpartition("/")[2], rows, "overall", config)


def _rated(
    name: str, rows: Sequence[LabelledDialogue], dimension: str, config: TrialConfig
) -> RatedSet | None:
    kept = [row for row in rows if dimension in row.labels and row.level == "dialogue"]
    kept.sort(key=lambda row: (stable_hash(config.seed, "rated", row.id), row.id))
    ratings: dict[str, float] = {}
    groups: dict[str, str] = {}
    dialogues: list[Dialogue] = []
    scales = [row.scales.get(dimension) for row in kept]
    scaled = bool(scales) and None not in scales
    for row, scale in zip(kept, scales, strict=True):
        rating = row.rating(dimension)
        value = None if rating is None else mean(rating)
        if value is None or len(dialogues) == config.rated_rows:
            continue
        ratings[row.id] = rescale(value, scale, QUALITY) if scaled and scale else value
        groups[row.id] = row.group
        dialogues.append(row.dialogue)
    if not dialogues:
        return None
    return RatedSet(name, tuple(dialogues), ratings, groups, scaled)
