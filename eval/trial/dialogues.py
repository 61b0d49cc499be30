"""The dialogues of a trial: a user's file or the shipped ones; parallel and rated dialogues."""

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
QUALITY = (1.0, 5.0)  # the scale of every score of a trial


@dataclass(frozen=True, slots=True)
class RatedSet:
    """Rows with human ratings: mean rating and conversation by id. ``scaled``: the ratings are on
    the scale from 1 to 5; otherwise the source states no scale."""

    name: str
    dialogues: tuple[Dialogue, ...]
    ratings: Mapping[str, float]
    groups: Mapping[str, str]
    scaled: bool


@dataclass(slots=True)
class TrialData:
    """``groups``: the conversation of each id. ``parallel``: versions of a dialogue by language.
    ``notes``: what is missing on this machine."""

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
    """Loads the dialogues of ``file``, or the chitchat package and the shipped conversations.

    Uses no network: sources that are not on this machine become notes. Raises ConfigError if no
    dialogue is left.
    """
    data = TrialData()
    own = own_dialogues()[: config.own]
    for name, versions in own:
        for lang in config.languages:
            data.add_parallel(name, versions[lang])
    rows: list[LabelledDialogue] = []
    if file is not None:
        rows = load_spec(file, reading=reading, options=options)
        data.rated += _rated(file.rpartition("/")[2], rows, "overall", config)
    else:
        try:
            rows = load_spec(SHIPPED)
        except MissingExtraError as error:
            data.notes.append(f"without real conversations in English: {error}")
    chosen = [row for row in rows if _fits(row, config, shipped=file is None)]
    chosen.sort(key=lambda row: (stable_hash(config.seed, "trial", row.id), row.id))
    for row in chosen[: config.dialogues]:
        data.dialogues.append(row.dialogue)
        data.groups[row.id] = row.group
    if unknown := sum(dialogue.lang == UNKNOWN_LANGUAGE for dialogue in data.dialogues):
        data.notes.append(
            f"{unknown} of {len(data.dialogues)} dialogues state no language: checks that insert "
            "text skip them (add a column lang, or --column lang=NAME)"
        )
    if file is None:
        data.dialogues += [d for versions in data.parallel.values() for d in versions.values()]
    if not data.dialogues:
        raise ConfigError(
            f"no dialogue to put a judge on trial with ({len(rows)} read)",
            hint=f"min_turns={config.min_turns} and max_turns={config.max_turns} skip the others; "
            "dialogues=24 sets how many take part",
        )
    ours = [LabelledDialogue(d, {}, {}, group=name) for name, by in own for d in by.values()]
    data.donors = Donors.of([*rows, *ours])
    _add_translated(data, config)
    for spec, dimension in config.rated.items():
        try:
            rated_rows = load_spec(spec, offline=True)
        except (SourceError, MissingExtraError) as error:
            data.notes.append(f"no calibration on {spec}: {error.message}")
            continue
        data.rated += _rated(spec, rated_rows, dimension, config)
    return data


def _fits(row: LabelledDialogue, config: TrialConfig, *, shipped: bool) -> bool:
    """Whole dialogues with an answer take part; of the shipped ones only those of medium length."""
    turns = len(row.dialogue.turns)
    least, most = (config.min_turns, config.max_turns) if shipped else (2, turns)
    answered = bool(row.dialogue.assistant_turns)
    return row.level == "dialogue" and answered and least <= turns <= most


@lru_cache(maxsize=1)
def own_dialogues() -> tuple[tuple[str, Mapping[str, Dialogue]], ...]:
    """Returns (name, dialogue by language) for each entry of configs/trial/dialogues.yaml."""

    def dialogue(name: str, turns: Sequence[Mapping[str, str]], lang: str) -> Dialogue:
        roles = ("user", "assistant")
        texts = tuple(Turn(roles[i % 2], turn[lang]) for i, turn in enumerate(turns))  # type: ignore[arg-type]
        return Dialogue(f"{name}-{lang}", texts, lang, source="trial")

    entries = parse_yaml(config_text("trial/dialogues"), "configs/trial/dialogues.yaml")
    named = [(f"own-{entry['id']}", entry["turns"]) for entry in entries]
    return tuple(
        (name, {lang: dialogue(name, turns, lang) for lang in turns[0]}) for name, turns in named
    )


def _add_translated(data: TrialData, config: TrialConfig) -> None:
    """Adds the parallel dialogues of ``config.parallel``, without those marked as not parallel."""
    if config.parallel is None:
        return
    try:
        rows = load_spec(config.parallel, offline=True)
    except SourceError as error:
        data.notes.append(
            f"the language check uses the shipped dialogues only, in {len(config.languages)} "
            f"languages: {error.message}"
        )
        return
    rows = [row for row in rows if "not_parallel" not in row.extra.get("defects", ())]
    named = [(str(row.extra.get("parallel_id", row.group)), row) for row in rows]
    order = sorted(
        {name for name, _ in named}, key=lambda name: stable_hash(config.seed, "parallel", name)
    )
    chosen = set(order[: config.parallel_dialogues])
    for name, row in named:
        if name in chosen:
            data.add_parallel(name, row.dialogue)


def _rated(
    name: str, rows: Sequence[LabelledDialogue], dimension: str, config: TrialConfig
) -> list[RatedSet]:
    """Returns the rows with a rating of ``dimension`` as one set; empty if there are none."""
    kept = [row for row in rows if dimension in row.labels and row.level == "dialogue"]
    kept.sort(key=lambda row: (stable_hash(config.seed, "rated", row.id), row.id))
    scaled = bool(kept) and all(row.scales.get(dimension) is not None for row in kept)
    chosen: list[LabelledDialogue] = []
    ratings: dict[str, float] = {}
    for row in kept:
        rating = row.rating(dimension)
        value = None if rating is None else mean(rating)
        if value is not None and len(chosen) < config.rated_rows:
            scale = row.scales.get(dimension)
            ratings[row.id] = rescale(value, scale, QUALITY) if scaled and scale else value
            chosen.append(row)
    if not chosen:
        return []
    groups = {row.id: row.group for row in chosen}
    return [RatedSet(name, tuple(row.dialogue for row in chosen), ratings, groups, scaled)]
