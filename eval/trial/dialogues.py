"""The dialogues of a trial: a user's file or the shipped ones; parallel and rated dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pandas as pd

from medal_judges.config import config_text, parse_yaml
from medal_judges.data_prep.perturbation.edit import Donors, stable_hash
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.errors import ConfigError, MissingExtraError, SourceError
from medal_judges.eval.trial.config import TrialConfig
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.records.dialogue import Dialogue, Role, Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.languages import UNKNOWN_LANGUAGE
from medal_judges.records.rating import mean, rescale

SHIPPED = "chitchat:test"
QUALITY = (1.0, 5.0)  # the scale of every score of a trial


@dataclass(slots=True)
class TrialData:
    """``groups``: the conversation of each id. ``parallel``: versions of a dialogue by language.
    ``rated``: a table from ``_rated`` by source. ``notes``: what is missing on this machine."""

    dialogues: list[Dialogue] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    donors: Donors = field(default_factory=Donors)
    parallel: dict[str, dict[str, Dialogue]] = field(default_factory=dict)
    rated: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


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
    parallel = [(name, versions[lang]) for name, versions in own for lang in config.languages]
    rows: list[LabelledDialogue] = []
    if file is not None:
        rows = load_spec(file, reading=reading, options=options)
        data.rated[file.rpartition("/")[2]] = _rated(rows, "overall", config)
    else:
        try:
            rows = load_spec(SHIPPED)
        except MissingExtraError as error:
            data.notes.append(f"without real conversations in English: {error}")
    chosen = []
    for row in rows:  # of the shipped dialogues only those of medium length
        turns = len(row.dialogue.turns)
        fits = turns >= 2 if file else config.min_turns <= turns <= config.max_turns
        if fits and row.level == "dialogue" and row.dialogue.assistant_turns:
            chosen.append(row)
    chosen.sort(key=lambda row: (stable_hash(config.seed, "trial", row.id), row.id))
    chosen = chosen[: config.dialogues]
    data.dialogues = [row.dialogue for row in chosen]
    if unknown := sum(dialogue.lang == UNKNOWN_LANGUAGE for dialogue in data.dialogues):
        data.notes.append(
            f"{unknown} of {len(data.dialogues)} dialogues state no language: checks that insert "
            "text skip them (add a column lang, or --column lang=NAME)"
        )
    if file is None:
        data.dialogues += [dialogue for _, dialogue in parallel]
    if not data.dialogues:
        raise ConfigError(
            f"no dialogue to put a judge on trial with ({len(rows)} read)",
            hint=f"min_turns={config.min_turns} and max_turns={config.max_turns} skip the others; "
            "dialogues=24 sets how many take part",
        )
    ours = [LabelledDialogue(d, {}, {}, group=name) for name, by in own for d in by.values()]
    data.donors = Donors.of([*rows, *ours])
    if config.parallel is not None:
        try:
            parallel += _translated(config)
        except SourceError as error:
            data.notes.append(
                "the language check uses the shipped dialogues only, in "
                f"{len(config.languages)} languages: {error.message}"
            )
    for name, dialogue in parallel:
        data.parallel.setdefault(name, {})[dialogue.lang] = dialogue
    data.groups = {row.id: row.group for row in chosen}
    data.groups |= {dialogue.id: name for name, dialogue in parallel}
    for spec, dimension in config.rated.items():
        try:
            data.rated[spec] = _rated(load_spec(spec, offline=True), dimension, config)
        except (SourceError, MissingExtraError) as error:
            data.notes.append(f"no calibration on {spec}: {error.message}")
    data.rated = {name: table for name, table in data.rated.items() if len(table)}
    return data


@lru_cache(maxsize=1)
def own_dialogues() -> tuple[tuple[str, Mapping[str, Dialogue]], ...]:
    """Returns (name, dialogue by language) for each entry of configs/trial/dialogues.yaml."""
    roles: tuple[Role, Role] = ("user", "assistant")
    named = []
    for entry in parse_yaml(config_text("trial/dialogues"), "configs/trial/dialogues.yaml"):
        name, versions = f"own-{entry['id']}", {}
        for lang in entry["turns"][0]:
            turns = [Turn(roles[i % 2], turn[lang]) for i, turn in enumerate(entry["turns"])]
            versions[lang] = Dialogue(f"{name}-{lang}", tuple(turns), lang, source="trial")
        named.append((name, versions))
    return tuple(named)


def _translated(config: TrialConfig) -> list[tuple[str, Dialogue]]:
    """Returns (name, version) of the chosen dialogues of ``config.parallel``, without those marked
    as not parallel."""
    rows = load_spec(str(config.parallel), offline=True)
    rows = [row for row in rows if "not_parallel" not in row.extra.get("defects", ())]
    named = [(str(row.extra.get("parallel_id", row.group)), row.dialogue) for row in rows]
    names = {name for name, _ in named}
    order = sorted(names, key=lambda name: stable_hash(config.seed, "parallel", name))
    chosen = set(order[: config.parallel_dialogues])
    return [(name, dialogue) for name, dialogue in named if name in chosen]


def _rated(rows: Sequence[LabelledDialogue], dimension: str, config: TrialConfig) -> pd.DataFrame:
    """Returns dialogues with their mean human ``rating``, one a row; if ``scaled``, it is on the
    scale from 1 to 5, otherwise the source states no scale."""
    labelled = [row for row in rows if dimension in row.labels and row.level == "dialogue"]
    labelled.sort(key=lambda row: (stable_hash(config.seed, "rated", row.id), row.id))
    scaled = all(row.scales.get(dimension) is not None for row in labelled)
    lines = []
    for row in labelled:
        rating, scale = row.rating(dimension), row.scales.get(dimension)
        value = None if rating is None else mean(rating)
        if value is not None:
            value = rescale(value, scale, QUALITY) if scaled and scale else value
            lines.append((row.id, row.dialogue, row.group, row.dialogue.chatbot, value, scaled))
    columns = ["id", "dialogue", "conversation", "chatbot", "rating", "scaled"]
    return pd.DataFrame(lines[: config.rated_rows], columns=columns)
