"""The dialogues of several systems with their scores and contexts, from files of scores, or from
chats and a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from medal_judges.config import BOXED, Config, option
from medal_judges.errors import ConfigError, MedalError
from medal_judges.eval.scores.columns import value_as_text
from medal_judges.eval.scores.files import frame_of, score_files
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.metadata import metadata_of
from medal_judges.inference.scoring import score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import ReadingReport, ReadOptions, dialogues_of
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature
from medal_judges.report.page import Turns, shortened
from medal_judges.report.table import unique_slugs
from medal_judges.stats.correlation import Floats
from medal_judges.storage.files import only_run
from medal_judges.storage.judgements import (
    holds_judgements,
    read_frame,
    stated_dimensions,
    to_frame,
)

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_ENDINGS = (".gz", ".zst", ".jsonl", ".json", ".parquet", ".csv", ".scores", ".scored")
MOST_SYSTEMS = 100  # 4,950 pairs of each dimension and language
# Names of a column that holds the scene or prompt of a dialogue.
_SCENES = ("context", "scene", "scenario", "prompt_id", "context_id")
_FEW = 3  # dialogues of a system that may share an opening without being a greeting
_COMMON = 0.2  # minimum share of rows whose opening two systems have, to pair by openings
_MOST = 0.5  # share of rows with one context, up to which a column tells contexts apart
_ALIKE = 0.5  # minimum share of shared ids with equal openings, to pair by ids


class CompareOptions(Config):
    """How systems are compared.

    >>> CompareOptions(files=["all.jsonl"], by="chatbot").min_coverage
    0.98
    """

    files: tuple[str, ...] = option(
        argument=True,
        metavar="[NAME=]FILE...",
        max_length=MOST_SYSTEMS,
        help="Scores, a folder of scores, or chats to score; one for each system.",
    )
    by: str | None = option(
        None, help="Column that names the system: chatbot, or one of medal score --keep."
    )
    judge: str | None = option(
        None, help="Scores chats: shipped name, YAML file, folder or hub id; boxed by default."
    )
    human: tuple[str, ...] = option(
        (), metavar="[NAME=]FILE", help="Human labels, which correct the judge; may be repeated."
    )
    chats: tuple[str, ...] = option((), help="Dialogues of the scores, by id; may be repeated.")
    out: Path | None = option(
        None, help="Folder to write: page, JSON, tables, figures and resumed scores."
    )
    fail_if_worse: float | None = option(
        None,
        ge=0,
        metavar="MARGIN",
        help="Gate: no system is worse than the first one by more than MARGIN (0: at all).",
    )
    fail_undecided: bool = option(False, help="Fail a gate if its margin is inside the interval.")
    min_coverage: float = option(
        0.98, ge=0, le=1, help="Minimum coverage of a gate; exits with status 3 below it."
    )
    junit: Path | None = option(None, help="File to write: the gates as JUnit XML, for CI.")
    dimensions: tuple[str, ...] = option(
        (), flag="--dimension", help="Only this dimension; may be repeated."
    )
    context: str | None = option(None, help="Column that names the context, such as scene.")
    cluster: str | None = option(None, help="Column whose rows belong together, such as user.")
    rubric: str | None = option(
        None, help="Shipped name or YAML file: scales and good ends that the scores do not state."
    )
    device: str | None = option(None, help="cpu, cuda, cuda:1, ...")
    dtype: Literal["auto", "fp32", "bf16", "fp16"] | None = option(
        None, help="Precision of the judge; see medal score."
    )
    reading: ReadOptions = ReadOptions()

    @model_validator(mode="after")
    def _check(self) -> CompareOptions:
        if self.fail_if_worse is None and (self.junit is not None or self.fail_undecided):
            option = "--fail-undecided" if self.junit is None else "--junit"
            raise ConfigError(f"{option} needs a gate", hint="--fail-if-worse MARGIN")
        return self

    @property
    def sources(self) -> dict[str, Path]:
        """The file of each system. A system without a given name is named after its file. Raises
        MedalError if two systems have the same name."""
        names, stems, paths = [], [], []
        for text in self.files:
            name, sign, path = text.partition("=")
            if not (sign and name and path) or "/" in name or Path(text).exists():
                name, path = "", text
            stem = Path(path).name
            for ending in _ENDINGS:
                stem = stem.removesuffix(ending)
            names.append(name)
            stems.append(stem or Path(path).name)
            paths.append(Path(path))
        names = [n or stem for n, stem in zip(names, unique_slugs(stems), strict=True)]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise MedalError(
                f"two systems are named {twice[0]!r}", hint="name them: v1=old.jsonl v2=new.jsonl"
            )
        return dict(zip(names, paths, strict=True))


@dataclass(slots=True)
class Systems:
    """All dialogues, system by system. ``frame`` has a row for each dialogue and two levels of
    columns: ``row`` (system, source (its file's name), id, turn (the last judged one), chat, lang,
    opening, dialogue without turns; the last two only if texts are known), ``score`` by dimension
    (means over judged turns), ``asked`` (whether the judge scores the dimension) and ``meta``.
    ``without`` counts rows that name no system. ``stated``: the dimensions that each file states.
    """

    frame: DataFrame
    judge: str
    stated: Sequence[tuple[str, Sequence[Dimension]]]
    without: int = 0

    def row(self, name: str) -> Series:
        return self.frame["row", name]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(self.row("system")))

    @property
    def dimensions(self) -> list[str]:
        return list(self.frame["asked"].columns)

    @property
    def alone(self) -> Series:
        """A name for each row that makes it its own group."""
        return "own " + self.row("system") + "\x00" + self.row("id")

    def scores(self, dimension: str) -> Floats:
        return np.asarray(self.frame["score", dimension], dtype=np.float64)

    def unscored(self, dimension: str) -> npt.NDArray[np.bool_]:
        """The rows without a score although the judge scores the dimension."""
        asked = self.frame["asked", dimension].notna().to_numpy()
        return np.asarray(asked & np.isnan(self.scores(dimension)))

    def column(self, name: str, *, required: bool = False) -> Series:
        """A column as text, by its name in ``medal score --keep``; None if a row has no value.
        Raises MedalError if the column is ``required`` and no row has a value."""
        if name == "lang":
            return self.row("lang")
        values = [None] * len(self.frame)
        if ("meta", name) in self.frame:
            values = self.frame["meta", name].astype(object).tolist()
        texts = {}
        for i, (value, dialogue) in enumerate(zip(values, self.row("dialogue"), strict=True)):
            texts[i] = value_as_text(value)
            if texts[i] is None and isinstance(dialogue, Dialogue):
                texts[i] = value_as_text(metadata_of(dialogue, [name])[name])
        if required and not any(texts.values()):
            hint = f"to keep a column in the scores: medal score --keep {name}"
            raise MedalError(f"no row has a value of {name!r}", hint=hint)
        return self.frame.index.to_series().map(texts)

    def grouped(self, name: str, kind: str) -> Series:
        """The group of each row by a required column; a row without a value is its own group."""
        values = self.column(name, required=True)
        return self.alone.where(values.isna(), f"{kind} " + values.astype(object))


def _require_chats_for_a_judge(options: CompareOptions, paths: Iterable[Path]) -> None:
    """Raises ConfigError for an option of a judge if all files hold scores."""
    options_of_a_judge = {
        "--judge": options.judge,
        "--device": options.device,
        "--dtype": options.dtype,
    }
    typed = [name for name, value in options_of_a_judge.items() if value is not None]
    if typed and all(path.is_dir() or holds_judgements(path) for path in paths):
        hint = f"leave {typed[0]} out, or give the chats instead of their scores"
        raise ConfigError(f"{typed[0]} is for chats, and all files hold scores", hint=hint)


def read_systems(
    options: CompareOptions,
    judge: Judge | None = None,
    reading: ReadingReport | None = None,
    progress: Callable[[int], None] | None = None,
) -> Systems:
    """Reads the dialogues of every file. Chats are scored by ``judge``, or else by the judge of the
    options; with ``out``, scores go to ``out``/scores/ and an earlier run is resumed.

    Raises MedalError for files scored by different judges, and for fewer than two systems.
    """
    import pandas

    read = partial(dialogues_of, options=options.reading, reading=reading)
    texts = _without_turns(dialogue for path in options.chats for dialogue in read(path))
    sources = options.sources
    _require_chats_for_a_judge(options, sources.values())
    if judge is None and options.judge is not None:
        judge = choose_judge(options.judge, device=options.device, dtype=options.dtype).load()
    frames: list[DataFrame] = []
    stated: list[tuple[str, Sequence[Dimension]]] = []
    judges: dict[str, Path] = {}
    for (name, path), slug in zip(sources.items(), unique_slugs(list(sources)), strict=True):
        known = texts
        if path.is_dir() or holds_judgements(path):
            frame = frame_of(score_files([path]))
        else:
            if judge is None:
                judge = choose_judge(BOXED, device=options.device, dtype=options.dtype).load()
            dialogues = list(read(path))
            known = _without_turns(dialogues)
            if options.out is None:
                frame = to_frame(judge.score(dialogues, progress=progress))
            else:
                file = options.out / "scores" / f"{slug}.jsonl"
                with only_run(file):
                    score_to_file(iter(dialogues), judge, file, progress=progress)
                frame = read_frame(file)
        for text in frame["judge"].unique():
            signature = replace(Signature.parse(text), data=None, dimension=None, seed=None)
            judges.setdefault(str(signature), path)
        stated.append((str(path), stated_dimensions(frame)))
        if len(frame):
            frames.append(_rows(name, frame, known))
    if len(judges) > 1:
        (first, where), (other, there) = list(judges.items())[:2]
        raise MedalError(
            f"{where} and {there} were scored by different judges ({first} and {other})",
            hint="score both with one judge and setting: medal score, or --judge with the chats",
        )
    frame = pandas.concat(frames, ignore_index=True) if frames else None
    if frame is None or "score" not in frame or frame["score"].isna().all(axis=None):
        raise MedalError("no dialogue has a score", hint="see the field failure of each line")
    systems = Systems(frame, next(iter(judges)), stated)
    if options.by is not None:
        names = systems.column(options.by, required=True)
        frame = frame[names.notna()].copy()
        frame["row", "system"] = names[names.notna()]
        frame = frame.sort_values(("row", "system"), kind="stable", ignore_index=True)
        systems = replace(systems, frame=frame, without=int(names.isna().sum()))
    if (count := len(systems.names)) > MOST_SYSTEMS:
        problem = f"{count:,} systems are too many pairs: at most {MOST_SYSTEMS} are compared"
        raise MedalError(problem, hint="leave some out, or choose another column for --by")
    if len(systems.names) < 2:
        by = options.by
        what = f"all rows have the {by} {systems.names[0]!r}" if by else "one system"
        raise MedalError(
            f"{what}: nothing to compare", hint="give two files or more, or --by COLUMN"
        )
    return systems


def _without_turns(dialogues: Iterable[Dialogue]) -> dict[str, tuple[str | None, Dialogue]]:
    """The first user turn and the dialogue without its turns, by id."""
    found = {}
    for dialogue in dialogues:
        user = next((turn.content for turn in dialogue.turns if turn.role == "user"), "")
        found[dialogue.id] = (" ".join(user.split()) or None, replace(dialogue, turns=()))
    return found


def _rows(
    system: str, frame: DataFrame, texts: dict[str, tuple[str | None, Dialogue]]
) -> DataFrame:
    """One row for each dialogue, with the mean of its turns' scores."""
    import pandas

    grouped = frame.groupby("id", sort=False)
    last = grouped.last()
    ids = last.index.to_series()
    columns: dict[tuple[str, str], Any] = {("row", "system"): system, ("row", "id"): ids}
    known = [texts.get(id, (None, None)) for id in ids]
    nothing = [None] * len(ids)
    columns["row", "source"] = system
    for name in ("turn", "chat"):
        column = last[name].astype(object) if name in last else nothing
        columns["row", name] = column
    columns["row", "opening"] = [opening for opening, _ in known]
    columns["row", "dialogue"] = [dialogue for _, dialogue in known]
    for name, column in frame.attrs["dimensions"].items():
        columns["score", name] = grouped[column].mean()
        columns["asked", name] = True
    for name, column in frame.attrs["meta"].items():
        columns["meta", name] = last[column].astype(object)
    stated = columns.get(("meta", "lang"), nothing)
    detected = grouped["detected_language"].first() if "detected_language" in frame else nothing
    columns["row", "lang"] = [
        value_as_text(lang) or (dialogue and (value_as_text(found) or dialogue.lang))
        for lang, found, (_, dialogue) in zip(stated, detected, known, strict=True)
    ]
    made = pandas.DataFrame(columns, index=last.index)
    made.columns = pandas.MultiIndex.from_tuples(columns)
    return made


def turns_of(systems: Systems, options: CompareOptions, rows: Sequence[int]) -> dict[int, Turns]:
    """The turns of these rows, shortened, from a second pass over the chats. Rows of score files
    have turns only if ``options.chats`` has their id and no other row has it."""
    ids, sources = systems.row("id"), systems.row("source")
    own = {n: p for n, p in options.sources.items() if p.is_file() and not holds_judgements(p)}
    clear, found = ~ids.duplicated(keep=False), dict[int, Turns]()
    for name, path in [*own.items(), *((None, Path(path)) for path in options.chats)]:
        of_scores = [i for i in rows if sources[i] not in own and clear[i]]
        wanted = [i for i in rows if sources[i] == name] if name else of_scores
        names, again = {ids[i] for i in wanted}, ReadingReport(keep=0)
        for dialogue in dialogues_of(path, options.reading, again) if wanted else ():
            if dialogue.id in names:
                turns, _ = shortened([(t.role, t.content) for t in dialogue.turns])
                found |= {i: turns for i in wanted if ids[i] == dialogue.id}
    return found


def find_contexts(systems: Systems, column: str | None) -> tuple[Series, str, str]:
    """Returns the context of each row, a description of the contexts, and a note.

    The context is the given ``column``. Otherwise it is the first of these that systems share: a
    column named context or scene, the id, the first user turn. If they share none, each dialogue is
    its own context.
    """
    ids, opening = systems.row("id"), systems.row("opening").astype(object)

    def shared(values: Series) -> Series:  # whether several systems have the value of each row
        return systems.row("system").groupby(values).transform("nunique").fillna(0) > 1

    notes = []
    for name in (column,) if column is not None else _SCENES:
        values = systems.column(name, required=column is not None)
        if column is None and not (values.nunique() > 1 and shared(values).any()):
            continue
        if (most := values.value_counts().max() / len(values)) <= _MOST:
            return systems.grouped(name, "column"), f"the column {name!r}", ""
        notes.append(f"{most:.0%} of the rows have one {name}, so it pairs nothing.")
    if shared(ids).any():
        # Numbers from 1 on in two files name nothing common: dialogues of one id begin alike.
        same = opening.groupby(ids)
        openings = same.nunique()[same.count() > 1]
        if (openings == 1).sum() >= _ALIKE * len(openings):
            return "id " + ids, "the id", " ".join(notes)
        notes.append("Systems share ids, but the dialogues of one id begin differently.")
    # Openings that systems have equally often, or rarely, are contexts; a greeting that opens 50
    # dialogues of one system and 45 of another is not.
    counts = opening.groupby([opening, systems.row("system")]).size().groupby(level=0)
    uneven = (counts.size() == 1) | (counts.nunique() > 1)
    greetings = counts.sum()[(counts.max() > _FEW) & uneven].sort_values(ascending=False)
    alone = opening.isna() | opening.isin(greetings.index)
    names = systems.alone.where(alone, "opening " + opening)
    if shared(names).mean() < _COMMON:  # "how are you?" begins a few dialogues of any two systems
        return systems.alone, "", " ".join(notes)
    if len(greetings):
        first = str(greetings.index[0])
        first = first if len(first) <= 40 else first[:39] + "…"
        more = f" and {len(greetings) - 1} more" if len(greetings) > 1 else ""
        notes.append(
            f"{first!r}{more} open many dialogues, and not equally many of each system: a greeting,"
            " not a context that systems share."
        )
    return names, "the first user turn", " ".join(notes)
