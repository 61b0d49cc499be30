"""The dialogues of several systems with their scores and contexts, from files of scores, or from
chats and a judge."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from medal_judges.config import BOXED, DEVICE, Config, option
from medal_judges.errors import ConfigError, MedalError
from medal_judges.eval.scores.bad import THRESHOLDS
from medal_judges.eval.scores.columns import read_columns, value_as_text
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
# The minimum share of rows whose opening two systems have, to pair by openings.
_COMMON = 0.2
# The share of rows with one context, up to which a column tells contexts apart.
_LARGEST_CONTEXT = 0.5
_ALIKE = 0.5  # minimum share of shared ids with equal openings, to pair by ids
_OPENING = "opening"

# By the id of a chat: its first user turn, and its values of the columns.
_Chats = dict[str, dict[str, Any]]


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
        None,
        help="Column that names the system: chatbot, or one of medal score --keep.",
    )
    judge: str | None = option(
        None,
        help="Scores chats: shipped name, YAML file, folder or hub id; boxed by default.",
    )
    human: tuple[str, ...] = option(
        (),
        metavar="[NAME=]FILE",
        help="Human labels, which correct the judge; may be repeated.",
    )
    chats: tuple[str, ...] = option(
        (), help="Dialogues of the scores, by id; may be repeated."
    )
    out: Path | None = option(
        None, help="Folder to write: page, JSON, tables, figures and resumed scores."
    )
    fail_if_worse: float | None = option(
        None,
        ge=0,
        metavar="MARGIN",
        help="Gate: no system is worse than the first one by more than MARGIN (0: at all).",
    )
    fail_if_more_bad: float | None = option(
        None,
        ge=0,
        le=1,
        metavar="MARGIN",
        help="Gate: no system has a larger share of bad scores than the first one by more than "
        "MARGIN (0.05: 5 points).",
    )
    bad: tuple[str, ...] = THRESHOLDS
    min_coverage: float = option(
        0.98,
        ge=0,
        le=1,
        help="Minimum coverage of a gate; exits with status 3 below it.",
    )
    junit: Path | None = option(
        None, help="File to write: the gates as JUnit XML, for CI."
    )
    dimensions: tuple[str, ...] = option(
        (), flag="--dimension", help="Only this dimension; may be repeated."
    )
    context: str | None = option(
        None, help="Column that names the context, such as scene."
    )
    cluster: str | None = option(
        None, help="Column whose rows belong together, such as user."
    )
    rubric: str | None = option(
        None,
        help="Shipped name or YAML file: scales and good ends that the scores do not state.",
    )
    device: str | None = DEVICE
    dtype: Literal["auto", "fp32", "bf16", "fp16"] | None = option(
        None, help="Precision of the judge; see medal score."
    )
    reading: ReadOptions = ReadOptions()

    @model_validator(mode="after")
    def _check(self) -> CompareOptions:
        has_gate = self.fail_if_worse is not None or self.fail_if_more_bad is not None
        if self.junit is not None and not has_gate:
            raise ConfigError("--junit needs a gate", hint="--fail-if-worse MARGIN")
        return self

    @property
    def columns(self) -> list[str]:
        """The names of the columns that the comparison may need."""
        chosen = filter(None, (self.by, self.context, self.cluster))
        return list(dict.fromkeys((*_SCENES, "lang", *chosen)))

    @property
    def sources(self) -> dict[str, Path]:
        """The file of each system. A system without a name is named after its file, and after its
        folders if several files have that name. Raises MedalError if two systems have the same
        name."""
        paths: list[Path] = []
        names: list[str] = []
        for text in self.files:
            name, _, file = text.partition("=")
            if not name or not file or "/" in name or Path(text).exists():
                name, file = "", text
            names.append(name)
            paths.append(Path(file))
        sources: dict[str, Path] = {}
        for name, file_name, path in zip(names, _file_names(paths), paths, strict=True):
            system = name or file_name
            if system in sources:
                hint = "name them: v1=old.jsonl v2=new.jsonl"
                raise MedalError(f"two systems are named {system!r}", hint=hint)
            sources[system] = path
        return sources


def _file_names(paths: Sequence[Path]) -> list[str]:
    """Returns the names of files without their endings; before equal names stand the folders in
    which they differ."""
    stems = [_without_endings(path.name) for path in paths]
    counts = Counter(stems)
    places = [path.absolute().parent for path in paths]
    common = os.path.commonpath(places)
    numbers = Counter[str]()
    names = []
    for stem, place in zip(stems, places, strict=True):
        name = stem
        if counts[stem] > 1:
            name = str(place.relative_to(common) / stem)
        numbers[name] += 1
        if numbers[name] > 1:  # the same file again
            name += f"-{numbers[name]}"
        names.append(name)
    return names


def _without_endings(name: str) -> str:
    """Returns the name of a file without its endings, if something is left."""
    stem = name
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    return stem or name


@dataclass(slots=True)
class Systems:
    """All dialogues, system by system. ``frame`` has a row for each dialogue and two levels of
    columns: ``row`` (system, source (its file's name), id, turn (the last judged one), chat, and
    opening, if the chat is known), ``score`` by dimension (means over judged turns), ``asked``
    (whether the judge scores the dimension) and ``column`` (texts of CompareOptions.columns).
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
        is_scored = self.frame["asked", dimension].notna().to_numpy()
        return np.asarray(is_scored & np.isnan(self.scores(dimension)))

    def column(self, name: str, *, required: bool = False) -> Series:
        """Returns a column as text, by its name in ``medal score --keep``; None if a row has no
        value. Raises MedalError if the column is ``required`` and no row has a value."""
        values = self.frame["column", name]
        if required and values.isna().all():
            hint = f"to keep a column in the scores: medal score --keep {quote(name)}"
            raise MedalError(f"no row has a value of {name!r}", hint=hint)
        return values

    def grouped(self, name: str, kind: str) -> Series:
        """Returns the group of each row by a required column. A row without a value is its own
        group."""
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
        raise ConfigError(
            f"{typed[0]} is for chats, and all files hold scores", hint=hint
        )


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

    chats_of_scores: _Chats = {}
    for file in options.chats:
        read = dialogues_of(file, options.reading, reading)
        chats_of_scores |= _read_chats(read, options.columns)
    sources = options.sources
    _require_chats_for_a_judge(options, sources.values())
    if judge is None and options.judge is not None:
        judge = _load_judge(options, options.judge)
    frames: list[DataFrame] = []
    stated: list[tuple[str, Sequence[Dimension]]] = []
    file_of_judge: dict[str, Path] = {}
    slugs = unique_slugs(list(sources))
    for (name, path), slug in zip(sources.items(), slugs, strict=True):
        if path.is_dir() or holds_judgements(path):
            frame, chats = frame_of(score_files([path])), chats_of_scores
        else:
            if judge is None:
                judge = _load_judge(options, BOXED)
            dialogues = list(dialogues_of(path, options.reading, reading))
            frame = _score(dialogues, judge, options, slug, progress)
            chats = _read_chats(dialogues, options.columns)
        for text in frame["judge"].unique():
            signature = replace(
                Signature.parse(text), data=None, dimension=None, seed=None
            )
            file_of_judge.setdefault(str(signature), path)
        stated.append((str(path), stated_dimensions(frame)))
        if len(frame):
            frames.append(_rows(name, frame, chats, options.columns))
    if len(file_of_judge) > 1:
        (first, first_file), (second, second_file) = list(file_of_judge.items())[:2]
        raise MedalError(
            f"{first_file} and {second_file} were scored by different judges ({first} and "
            f"{second})",
            hint="score both with one judge and setting: medal score, or --judge with the chats",
        )
    rows = pandas.concat([pandas.DataFrame(), *frames], ignore_index=True)
    if "score" not in rows or rows["score"].isna().all(axis=None):
        raise MedalError(
            "no dialogue has a score", hint="see the field failure of each line"
        )
    systems = Systems(rows, next(iter(file_of_judge)), stated)
    if options.by is not None:
        systems = _named_by(systems, options.by)
    _require_two_systems(systems, options.by)
    return systems


def _load_judge(options: CompareOptions, name: str) -> Judge:
    return choose_judge(name, device=options.device, dtype=options.dtype).load()


def _score(
    dialogues: list[Dialogue],
    judge: Judge,
    options: CompareOptions,
    slug: str,
    progress: Callable[[int], None] | None,
) -> DataFrame:
    """Returns the judgements of a file of chats; with ``out`` they are written, or resumed."""
    if options.out is None:
        return to_frame(judge.score(dialogues, progress=progress))
    file = options.out / "scores" / f"{slug}.jsonl"
    with only_run(file):
        score_to_file(iter(dialogues), judge, file, progress=progress)
    return read_frame(file)


def _named_by(systems: Systems, column: str) -> Systems:
    """Returns the rows that have a value of the column, by systems named after it."""
    names = systems.column(column, required=True)
    frame = systems.frame[names.notna()].copy()
    frame["row", "system"] = names[names.notna()]
    frame = frame.sort_values(("row", "system"), kind="stable", ignore_index=True)
    return replace(systems, frame=frame, without=int(names.isna().sum()))


def _require_two_systems(systems: Systems, by: str | None) -> None:
    count = len(systems.names)
    if count > MOST_SYSTEMS:
        problem = (
            f"{count:,} systems are too many pairs: at most {MOST_SYSTEMS} are compared"
        )
        raise MedalError(
            problem, hint="leave some out, or choose another column for --by"
        )
    if count < 2:
        problem = f"all rows have the {by} {systems.names[0]!r}" if by else "one system"
        hint = "give two files or more, or --by COLUMN"
        raise MedalError(f"{problem}: nothing to compare", hint=hint)


def _read_chats(dialogues: Iterable[Dialogue], names: Sequence[str]) -> _Chats:
    chats: _Chats = {}
    for dialogue in dialogues:
        user_turns = (turn.content for turn in dialogue.turns if turn.role == "user")
        opening = " ".join(next(user_turns, "").split())
        values = {_OPENING: opening or None}
        chats[dialogue.id] = values | metadata_of(dialogue, names)
    return chats


def _rows(
    system: str, frame: DataFrame, chats: _Chats, names: Sequence[str]
) -> DataFrame:
    """Returns one row for each dialogue, with the mean of its turns' scores."""
    import pandas

    grouped = frame.groupby("id", sort=False)
    last = grouped.last().reset_index()
    last.attrs = frame.attrs
    of_chats = pandas.DataFrame(
        [chats.get(id, {}) for id in last["id"]],
        columns=[_OPENING, *names],
        dtype=object,
    )
    columns: dict[tuple[str, str], Any] = {
        ("row", "system"): system,
        ("row", "id"): last["id"],
        ("row", "source"): system,
        ("row", "turn"): last["turn"].astype(object),
        ("row", "chat"): last.reindex(columns=["chat"])["chat"].astype(object),
        ("row", "opening"): of_chats[_OPENING],
    }
    for name, column in frame.attrs["dimensions"].items():
        columns["score", name] = grouped[column].mean().array
        columns["asked", name] = True
    for name, values in read_columns(last, names).values.items():
        columns["column", name] = values.fillna(of_chats[name]).map(value_as_text)
    rows = pandas.DataFrame(columns)
    rows.columns = pandas.MultiIndex.from_tuples(columns)
    return rows


def turns_of(
    systems: Systems, options: CompareOptions, rows: Sequence[int]
) -> dict[int, Turns]:
    """Returns the turns of these rows, shortened, from a second pass over the chats. Rows of score
    files have turns only if ``options.chats`` has their id and no other row has it."""
    ids, sources = systems.row("id"), systems.row("source")
    is_repeated = ids.duplicated(keep=False)
    rows_by_path: dict[Path, list[int]] = {}
    for row in rows:
        path = options.sources[sources[row]]
        if path.is_file() and not holds_judgements(path):
            rows_by_path.setdefault(path, []).append(row)
        elif not is_repeated[row]:
            for chats in options.chats:
                rows_by_path.setdefault(Path(chats), []).append(row)
    turns: dict[int, Turns] = {}
    for path, path_rows in rows_by_path.items():
        for dialogue in dialogues_of(path, options.reading, ReadingReport(keep=0)):
            rows_of_dialogue = [row for row in path_rows if ids[row] == dialogue.id]
            if rows_of_dialogue:
                short, _ = shortened(dialogue)
                turns |= dict.fromkeys(rows_of_dialogue, short)
    return turns


def find_contexts(systems: Systems, column: str | None) -> tuple[Series, str, str]:
    """Returns the context of each row, a description of the contexts, and a note.

    The context is the ``column``, if there is one. Otherwise it is the first of these that systems
    share: a column named context or scene, the id, the first user turn. If they share none, each
    dialogue is its own context.
    """
    notes: list[str] = []
    names = _SCENES if column is None else (column,)
    for name in names:
        values = systems.column(name, required=column is not None)
        tells_apart = values.nunique() > 1 and _is_shared(systems, values).any()
        if column is None and not tells_apart:
            continue
        largest_share = values.value_counts().max() / len(values)
        if largest_share <= _LARGEST_CONTEXT:
            return systems.grouped(name, "column"), f"the column {name!r}", ""
        notes.append(
            f"{largest_share:.0%} of the rows have one {name}, so it pairs nothing."
        )
    ids = systems.row("id")
    if _is_shared(systems, ids).any():
        if _begin_alike(systems):
            return "id " + ids, "the id", " ".join(notes)
        notes.append(
            "Systems share ids, but the dialogues of one id begin differently."
        )
    opening = systems.row("opening").astype(object)
    greetings = _greetings(systems, opening)
    is_alone = opening.isna() | opening.isin(greetings)
    names = systems.alone.where(is_alone, "opening " + opening)
    # "How are you?" begins a few dialogues of any two systems.
    if _is_shared(systems, names).mean() < _COMMON:
        return systems.alone, "", " ".join(notes)
    if greetings:
        notes.append(
            f"{greetings[0][:40]!r} opens many dialogues, and not equally many of each system: it "
            "and its like are greetings, not contexts that systems share."
        )
    return names, "the first user turn", " ".join(notes)


def _is_shared(systems: Systems, values: Series) -> Series:
    """Says of each row whether several systems have its value."""
    return systems.row("system").groupby(values).transform("nunique").fillna(0) > 1


def _begin_alike(systems: Systems) -> bool:
    """Says whether dialogues of one id have one opening. Numbers from 1 on in two files do not."""
    openings = systems.row("opening").astype(object)
    by_id = openings.groupby(systems.row("id"))
    openings = by_id.nunique()[by_id.count() > 1]
    return bool((openings == 1).sum() >= _ALIKE * len(openings))


def _greetings(systems: Systems, opening: Series) -> list[str]:
    """Returns the openings that are no contexts, the most frequent first.

    Openings that systems have equally often, or rarely, are contexts; a greeting that opens 50
    dialogues of one system and 45 of another is not.
    """
    counts = opening.groupby([opening, systems.row("system")]).size().groupby(level=0)
    is_uneven = (counts.size() == 1) | (counts.nunique() > 1)
    frequent = counts.sum()[(counts.max() > _FEW) & is_uneven]
    return [str(text) for text in frequent.sort_values(ascending=False).index]
